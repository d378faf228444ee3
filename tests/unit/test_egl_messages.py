"""Messages and decisions of gl/egl.py that need no GL."""

import ctypes
import ctypes.util
import glob
from contextlib import nullcontext
from typing import NoReturn
from unittest.mock import Mock

import pytest

from gles_delegate.errors import ContextError, DelegateError, GLError
from gles_delegate.gl import devices, egl, libegl
from gles_delegate.gl.devices import Device
from gles_delegate.gl.egl import EglContext
from gles_delegate.gl.libegl import Display, EglError, LibEgl

LLVMPIPE = "llvmpipe (LLVM 15.0.6, 256 bits)"


class FakeLibEgl(LibEgl):
    """An EGL that no display can be had from."""

    client_extensions = frozenset()

    def __init__(self) -> None:
        super().__init__(ctypes.CDLL(None))

    def devices(self) -> NoReturn:
        raise GLError("eglQueryDevicesEXT: this libEGL does not have it")

    def eglGetPlatformDisplayEXT(self, *arguments: object) -> NoReturn:  # noqa: N802
        raise EglError("eglGetPlatformDisplayEXT", 0x300C)

    def eglGetDisplay(self, native: int) -> NoReturn:  # noqa: N802
        raise EglError("eglGetDisplay", 0x3000)


class FakeNative(devices.NativeContext):
    """A context that only counts as one, which is current, and notes its destruction."""

    is_current = True

    def destroy(self) -> None:
        destroyed.append(self.renderer)


destroyed: list[str] = []


def native(renderer: str = LLVMPIPE, version: str = "OpenGL ES 3.2 Mesa 22.3.6") -> FakeNative:
    display = Display("surfaceless", 1, frozenset(), 0)
    strings = "Maker", renderer, version
    return FakeNative(FakeLibEgl(), display, 1, 0, 0x30A0, *strings, mark=Mock())


@pytest.fixture
def natives(monkeypatch: pytest.MonkeyPatch) -> list[FakeNative]:
    """The contexts that the devices of this machine give, in the order of trying."""
    contexts: list[FakeNative] = []
    destroyed.clear()
    monkeypatch.setattr(devices, "_working", lambda refusals: iter(contexts))
    return contexts


@pytest.fixture
def no_libegl(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> NoReturn:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    for module in (devices, egl):
        monkeypatch.setattr(module, "libegl", libegl.libegl.__wrapped__)


@pytest.mark.usefixtures("no_libegl")
def test_no_libegl() -> None:
    packages = f"libEGL.so.1 .* apt install {libegl.DEBIAN_PACKAGES}"
    for use in (EglContext, lambda: EglContext(0), egl.list_devices):
        with pytest.raises(ContextError, match=packages):
            use()
    assert egl.current_context() == 0


def test_no_device_says_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "libegl", FakeLibEgl)
    monkeypatch.setattr(glob, "glob", lambda pattern: ["/dev/dri/renderD_none"])
    monkeypatch.setattr(devices, "hindrances", lambda is_working: ["A=b is set."])
    with pytest.raises(ContextError) as caught:
        EglContext()
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("no device gave an OpenGL ES 3.1 context")
    assert lines[1] == "  surfaceless: eglGetPlatformDisplayEXT: EGL_BAD_PARAMETER"
    assert lines[2] == "  device: eglQueryDevicesEXT: this libEGL does not have it"
    assert lines[3].startswith("  gbm: /dev/dri/renderD_none: ")
    assert lines[4] == "  default: eglGetDisplay: EGL_SUCCESS (there is no display server)"
    assert lines[5] == "A=b is set."
    assert "apt install" in lines[6]
    assert egl.list_devices() == []


def test_what_fails_for_one_cause_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> NoReturn:
        raise EglError("eglMakeCurrent", 0x3002)

    monkeypatch.setattr(devices, "libegl", FakeLibEgl)
    monkeypatch.setattr(devices, "_robust_or_plain", refuse)
    monkeypatch.setattr(devices, "hindrances", lambda is_working: [])
    monkeypatch.setattr(FakeLibEgl, "restored", lambda egl: nullcontext())
    monkeypatch.setattr(FakeLibEgl, "initialized", lambda *arguments: None)
    sources = [devices._Source(name, int) for name in ("surfaceless", "device", "device")]
    monkeypatch.setattr(devices, "_sources", lambda *arguments: sources)
    with pytest.raises(ContextError) as caught:
        EglContext()
    assert str(caught.value).splitlines()[1:-1] == [
        "  surfaceless, device: OpenGL ES 3.2, OpenGL ES 3.1, OpenGL ES 3, OpenGL 4.5: "
        "eglMakeCurrent: EGL_BAD_ACCESS (the context is current on another thread: leave its with "
        "block there first)"
    ]


def test_hardware_wins_over_software(natives: list[FakeNative]) -> None:
    natives += [native(), native("softpipe"), native("Some GPU"), native("Other GPU")]
    context = EglContext()
    assert context.device.renderer == "Some GPU"
    assert context.device.index == 0
    assert destroyed == ["softpipe", LLVMPIPE]
    context.release()
    assert destroyed[2:] == ["Some GPU"]


def test_the_first_software_device_serves_where_there_is_no_other(
    natives: list[FakeNative],
) -> None:
    natives += [native(), native("softpipe")]
    assert EglContext().device.renderer == LLVMPIPE
    assert destroyed == ["softpipe"]


def test_list_devices_has_hardware_first(natives: list[FakeNative]) -> None:
    natives += [native(), native("Some GPU")]
    assert [(d.index, d.renderer, d.software) for d in egl.list_devices()] == [
        (0, "Some GPU", False),
        (1, LLVMPIPE, True),
    ]
    assert len(destroyed) == 2
    assert EglContext(1).device.renderer == LLVMPIPE
    assert destroyed[2:] == ["Some GPU"]


def test_a_device_that_egl_does_not_identify_is_told_by_its_strings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    renderers = iter(["Some GPU", "Some GPU", "Other GPU"])
    monkeypatch.setattr(devices, "libegl", FakeLibEgl)
    monkeypatch.setattr(FakeLibEgl, "initialized", lambda *arguments: None)
    monkeypatch.setattr(devices, "create_context", lambda *arguments: native(next(renderers)))
    monkeypatch.setattr(
        devices, "_sources", lambda *arguments: [devices._Source("device", int)] * 3
    )
    assert [device.renderer for device in egl.list_devices()] == ["Some GPU", "Other GPU"]


@pytest.mark.parametrize(
    ("version", "is_sufficient"),
    [
        ("OpenGL ES 3.2 Mesa 22.3.6", True),
        ("OpenGL ES 3.1 v1.r12p0", True),
        ("OpenGL ES 3.0 (4.5.0)", False),
        ("OpenGL ES-CM 1.1", False),
        ("4.5 (Core Profile) Mesa 22.3.6", True),
        ("4.6.0 NVIDIA 550.54", True),
        ("4.3 (Core Profile)", False),
        ("", False),
    ],
)
def test_versions(version: str, is_sufficient: bool) -> None:
    assert native(version=version).is_sufficient is is_sufficient


@pytest.mark.parametrize(
    ("renderer", "software"),
    [
        (LLVMPIPE, True),
        ("softpipe", True),
        ("zink (llvmpipe (LLVM 15.0.6, 256 bits))", True),
        ("ANGLE (Google, Vulkan 1.3.0 (SwiftShader Device (Subzero) (0x0000C0DE)))", True),
        ("V3D 4.2", False),
        ("NVIDIA H200/PCIe/SSE2", False),
    ],
)
def test_software_is_told_from_the_renderer(renderer: str, software: bool) -> None:
    assert native(renderer).software is software


def test_device_is_one_line() -> None:
    device = Device(1, "device", "Mesa", LLVMPIPE, "4.5 (Core Profile) Mesa 22.3.6", software=True)
    assert str(device) == (
        "1: llvmpipe (LLVM 15.0.6, 256 bits), OpenGL 4.5 (Core Profile) Mesa 22.3.6 "
        "(software, EGL device)"
    )


def test_errors_name_function_and_constant() -> None:
    assert str(EglError("eglCreateContext", 0x3009)) == "eglCreateContext: EGL_BAD_MATCH"
    assert str(EglError("eglCreateContext", 0x1234)) == "eglCreateContext: 0x1234"
    assert "another thread" in str(EglError("eglMakeCurrent", 0x3002))
    assert issubclass(EglError, DelegateError)


def test_a_function_without_a_prototype_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="eglNoSuchCall"):
        _ = FakeLibEgl().eglNoSuchCall


def test_arguments_that_are_wrong_in_themselves() -> None:
    with pytest.raises(ValueError, match="device_index must be 0 or more, not -1"):
        EglContext(-1)
    with pytest.raises(ValueError, match="leave one of them out"):
        EglContext(0, share=object.__new__(EglContext))


@pytest.mark.parametrize(
    ("version", "extensions", "asked"),
    [
        ((1, 4), ["EGL_EXT_create_context_robustness"], [0x30BF, 0]),
        ((1, 4), [], [0]),
        ((1, 5), ["EGL_EXT_create_context_robustness"], [0x30BF, 0x31B2, 0]),
        ((1, 5), [], [0x31B2, 0]),
    ],
)
def test_robustness_is_asked_for_as_egl_knows_it(
    version: tuple[int, int], extensions: list[str], asked: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """By the extension's number, then by EGL 1.5's; at last without."""
    found: list[int] = []

    def created(egl: LibEgl, display: Display, share: int, request: devices._Request) -> NoReturn:
        found.extend({*request.attributes} & {0x30BF, 0x31B2} or [0])
        raise EglError("eglCreateContext", 0x3004)

    monkeypatch.setattr(devices, "_created", created)
    display = Mock(version=version, extensions=frozenset(extensions))
    with pytest.raises(EglError):
        devices._robust_or_plain(FakeLibEgl(), display, 0, devices._REQUESTS[0])
    assert found == asked
