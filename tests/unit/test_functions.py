"""The GL functions that are called through ctypes, on functions that write down what they get."""

import ctypes
from typing import Any

import pytest

from gles_delegate.gl import functions as names
from gles_delegate.gl.functions import Functions

LARGE = (1 << 33) + 16
CALLS: dict[str, tuple[Any, ...]] = {
    "glActiveTexture": (0x84C0,),
    "glBindBufferRange": (0x90D2, 1, (1 << 32) - 1, LARGE, LARGE),
    "glBindImageTexture": (0, 7, 0, 0, 0, names.READ_ONLY, names.RGBA32F),
    "glCopyBufferSubData": (0x8892, 0x90D2, LARGE, LARGE, LARGE),
    "glDispatchCompute": (65535, 1, 1),
    "glDispatchComputeIndirect": (LARGE,),
    "glMemoryBarrier": (names.ALL_BARRIERS,),
    "glPixelTransferf": (0x0D14, 1.5),
    "glPopDebugGroupKHR": (),
    "glPushDebugGroup": (0x824A, 0, 2, b"ab"),
    "glTexSubImage2D": (0x0DE1, 0, 0, 0, 3, 5, 0x1908, 0x1406, LARGE),
    "glUniform1iv": (0, 3, (ctypes.c_int * 3)(1, -2, 3)),
}


class Driver:
    """Functions that keep their last arguments; `loaded` must not be collected before."""

    def __init__(self) -> None:
        self.loaded: list[Any] = []
        self.got: list[Any] = []

    def load(self, name: str) -> int:
        types = names._types_of(name)

        def function(*arguments: Any) -> None:
            self.got = [a[:3] if hasattr(a, "contents") else a for a in arguments]

        self.loaded.append(ctypes.CFUNCTYPE(*types)(function))
        return ctypes.cast(self.loaded[-1], ctypes.c_void_p).value or 0


@pytest.mark.parametrize("name", CALLS)
def test_a_prepared_call_passes_what_a_plain_one_does(name: str) -> None:
    driver = Driver()
    gl = Functions(driver.load)
    gl.unchecked(name)(*CALLS[name])
    expected = driver.got
    function, arguments = gl.prepared(name, *CALLS[name])
    driver.got = []
    function(*arguments)
    assert driver.got == expected == [a[:3] if hasattr(a, "_length_") else a for a in CALLS[name]]


def test_a_prepared_call_has_all_arguments() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Functions(Driver().load).prepared("glDispatchCompute", 1, 1)
