"""The limits of a device, as plain data for planning."""

from __future__ import annotations

from dataclasses import dataclass

from gles_delegate.device.profiles import UNKNOWN, Profile


@dataclass(frozen=True)
class Limits:
    """Limits of compute shaders; the defaults are guaranteed by OpenGL ES 3.1 (table 20.45 ff.).

    Attributes:
        storage_blocks: Shader storage blocks of one compute shader.
        invocations: Invocations of one work group.
        local_size: Invocations of one work group in x, y and z.
        groups: Work groups of one dispatch in x, y and z.
        image_units: Buffer textures that one compute shader may read and write.
        shared_bytes: Shared memory of one work group.
        block_bytes: Size of one shader storage block.
        large_texels: Texels of buffer textures for tensors larger than a storage block; 0: such
            tensors are not supported.
        buffer_texels: Texels of buffer textures that tensors are read through; 0: tensors are read
            through shader storage blocks.
        offset_alignment: Alignment, in bytes, of the offset of a range that is bound of a buffer.
        texture_size: Texels of a texture along one side.
        size_uniforms: Sizes may be uniforms, so that dispatches share programs.
        profile: The kernels that suit its family of devices.
        simd_lanes: Invocations along x that a software rasterizer computes as one SIMD vector.
        store_loops: Storing a register tile in a loop compiles much faster.
        chain_blocks: Shader storage blocks of a chain; 0: no chains.
        chain_images: Buffer textures that a chain reads.
        loop_passes: Total loop passes after which the device silently ends every loop of an
            invocation.
        wrong_ops: Ops that the driver computes wrong, with the reason.
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
    offset_alignment: int = 256
    texture_size: int = 2048
    size_uniforms: bool = True
    profile: Profile = UNKNOWN
    simd_lanes: int = 8
    store_loops: bool = False
    chain_blocks: int = 0
    chain_images: int = 0
    loop_passes: int = (1 << 31) - 1
    wrong_ops: tuple[tuple[str, str], ...] = ()

    @property
    def reads(self) -> int:
        """Tensors that one shader may read, in addition to the one that it writes."""
        blocks = self.storage_blocks - 1
        return min(blocks, self.image_units) if self.buffer_texels else blocks

    @property
    def has_images(self) -> bool:
        """Whether tensors may be read and written through buffer textures."""
        return max(self.buffer_texels, self.large_texels) > 0

    def reads_for(self, nbytes: int) -> int:
        """`reads` of a shader that writes `nbytes`: a large output takes two image units."""
        return min(self.reads, self.image_units - 2) if self.is_large(nbytes) else self.reads

    def is_large(self, nbytes: int) -> bool:
        """Whether a tensor is larger than a storage block."""
        return nbytes > self.block_bytes
