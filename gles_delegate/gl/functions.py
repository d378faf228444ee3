"""The OpenGL ES functions of the package, through ctypes.

Each exists three times: as an attribute, which checks glGetError after every call; through
`unchecked`; and through `prepared`, for calls that are made at every run.
"""

from __future__ import annotations

import ctypes
import logging
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from ctypes import POINTER, c_float, c_int, c_int64, c_uint
from functools import cached_property
from typing import Any, TypeAlias

from gles_delegate.errors import (
    ContextError,
    ContextLostError,
    DelegateError,
    GLError,
    OutOfGpuMemoryError,
)
from gles_delegate.gl.libegl import WAS_RESET

log = logging.getLogger("gles_delegate")

VENDOR, RENDERER, VERSION = 0x1F00, 0x1F01, 0x1F02
NUM_EXTENSIONS, EXTENSIONS = 0x821D, 0x1F03
PROGRAM_BINARY_RETRIEVABLE_HINT, PROGRAM_BINARY_LENGTH = 0x8257, 0x8741
NUM_PROGRAM_BINARY_FORMATS = 0x87FE
COMPUTE_SHADER, COMPILE_STATUS, LINK_STATUS, INFO_LOG_LENGTH = 0x91B9, 0x8B81, 0x8B82, 0x8B84
CURRENT_PROGRAM, ARRAY_BUFFER, ARRAY_BUFFER_BINDING = 0x8B8D, 0x8892, 0x8894
SHADER_STORAGE_BUFFER, SHADER_STORAGE_BUFFER_BINDING = 0x90D2, 0x90D3
SHADER_STORAGE_BUFFER_START, SHADER_STORAGE_BUFFER_SIZE = 0x90D4, 0x90D5
TEXTURE_BUFFER, TEXTURE_BINDING_BUFFER, READ_ONLY, WRITE_ONLY = 0x8C2A, 0x8C2C, 0x88B8, 0x88B9
DISPATCH_INDIRECT_BUFFER, DISPATCH_INDIRECT_BUFFER_BINDING = 0x90EE, 0x90EF
RGBA32F, RGBA32I = 0x8814, 0x8D82
IMAGE_BINDING = (0x8F3A, 0x8F3B, 0x8F3C, 0x8F3D, 0x8F3E, 0x906E)
"""Name, level, layered, layer, access and format of an image unit."""
SHADER_IMAGE_ACCESS_BARRIER, BUFFER_UPDATE_BARRIER, SHADER_STORAGE_BARRIER = 0x20, 0x200, 0x2000
TEXTURE_FETCH_BARRIER, ALL_BARRIERS = 0x8, 0xFFFFFFFF
BUFFER_SIZE, SHADER_STORAGE_BUFFER_OFFSET_ALIGNMENT = 0x8764, 0x90DF
STATIC_DRAW, MAP_READ, MAP_WRITE, MAP_PERSISTENT, MAP_COHERENT = 0x88E4, 0x1, 0x2, 0x40, 0x80
ALL_COMPILER_THREADS = 0xFFFFFFFF
MAX_TEXTURE_SIZE = 0x0D33
TEXTURE_BUFFER_OFFSET_ALIGNMENT = 0x919F
TEXTURE0, ACTIVE_TEXTURE, TEXTURE_2D, TEXTURE_BINDING_2D = 0x84C0, 0x84E0, 0x0DE1, 0x8069
TEXTURE_EXTERNAL, TEXTURE_BINDING_EXTERNAL = 0x8D65, 0x8D67
TEXTURE_MIN_LOD, TEXTURE_BASE_LEVEL, TEXTURE_IMMUTABLE_LEVELS = 0x813A, 0x813C, 0x82DF
TEXTURE_MAX_LEVEL = 0x813D
SAMPLER_BINDING, TEXTURE_MIN_FILTER, TEXTURE_MAG_FILTER, NEAREST = 0x8919, 0x2801, 0x2800, 0x2600
TEXTURE_WIDTH, TEXTURE_HEIGHT, TEXTURE_INTERNAL_FORMAT = 0x1000, 0x1001, 0x1003
TEXTURE_RED_TYPE = 0x8C10
TEXTURE_SIZES = (0x805C, 0x805D, 0x805E, 0x805F)
"""Bits of red, green, blue and alpha."""
SPLIT_FORMATS = {0x1906, 0x190A, *range(0x803B, 0x803F), *range(0x8043, 0x8049), 0x8816, 0x8819}
SPLIT_FORMATS |= {0x881C, 0x881F, 0x8C44, 0x8C45}
"""ALPHA and LUMINANCE_ALPHA, which have a channel in alpha, and none in green alone."""
LUMINANCE_FORMATS = SPLIT_FORMATS | {0x1909, *range(0x803F, 0x8043), *range(0x8049, 0x804E)}
LUMINANCE_FORMATS |= {0x8817, 0x8818, 0x881D, 0x881E, 0x8C46, 0x8C47}
"""Also LUMINANCE and INTENSITY, of all sizes; GL gives none of them a type of red."""
SRGB_FORMATS = {*range(0x8C40, 0x8C50), 0x8FBD, 0x8FBE, 0x9275, 0x9277, 0x9279}
SRGB_FORMATS |= {*range(0x93D0, 0x93DE)}
"""Formats of encoded colors, which sampling decodes to linear light."""
SIGNED_NORMALIZED, UNSIGNED_NORMALIZED = 0x8F9C, 0x8C17
PIXEL_UNPACK_BUFFER, PIXEL_UNPACK_BUFFER_BINDING = 0x88EC, 0x88EF
PIXEL_PACK_BUFFER, PIXEL_PACK_BUFFER_BINDING, UNPACK_ALIGNMENT = 0x88EB, 0x88ED, 0x0CF5
UNPACK_STATE = {UNPACK_ALIGNMENT: 4, 0x0CF2: 0, 0x0CF3: 0, 0x0CF4: 0}
"""Alignment, row length, skipped rows and skipped pixels of texture uploads."""
PACK_STATE = {0x0D05: 4, 0x0D02: 0, 0x0D03: 0, 0x0D04: 0}
"""The same of reads."""
_UNPACK_SWAP_BYTES, _PACK_SWAP_BYTES = 0x0CF0, 0x0D00
_PACK_UPSIDE_DOWN = (0x8758, 0x93A4)
"""GL_MESA_pack_invert's and GL_ANGLE_pack_reverse_row_order's order of rows."""
_PIXEL_TRANSFER = {0x0D10: 0, **dict.fromkeys((0x0D14, 0x0D18, 0x0D1A, 0x0D1C), 1)} | dict.fromkeys(
    (0x0D15, 0x0D19, 0x0D1B, 0x0D1D), 0
)
"""Whether colors are mapped, their scales and their biases, of uploads and reads."""
_CONTEXT_PROFILE_MASK, _CORE_PROFILE = 0x9126, 0x1
RGBA8, RGBA16F, R32F, RED, RGBA = 0x8058, 0x881A, 0x822E, 0x1903, 0x1908
R8, RG8, RGB8, RG, RGB = 0x8229, 0x822B, 0x8051, 0x8227, 0x1907
UNSIGNED_BYTE, FLOAT, HALF_FLOAT = 0x1401, 0x1406, 0x140B
LINEAR, CLAMP_TO_EDGE, TEXTURE_WRAP_S, TEXTURE_WRAP_T = 0x2601, 0x812F, 0x2802, 0x2803
VERTEX_SHADER, FRAGMENT_SHADER, VERTEX_ARRAY_BINDING = 0x8B31, 0x8B30, 0x85B5
FRAMEBUFFER, READ_FRAMEBUFFER, DRAW_FRAMEBUFFER = 0x8D40, 0x8CA8, 0x8CA9
DRAW_FRAMEBUFFER_BINDING, READ_FRAMEBUFFER_BINDING, COLOR_ATTACHMENT0 = 0x8CA6, 0x8CAA, 0x8CE0
VIEWPORT, COLOR_CLEAR_VALUE, COLOR_BUFFER_BIT, STREAM_DRAW = 0x0BA2, 0x0C22, 0x4000, 0x88E0
BLEND, SCISSOR_TEST, COLOR_WRITEMASK = 0x0BE2, 0x0C11, 0x0C23
BLEND_FUNCTION = (0x80C9, 0x80C8, 0x80CB, 0x80CA)
"""Factors of the source's and the target's colors, and of their alpha."""
BLEND_EQUATION, FUNC_ADD = (0x8009, 0x883D), 0x8006
_MAX_VIEWPORTS = 0x825B
POLYGON_MODE, FRONT, BACK, FRONT_AND_BACK, FILL = 0x0B40, 0x0404, 0x0405, 0x0408, 0x1B02
CLIP_CONTROL, LOWER_LEFT, NEGATIVE_ONE_TO_ONE = (0x935C, 0x935D), 0x8CA1, 0x935E
SRC_ALPHA, ONE_MINUS_SRC_ALPHA, TRIANGLES, TRIANGLE_STRIP = 0x0302, 0x0303, 0x4, 0x5
TIME_ELAPSED, QUERY_RESULT, QUERY_COUNTER_BITS = 0x88BF, 0x8866, 0x8864
GPU_DISJOINT = 0x8FBB
BUFFER_OBJECT, PROGRAM_OBJECT, TEXTURE_OBJECT = 0x82E0, 0x82E2, 0x1702
DEBUG_SOURCE_APPLICATION, MAX_DEBUG_MESSAGE_LENGTH = 0x824A, 0x9143
MAX_LABEL_BYTES = 255  # bytes of a label that every driver accepts
SYNC_GPU_COMMANDS_COMPLETE, SYNC_FLUSH_COMMANDS, TIMEOUT_IGNORED = 0x9117, 0x1, (1 << 64) - 1
ALREADY_SIGNALED, TIMEOUT_EXPIRED, CONDITION_SATISFIED = 0x911A, 0x911B, 0x911C
MAX_COMPUTE_SHADER_STORAGE_BLOCKS, MAX_COMPUTE_IMAGE_UNIFORMS = 0x90DB, 0x91BD
MAX_COMPUTE_WORK_GROUP_INVOCATIONS, MAX_COMPUTE_SHARED_MEMORY_SIZE = 0x90EB, 0x8262
MAX_COMPUTE_WORK_GROUP_COUNT, MAX_COMPUTE_WORK_GROUP_SIZE = 0x91BE, 0x91BF
MAX_SHADER_STORAGE_BLOCK_SIZE, MAX_TEXTURE_BUFFER_SIZE = 0x90DE, 0x8C2B

RESET_NOTIFICATION_STRATEGY, LOSE_CONTEXT_ON_RESET = 0x8256, 0x8252
_RESETS = {
    0x8253: "GL_GUILTY_CONTEXT_RESET",
    0x8254: "GL_INNOCENT_CONTEXT_RESET",
    0x8255: "GL_UNKNOWN_CONTEXT_RESET",
}
INVALID_ENUM, INVALID_VALUE, INVALID_OPERATION = 0x0500, 0x0501, 0x0502
OUT_OF_MEMORY, LOST = 0x0505, 0x0507
_ERRORS = {
    INVALID_ENUM: "GL_INVALID_ENUM",
    INVALID_VALUE: "GL_INVALID_VALUE",
    INVALID_OPERATION: "GL_INVALID_OPERATION",
    OUT_OF_MEMORY: "GL_OUT_OF_MEMORY",
    0x0506: "GL_INVALID_FRAMEBUFFER_OPERATION",
    LOST: "GL_CONTEXT_LOST",
}

_Int, _Uint, _Size, _Float = ctypes.c_int, ctypes.c_uint, ctypes.c_ssize_t, ctypes.c_float
_Int64, _Uint64, _Bool = ctypes.c_int64, ctypes.c_uint64, ctypes.c_ubyte
_Text, _Address = ctypes.c_char_p, ctypes.c_void_p
_Ints, _Uints = POINTER(_Int), POINTER(_Uint)
_SIGNATURES: dict[tuple[Any, ...], str] = {  # the result's type, then the arguments'
    (None,): "glFinish glFlush glPopDebugGroup",
    (None, _Uint): (
        "glActiveTexture glBindVertexArray glClear glCompileShader glDeleteProgram glDeleteShader "
        "glDisable glEnable glEnableVertexAttribArray glEndQuery glLinkProgram "
        "glMaxShaderCompilerThreads glMemoryBarrier glUseProgram"
    ),
    (None, _Uint, _Uint): (
        "glAttachShader glBeginQuery glBindBuffer glBindFramebuffer glBindSampler glBindTexture "
        "glBlendEquationSeparate glClipControl glDisablei glEnablei glPolygonMode "
        "glVertexAttribDivisor"
    ),
    (None, *[_Uint] * 4): "glBlendFuncSeparate",
    (None, *[_Uint] * 5): "glBlendFuncSeparatei",
    (None, *[_Bool] * 4): "glColorMask",
    (None, _Uint, *[_Bool] * 4): "glColorMaski",
    (None, _Uint, *[_Float] * 4): "glViewportIndexedf",
    (None, *[_Uint] * 4, _Int): "glFramebufferTexture2D",
    (None, *[_Int] * 4): "glViewport",
    (None, _Uint, _Int, _Int, _Int): "glDrawArraysInstanced",
    (None, _Uint, _Int, _Uint, _Bool, _Int, _Address): "glVertexAttribPointer",
    (None, _Int, _Int, _Address): "glUniform1fv glUniform2fv glUniform3fv glUniform4fv",
    (None, _Int, _Int, _Bool, _Address): "glUniformMatrix3x2fv",
    (None, _Uint, _Uint, _Uint): "glBindBufferBase glBlendEquationSeparatei glDispatchCompute",
    (None, _Uint, _Int): "glPixelStorei",
    (None, _Uint, _Float): "glPixelTransferf",
    (None, _Uint, _Uint, _Int): "glProgramParameteri glSamplerParameteri glTexParameteri",
    (None, _Uint, _Int, _Uint, _Int, _Int): "glTexStorage2D",
    (None, _Uint, *[_Int] * 7): "glCopyTexSubImage2D",
    (None, _Uint, *[_Int] * 5, _Uint, _Uint, _Address): "glTexSubImage2D",
    (None, *[_Int] * 4, _Uint, _Uint, _Address): "glReadPixels",
    (None, *[_Float] * 4): "glClearColor",
    (None, _Uint, _Uint, _Int, _Uint, _Int, _Uint, _Uint): "glBindImageTexture",
    (None, _Uint, _Address): "glEGLImageTargetTexture2DOES",
    (None, _Int, _Uints): (
        "glDeleteBuffers glDeleteFramebuffers glDeleteQueries glDeleteSamplers glDeleteTextures "
        "glDeleteVertexArrays glGenBuffers glGenFramebuffers glGenQueries glGenSamplers "
        "glGenTextures glGenVertexArrays"
    ),
    (None, _Int, _Int, _Ints): "glUniform1iv",
    (None, _Uint, _Ints): "glGetIntegerv",
    (None, _Uint, POINTER(_Float)): "glGetFloatv",
    (None, _Uint, _Uint, POINTER(_Float)): "glGetFloati_v glGetSamplerParameterfv",
    (None, _Uint, _Uint, _Float): "glSamplerParameterf",
    (None, _Uint, _Uint, _Ints): (
        "glGetIntegeri_v glGetProgramiv glGetQueryiv glGetShaderiv glGetTexParameteriv"
    ),
    (None, _Uint, _Int, _Uint, _Ints): "glGetTexLevelParameteriv",
    (None, _Uint, POINTER(_Int64)): "glGetInteger64v",
    (None, _Uint, _Uint, POINTER(_Int64)): "glGetBufferParameteri64v glGetInteger64i_v",
    (None, _Uint, _Uint, POINTER(_Uint64)): "glGetQueryObjectui64v",
    (None, _Uint, _Int, POINTER(_Text), _Address): "glShaderSource",
    (None, _Uint, _Int, _Address, _Text): "glGetProgramInfoLog glGetShaderInfoLog",
    (None, _Uint, _Uint, _Text, _Int): "glProgramBinary",
    (None, _Uint, _Int, _Ints, _Uints, _Text): "glGetProgramBinary",
    (None, _Uint, _Uint, _Int, _Text): "glObjectLabel glPushDebugGroup",
    (None, _Size): "glDispatchComputeIndirect",
    (None, _Uint, _Size, _Address, _Uint): "glBufferData glBufferStorage",
    (None, _Uint, _Size, _Size, _Address): "glBufferSubData",
    (None, _Uint, _Uint, _Uint, _Size, _Size): "glBindBufferRange glTexBufferRange",
    (None, _Uint, _Uint, _Size, _Size, _Size): "glCopyBufferSubData",
    (None, _Address): "glDeleteSync",
    (None, _Address, _Uint, _Uint64): "glWaitSync",
    (_Uint,): "glCreateProgram glGetError glGetGraphicsResetStatus",
    (_Uint, _Uint): "glCreateShader",
    (_Uint, _Address, _Uint, _Uint64): "glClientWaitSync",
    (_Int, _Uint, _Text): "glGetAttribLocation glGetUniformLocation",
    (_Bool, _Uint): "glIsBuffer glIsEnabled glIsProgram glIsSampler glIsTexture glUnmapBuffer",
    (_Bool, _Uint, _Uint): "glIsEnabledi",
    (_Bool, _Address): "glIsSync",
    (_Text, _Uint): "glGetString",
    (_Text, _Uint, _Uint): "glGetStringi",
    (_Address, _Uint, _Uint): "glFenceSync",
    (_Address, _Uint, _Size, _Size, _Uint): "glMapBufferRange",
}
_PROTOTYPES = {name: types for types, names in _SIGNATURES.items() for name in names.split()}
_CONVERTED = (_Size, _Float, _Int64, _Uint64, _Address)


def _types_of(name: str) -> tuple[Any, ...]:
    """The type of a function's result, and those of its arguments."""
    return _PROTOTYPES.get(name) or _PROTOTYPES[re.sub("(EXT|KHR|OES)$", "", name)]


GlCall: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]
"""A GL function without an error check, and its arguments."""
PixelState: TypeAlias = "tuple[tuple[str, int, int], ...]"
"""How the driver converts pixels: functions that set it, parameters, and the usual values."""


class Functions:
    """The GL functions of one context; valid while it is current.

    Args:
        load: Name to address, 0 where the driver lacks the function.

    Attributes:
        lost: The call and status that showed a reset of the context; empty before that.
        debug_suffix: Suffix of GL_KHR_debug's functions; None if the driver lacks them.
    """

    def __init__(self, load: Callable[[str], int]) -> None:
        self._load = load
        self._unchecked: dict[str, Callable[..., Any]] = {}
        self._bare: dict[str, Callable[..., Any]] = {}
        self._answers: dict[tuple[int, str], bool] = {}
        self._reset_status: Callable[[], int] | None = None
        self.lost = ""
        self.debug_suffix: str | None = None

    def unchecked(self, name: str) -> Callable[..., Any]:
        """The plain ctypes function; raises ContextError if the driver lacks it."""
        if name not in self._unchecked:
            self._unchecked[name] = self._loaded(name, *_types_of(name))
        return self._unchecked[name]

    def _loaded(self, name: str, *types: Any) -> Callable[..., Any]:
        addresses = (self._load(name + suffix) for suffix in ("", "EXT", "OES"))
        address = next(filter(None, addresses), 0)
        if not address:
            raise ContextError(f"the OpenGL driver lacks {name}; expected OpenGL ES 3.1")
        return ctypes.CFUNCTYPE(*types)(address)

    def prepared(self, name: str, *arguments: Any) -> GlCall:
        """A call with arguments that ctypes need not convert, in a third of the time.

        A function without `argtypes` takes an int as 32 bits; addresses are ints, too.
        """
        result, *types = _types_of(name)
        if name not in self._bare:
            self._bare[name] = self._loaded(name, result)
        pairs = zip(types, arguments, strict=True)
        return self._bare[name], tuple(t(v) if t in _CONVERTED else v for t, v in pairs)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = self.unchecked(name)

        def checked(*arguments: Any) -> Any:
            result = function(*arguments)
            self.check(name)
            return result

        setattr(self, name, checked)
        return checked

    def leave_objects(self) -> None:
        """Delete no more buffers, textures and programs: the end of the context does."""
        for name in ("glDeleteBuffers", "glDeleteTextures", "glDeleteProgram", "glDeleteShader"):
            setattr(self, name, lambda *arguments: None)

    def check(self, what: str) -> None:
        """Raise a pending error as an error of the call `what`, of the class for its number."""
        code = self.unchecked("glGetError")()
        if not code:
            return
        self.forget_errors()
        message = f"{what}: {_ERRORS.get(code, hex(code))}"
        if code == OUT_OF_MEMORY:
            raise OutOfGpuMemoryError(message)
        if code == LOST:
            self.lost = message
            self.refuse_lost()
        raise GLError(message)

    def watch_resets(self, is_es: bool) -> None:
        """Enable `check_reset` if the context, which must be current, reports resets."""
        strategy = c_int()
        self.unchecked("glGetIntegerv")(RESET_NOTIFICATION_STRATEGY, strategy)
        self.forget_errors()  # a context without robustness rejects the query
        if strategy.value != LOSE_CONTEXT_ON_RESET:
            return
        # The function without a suffix is OpenGL ES 3.2's; drivers may export it and reject calls.
        extensions = self.extensions()
        suffixes = [s for s in ("KHR", "EXT") if is_es and f"GL_{s}_robustness" in extensions]
        for suffix in (*suffixes, ""):
            with suppress(DelegateError):
                status = self.unchecked(f"glGetGraphicsResetStatus{suffix}")
                status()
                self.check("glGetGraphicsResetStatus")
                self._reset_status = status
                return

    def check_reset(self, what: str) -> None:
        """Raise `ContextLostError` if the driver has reset the context during `what`.

        Without GL_KHR_robustness, resets stay unnoticed.
        """
        if self._reset_status is not None:
            status = self._reset_status()
            if status:
                self.lost = f"{what}: {_RESETS.get(status, hex(status))}"
                self.refuse_lost()

    def refuse_lost(self) -> None:
        """Raise `ContextLostError` if the driver is known to have reset the context."""
        if self.lost:
            raise ContextLostError(f"{self.lost} ({WAS_RESET})")

    def forget_errors(self) -> list[int]:
        """Clear pending errors of other code's calls, and return them."""
        get_error = self.unchecked("glGetError")
        pending: list[int] = []
        while len(pending) < 16 and (code := get_error()):  # a lost context has its error forever
            pending.append(code)
        return pending

    def forget_app_errors(self) -> None:
        """Clear errors that calls of the app have left, which would count as the package's."""
        pending = self.forget_errors()
        if pending:
            names = ", ".join(_ERRORS.get(code, hex(code)) for code in pending)
            log.debug("an OpenGL call of the app failed before this call: %s", names)

    def label(self, kind: int, name: int, text: str) -> None:
        """Name an object for graphics debuggers if the driver can; does not check for errors.

        `kind` is `BUFFER_OBJECT`, `PROGRAM_OBJECT` or `TEXTURE_OBJECT`.
        """
        if self.debug_suffix is not None:
            data = text.encode("utf-8", "replace")[:MAX_LABEL_BYTES]
            self.unchecked(f"glObjectLabel{self.debug_suffix}")(kind, name, len(data), data)

    def group(self, text: str) -> tuple[GlCall, GlCall]:
        """The calls that begin and end a debug group; the driver must have GL_KHR_debug."""
        suffix = self.debug_suffix
        limit = self.integer(MAX_DEBUG_MESSAGE_LENGTH)
        data = text.encode("utf-8", "replace")[: limit - 1]
        begin = self.prepared(
            f"glPushDebugGroup{suffix}", DEBUG_SOURCE_APPLICATION, 0, len(data), data
        )
        return begin, self.prepared(f"glPopDebugGroup{suffix}")

    def generate(self, kind: str) -> int:
        """The name of a new object from glGen*; `kind` is the plural, such as "Buffers"."""
        name = c_uint()
        getattr(self, f"glGen{kind}")(1, name)
        if not name.value:
            raise OutOfGpuMemoryError(f"glGen{kind}: expected a name, found 0")
        return name.value

    def string(self, name: int) -> str:
        return bytes(self.glGetString(name) or b"").decode("utf-8", "replace")

    def integer(self, name: int, index: int | None = None) -> int:
        """glGetIntegerv or, with an index, glGetIntegeri_v."""
        return self._queried("glGetInteger", c_int(), name, index)

    def integer64(self, name: int, index: int | None = None) -> int:
        """glGetInteger64v or, with an index, glGetInteger64i_v."""
        return self._queried("glGetInteger64", c_int64(), name, index)

    def _queried(self, query: str, value: c_int | c_int64, name: int, index: int | None) -> int:
        end, at = ("v", ()) if index is None else ("i_v", (index,))
        getattr(self, query + end)(name, *at, value)
        return value.value

    @cached_property
    def unpack_state(self) -> PixelState:
        """The state that changes the pixels of uploads; there is more of it in desktop OpenGL."""
        return self._pixel_state(UNPACK_STATE, _UNPACK_SWAP_BYTES)

    @cached_property
    def pack_state(self) -> PixelState:
        """The state that changes the pixels of reads."""
        upside_down = dict.fromkeys(filter(self.answers, _PACK_UPSIDE_DOWN), 0)
        return self._pixel_state(PACK_STATE | upside_down, _PACK_SWAP_BYTES)

    def _pixel_state(self, usual: dict[int, int], swap_bytes: int) -> PixelState:
        stored = dict(usual)
        transferred = {}
        if not self.version[0]:
            stored[swap_bytes] = 0
            if not self.is_core:
                transferred = _PIXEL_TRANSFER
        return (
            *(("glPixelStorei", *item) for item in stored.items()),
            *(("glPixelTransferf", *item) for item in transferred.items()),
        )

    def saved(self, state: PixelState) -> list[tuple[str, int, float]]:
        """The present values of a `PixelState`."""
        value = c_float()
        values: list[tuple[str, int, float]] = []
        for function, parameter, _ in state:
            if function == "glPixelStorei":
                values.append((function, parameter, self.integer(parameter)))
            else:
                self.glGetFloatv(parameter, value)
                values.append((function, parameter, value.value))
        return values

    def set_pixel_state(self, state: Iterable[tuple[str, int, float]]) -> None:
        """Set a `PixelState`, or values of `saved`; does not check for errors."""
        for function, parameter, value in state:
            self.unchecked(function)(parameter, value)

    def answers(self, parameter: int, query: str = "glGetIntegerv") -> bool:
        """Whether the driver knows a parameter, or a capability of the query "glIsEnabled"."""
        if (parameter, query) not in self._answers:
            values = () if query == "glIsEnabled" else ((c_int * 4)(),)
            self.unchecked(query)(parameter, *values)
            self._answers[parameter, query] = not self.forget_errors()
        return self._answers[parameter, query]

    @cached_property
    def first_buffer(self) -> tuple[int, ...]:
        """The index of draw buffer 0 in calls, where each draw buffer has its own state."""
        is_es, *version = self.version
        needed = [3, 2] if is_es else [4, 0]
        return (0,) if version >= needed else ()

    @cached_property
    def first_viewport(self) -> tuple[int, ...]:
        """Likewise of viewport 0."""
        return (0,) if self.answers(_MAX_VIEWPORTS) else ()

    @property
    def is_core(self) -> bool:
        """Whether it is desktop OpenGL without deprecated functions."""
        is_es, *version = self.version
        if is_es or version < [3, 2]:
            return False
        return bool(self.integer(_CONTEXT_PROFILE_MASK) & _CORE_PROFILE)

    @cached_property
    def version(self) -> tuple[bool, int, int]:
        """Whether it is OpenGL ES, and the major and minor numbers of the version."""
        text = self.string(VERSION)
        numbers = text.removeprefix("OpenGL ES ").partition(" ")[0].split(".")
        return text.startswith("OpenGL ES"), int(numbers[0]), int(numbers[1])

    def existing(self, kind: str, name: int) -> int:
        """The name of an object, or 0 if it no longer exists: other contexts may share it."""
        return name if name and self.unchecked(f"glIs{kind}")(name) else 0

    def extensions(self) -> set[str]:
        count = self.integer(NUM_EXTENSIONS)
        return {self.glGetStringi(EXTENSIONS, i).decode() for i in range(count)}
