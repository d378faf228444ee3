"""The driver of a context and its limits."""

from __future__ import annotations

import logging
import os
import re
from contextlib import suppress
from ctypes import c_int
from dataclasses import dataclass

from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import profile_of
from gles_delegate.errors import ContextError
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.functions import Functions
from gles_delegate.support.unpatched import Lock

log = logging.getLogger("gles_delegate")

MAX_READS = 5
"""Number of inputs named in glsl/lib/tensor.glsl: image units from 0 or storage blocks from 1."""

_COMPILERS = Lock()
"""NVIDIA's driver has one pool of compiler threads, and crashes if two set its size at once."""

_DEBUG_GROUPS = "GLES_DELEGATE_DEBUG_GROUPS"
"""If this variable is 1, each dispatch of a run is a group in graphics debuggers."""


@dataclass(frozen=True)
class Driver:
    """The driver of a context.

    Attributes:
        identity: The strings of vendor, renderer and version.
        is_es: True for OpenGL ES, False for desktop OpenGL.
        timers: Whether the GPU has usable timer queries.
        debug_groups: Whether the environment asks for a debug group around each dispatch.
        reads_copies: Whether a map of a buffer that shaders write is read more slowly than one of a
            copy of it.
        writes_mapped: Whether memory that stays mapped is written faster than by glBufferSubData.
    """

    identity: tuple[str, str, str]
    is_es: bool
    limits: Limits
    timers: bool
    debug_groups: bool
    reads_copies: bool
    writes_mapped: bool

    @classmethod
    def read(cls, gl: Functions, is_private: bool = False) -> Driver:
        """Query the current context's driver, and enable its GL_KHR_debug functions.

        A private context only has the delegate's bindings, and all threads to compile.

        Raises ContextError if it has neither OpenGL ES 3.1 nor OpenGL 4.3.
        """
        is_es, number = require_version(gl)
        names = (gl_names.VENDOR, gl_names.RENDERER, gl_names.VERSION)
        vendor, renderer, version = (gl.string(name) for name in names)
        extensions = gl.extensions()
        if number >= (3, 2) or "GL_KHR_debug" in extensions:  # OpenGL is 4.3 at least
            suffix = "" if number >= (3, 2) else "KHR"
            with suppress(ContextError):  # labels are not worth a failure
                gl.unchecked(f"glObjectLabel{suffix}")
                gl.debug_suffix = suffix
        if is_private and "GL_KHR_parallel_shader_compile" in extensions:
            with _COMPILERS:
                gl.unchecked("glMaxShaderCompilerThreadsKHR")(gl_names.ALL_COMPILER_THREADS)
        has_timers = "GL_EXT_disjoint_timer_query" in extensions or not is_es
        has_textures = number >= (3, 2) or bool(
            {"GL_EXT_texture_buffer", "GL_OES_texture_buffer"} & extensions
        )
        identity = (vendor, renderer, version)
        timer_bits = c_int()  # some drivers have queries, but no timer
        if has_timers and "llvmpipe" not in renderer:  # its timer ignores its worker threads
            gl.glGetQueryiv(gl_names.TIME_ELAPSED, gl_names.QUERY_COUNTER_BITS, timer_bits)
        wants_groups = os.environ.get(_DEBUG_GROUPS, "0") not in ("", "0")
        if wants_groups and gl.debug_suffix is None:
            log.warning("%s is set, but %s does not support GL_KHR_debug", _DEBUG_GROUPS, renderer)
        return cls(
            identity=identity,
            is_es=is_es,
            limits=_read_limits(gl, identity, has_textures, is_private),
            timers=timer_bits.value > 0,
            debug_groups=wants_groups and gl.debug_suffix is not None,
            # 9.0 and 5.1 GB/s, and 600 KB in 85 and 179 us, on an H200.
            reads_copies="NVIDIA" in vendor,
            writes_mapped="NVIDIA" in vendor
            and ("GL_EXT_buffer_storage" in extensions if is_es else number >= (4, 4)),
        )

    @property
    def renderer(self) -> str:
        return self.identity[1]

    @property
    def is_llvmpipe(self) -> bool:
        return "llvmpipe" in self.renderer


def _read_limits(
    gl: Functions, identity: tuple[str, str, str], has_textures: bool, is_private: bool
) -> Limits:
    vendor, renderer, version = identity
    is_llvmpipe = "llvmpipe" in renderer
    bits = re.search(r"llvmpipe.*\b(\d+) bits", renderer)  # "llvmpipe (LLVM 15.0.6, 256 bits)"
    profile = profile_of(vendor, renderer)
    sizes = [gl.integer(gl_names.MAX_COMPUTE_WORK_GROUP_SIZE, i) for i in range(3)]
    counts = [gl.integer(gl_names.MAX_COMPUTE_WORK_GROUP_COUNT, i) for i in range(3)]
    texels = gl.integer(gl_names.MAX_TEXTURE_BUFFER_SIZE) if has_textures else 0
    alignments = [gl_names.SHADER_STORAGE_BUFFER_OFFSET_ALIGNMENT]
    if has_textures:
        alignments.append(gl_names.TEXTURE_BUFFER_OFFSET_ALIGNMENT)
    return Limits(
        storage_blocks=min(gl.integer(gl_names.MAX_COMPUTE_SHADER_STORAGE_BLOCKS), MAX_READS + 1),
        image_units=min(gl.integer(gl_names.MAX_COMPUTE_IMAGE_UNIFORMS), MAX_READS),
        invocations=gl.integer(gl_names.MAX_COMPUTE_WORK_GROUP_INVOCATIONS),
        local_size=(sizes[0], sizes[1], sizes[2]),
        groups=(counts[0], counts[1], counts[2]),
        shared_bytes=gl.integer(gl_names.MAX_COMPUTE_SHARED_MEMORY_SIZE),
        block_bytes=gl.integer64(gl_names.MAX_SHADER_STORAGE_BLOCK_SIZE),
        large_texels=texels,
        buffer_texels=texels if profile.image_reads else 0,
        offset_alignment=max(map(gl.integer, alignments)),
        texture_size=gl.integer(gl_names.MAX_TEXTURE_SIZE),
        # On a software rasterizer, zink turns uniforms into constants, and may run a program with
        # an earlier dispatch's constants (Mesa 22.3).
        size_uniforms=not (is_llvmpipe and "zink" in renderer),
        profile=profile,
        simd_lanes=int(bits[1]) // 32 if bits else 8,
        # 25.0.7: 0.10 s, not 0.37, for 32 texels, 24.0.5: 0.14, down from 0.19, others: slower.
        store_loops=is_llvmpipe and (24, 0) <= _number(r"Mesa (\d+)\.(\d+)", version) < (25, 2),
        chain_blocks=gl.integer(gl_names.MAX_COMPUTE_SHADER_STORAGE_BLOCKS) if is_private else 0,
        chain_images=gl.integer(gl_names.MAX_COMPUTE_IMAGE_UNIFORMS) if is_private else 0,
        # Mesa's LP_MAX_TGSI_LOOP_ITERATIONS.
        loop_passes=65535 if is_llvmpipe else Limits.loop_passes,
    )


def require_version(gl: Functions) -> tuple[bool, tuple[int, int]]:
    """Whether the current context has OpenGL ES, not desktop OpenGL, and its version.

    Discards earlier errors. Raises ContextError if it has neither OpenGL ES 3.1 nor OpenGL 4.3.
    """
    gl.forget_errors()
    version = gl.string(gl_names.VERSION)
    is_es = "OpenGL ES" in version
    number = _number(r"(\d+)\.(\d+)", version)
    if number < ((3, 1) if is_es else (4, 3)):
        renderer = gl.string(gl_names.RENDERER)
        raise ContextError(
            f"expected OpenGL ES 3.1 or OpenGL 4.3, found {version!r} on {renderer!r}: ask for one "
            "when you create the context, as by moderngl.create_context(require=430)"
        )
    return is_es, number


def _number(pattern: str, version: str) -> tuple[int, int]:
    """The two groups of a pattern in GL's version string, as numbers; (0, 0) without a match."""
    match = re.search(pattern, version)
    return (int(match[1]), int(match[2])) if match else (0, 0)
