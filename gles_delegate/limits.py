"""The limits of a device, as plain data for planning."""

from __future__ import annotations

from dataclasses import dataclass

from gles_delegate.profiles import UNKNOWN, Profile


@dataclass(frozen=True)
class Limits:
    """Limits of compute shaders; the defaults are what OpenGL ES 3.1 guarantees (table 20.45 ff.).

    Attributes:
        storage_blocks: Shader storage blocks of one compute shader.
        invocations: Invocations of one work group.
        local_size: Invocations of one work group in x, y and z.
        groups: Work groups of one dispatch in x, y and z.
        image_units: Buffer textures that one compute shader may read and write.
        shared_bytes: Shared memory of one work group.
        block_bytes: Size of one shader storage block.
        large_texels: Texels of a buffer texture through which tensors larger than a storage block
            are read and written; 0: there are none.
        buffer_texels: Texels of a buffer texture through which tensors are read;
            0: tensors are read through shader storage blocks.
        texture_size: Texels of a texture along one side.
        size_uniforms: One program can serve dispatches of several sizes, which are uniforms then.
        profile: What suits its family of devices.
        simd_lanes: Invocations along x that a software rasterizer computes as one SIMD vector.
        store_loops: Storing a register tile in a loop compiles in much less time.
        loop_passes: Passes through loops, all together, after which the device ends every loop of
            an invocation without an error.
    """

    storage_blocks: int = 4
    image_units: int = 4
    invocations: int = 128
    local_size: tuple[int, int, int] = (128, 128, 64)
    groups: tuple[int, int, int] = (65535, 65535, 65535)
    shared_bytes: int = 16384
    block_bytes: int = 1 << 27
    large_texels: int = 0
    buffer_texels: int = 0
    texture_size: int = 2048
    size_uniforms: bool = True
    profile: Profile = UNKNOWN
    simd_lanes: int = 8
    store_loops: bool = False
    loop_passes: int = (1 << 31) - 1

    @property
    def reads(self) -> int:
        """Tensors that one shader may read beside the one it writes."""
        blocks = self.storage_blocks - 1
        return min(blocks, self.image_units) if self.buffer_texels else blocks

    def reads_for(self, nbytes: int) -> int:
        """`reads` of a shader that writes `nbytes`, for which it may need two units."""
        return min(self.reads, self.image_units - 2) if self.is_large(nbytes) else self.reads

    def is_large(self, nbytes: int) -> bool:
        """Whether a tensor is larger than a storage block."""
        return nbytes > self.block_bytes
