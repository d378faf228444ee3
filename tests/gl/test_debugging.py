"""Labels of objects, and a group for each dispatch, for graphics debuggers."""

import ctypes
from collections.abc import Callable, Iterator
from ctypes import POINTER, c_char_p, c_int, c_uint, c_void_p
from typing import Any

import pytest

import gles_delegate as gd
from gles_delegate.gl import functions as names
from gles_delegate.gl.driver import Driver
from gles_delegate.gl.functions import Functions
from tests.support.oracle import in_litert, in_ours
from tests.support.sketch import Sketch
from tests.support.small import INPUT, allocated, check, run, with_a_detour

SWITCH = "GLES_DELEGATE_DEBUG_GROUPS"
PUSH, POP, OUTPUT = 0x8269, 0x826A, 0x92E0


@pytest.fixture(params=["OpenGL ES 3.2", "OpenGL ES 3.1"])
def egl(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[gd.EglContext]:
    """A context for a delegate, whose functions of GL_KHR_debug have no suffix, or KHR."""
    read = Driver.read

    def read_older(gl: Functions, is_private: bool) -> Driver:
        driver = read(gl, is_private)
        if gl.debug_suffix is not None and "GL_KHR_debug" in gl.extensions():
            gl.debug_suffix = "KHR"
        return driver

    if request.param == "OpenGL ES 3.1":
        monkeypatch.setattr(Driver, "read", read_older)
    context = gd.EglContext()
    yield context
    context.release()


def labels(egl: gd.EglContext, kind: int) -> set[str]:
    address = egl.load("glGetObjectLabelKHR") or egl.load("glGetObjectLabel")
    kinds = (None, c_uint, c_uint, c_int, POINTER(c_int), c_char_p)
    get = ctypes.CFUNCTYPE(*kinds)(address)
    error = ctypes.CFUNCTYPE(c_uint)(egl.load("glGetError"))
    actual = set()
    with egl:
        for name in range(1, 200):
            text = ctypes.create_string_buffer(300)
            get(kind, name, len(text), None, text)
            if not error() and text.value:
                actual.add(text.value.decode())
    return actual


def test_objects_are_named_after_nodes_and_tensors(egl: gd.EglContext) -> None:
    with gd.GpuDelegate(context=egl) as delegate:
        interpreter = allocated(delegate)
        check(interpreter)
        interpreter.invoke_async().wait()
        buffers, programs = labels(egl, names.BUFFER_OBJECT), labels(egl, names.PROGRAM_OBJECT)
        tensors = [tensor["name"] for tensor in interpreter.get_tensor_details()]
        output = interpreter.get_output_details()[0]["name"]
    assert {"x", "arena", f"copy 0 of {output}", f"copy 1 of {output}"} < buffers
    (weights,) = (text for text in buffers if text.startswith("conv_weights: "))
    assert weights == f"conv_weights: {tensors[1]}, {tensors[2]}"
    assert f"conv_2d.glsl: 0 FULLY_CONNECTED + 1 MUL {tensors[4]}" in programs
    assert not labels(egl, names.BUFFER_OBJECT) | labels(egl, names.PROGRAM_OBJECT)


def test_a_long_name_is_cut(egl: gd.EglContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    s = Sketch(None)  # type: ignore[arg-type]
    content = s.build([s.op("RELU", [s.input((1, 4), name="x" * 9999)], [(1, 4)])])
    with gd.GpuDelegate(context=egl) as delegate:
        interpreter = allocated(delegate, content)
        interpreter.invoke()
        assert "x" * names.MAX_LABEL_BYTES in labels(egl, names.BUFFER_OBJECT)


class Messages:
    """The groups that the driver reports of a context, as its debugging tools see them."""

    def __init__(self, egl: gd.EglContext) -> None:
        self.lines: list[str] = []
        suffix = "KHR" if egl.load("glDebugMessageCallbackKHR") else ""

        def note(_: int, kind: int, *others: Any) -> None:
            if kind in (PUSH, POP):
                self.lines.append(("+" if kind == PUSH else "-") + others[3].decode())

        kinds = (None, c_uint, c_uint, c_uint, c_uint, c_int, c_char_p, c_void_p)
        self._callback = ctypes.CFUNCTYPE(*kinds)(note)
        load = egl.load(f"glDebugMessageCallback{suffix}")
        ctypes.CFUNCTYPE(None, c_void_p, c_void_p)(load)(
            ctypes.cast(self._callback, c_void_p), None
        )
        ctypes.CFUNCTYPE(None, c_uint)(egl.load("glEnable"))(OUTPUT)


@pytest.mark.parametrize("host", [in_ours, in_litert])
def test_each_dispatch_is_a_group(
    host: Callable[..., Any], egl: gd.EglContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "1")
    sketch, content = with_a_detour()
    options = gd.GpuDelegateOptions(max_delegated_partitions=2)
    with egl:
        messages = Messages(egl)
    with gd.GpuDelegate(options, context=egl, model=content) as delegate:
        interpreter = host(delegate, content)
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], sketch.feeds[0])
        messages.lines.clear()
        interpreter.invoke()
        groups = messages.lines[::2]
        assert groups == [line.replace("-", "+", 1) for line in messages.lines[1::2]]
        assert [name for name in groups if name[1].isdigit()] == [
            f"+0 RELU + 1 EXP {interpreter.get_tensor_details()[2]['name']}",
            f"+4 ADD + 5 TANH {interpreter.get_output_details()[0]['name']}",
        ]
        profile = delegate.profile()
    assert [f"+{time.name}" for time in profile] == groups
    assert {0, 4} <= {time.node for time in profile}
    assert profile.device == gd.list_devices()[0].renderer


def test_there_are_no_groups_unless_asked_for(
    egl: gd.EglContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "0")
    with egl:
        messages = Messages(egl)
    with gd.GpuDelegate(context=egl) as delegate:
        run(allocated(delegate))
    assert not messages.lines


def test_a_driver_without_debugging(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    extensions, string = Functions.extensions, Functions.string
    monkeypatch.setattr(Functions, "extensions", lambda self: extensions(self) - {"GL_KHR_debug"})
    monkeypatch.setattr(
        Functions, "string", lambda self, name: string(self, name).replace("ES 3.2", "ES 3.1")
    )
    monkeypatch.setenv(SWITCH, "1")
    with gd.GpuDelegate() as delegate:
        assert run(allocated(delegate)).shape == (len(INPUT), 7)
    assert "does not support GL_KHR_debug" in caplog.text


@pytest.mark.mesa
@pytest.mark.usefixtures("gpu_like")
def test_a_profile_is_by_the_timer_of_the_gpu() -> None:
    with gd.GpuDelegate() as delegate:
        check(allocated(delegate))
        profile = delegate.profile()
    assert profile.by_gpu_timer
    assert all(0 <= time.seconds < 1 for time in profile)


@pytest.mark.mesa
@pytest.mark.usefixtures("gpu_like")
def test_where_the_timer_was_wrong_the_clock_of_the_cpu_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    integer = Functions.integer

    def wrong(self: Functions, name: int, index: int | None = None) -> int:
        return 1 if name == names.GPU_DISJOINT else integer(self, name, index)

    def answer(self: Functions, query: object, name: int, result: Any) -> None:
        result.value = 10**15

    monkeypatch.setattr(Functions, "integer", wrong)
    monkeypatch.setattr(Functions, "glGetQueryObjectui64v", answer, raising=False)
    with gd.GpuDelegate() as delegate:
        check(allocated(delegate))
        assert all(0 < time.seconds < 60 for time in delegate.profile())
        monkeypatch.setattr(Functions, "integer", integer)
        assert all(time.seconds == 1e6 for time in delegate.profile())


@pytest.mark.mesa
@pytest.mark.usefixtures("gpu_like")
def test_a_timer_without_bits_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Functions, "glGetQueryiv", lambda *_: None, raising=False)
    with gd.GpuDelegate() as delegate:
        check(allocated(delegate))
        profile = delegate.profile()
    assert not profile.by_gpu_timer
    assert profile.seconds > 0
