"""The delegate: threads, contexts, what it leaves as it was, and what it frees."""

import copy
import pickle
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import moderngl
import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.buffers import TexelBuffer
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.egl import current_context
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.libegl import EglBinding, libegl
from gles_delegate.planning import plan
from gles_delegate.runtime import buffers, constants
from tests.support.process import run_python
from tests.support.resources import require_flat
from tests.support.small import INPUT, allocated, check, expected, run, small_model, tiny_model
from tests.support.state import State, objects_in


@pytest.fixture(autouse=True)
def nothing_is_current() -> Iterator[None]:
    """Tests begin and end without a current context."""
    assert current_context() == 0
    yield
    assert current_context() == 0


def es_app() -> tuple[gd.EglContext, moderngl.Context]:
    context = gd.EglContext()
    with context:
        return context, moderngl.create_context(context=context, require=310)  # type: ignore[arg-type]


def desktop_app() -> tuple[Any, moderngl.Context]:
    with libegl().restored():
        ctx = moderngl.create_standalone_context(require=430, backend="egl")
    return ctx.mglo._context, ctx


@pytest.fixture(params=[es_app, pytest.param(desktop_app, marks=pytest.mark.mesa)])
def app(request: pytest.FixtureRequest) -> Iterator[tuple[Any, moderngl.Context]]:
    """A context of an app's own as glcontext knows it, not current, and its moderngl.Context."""
    glcontext, ctx = request.param()
    yield glcontext, ctx
    ctx.release()


def on_another_thread(function: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def test_another_thread_is_refused_before_any_gl_call(monkeypatch: pytest.MonkeyPatch) -> None:
    with gd.GpuDelegate() as delegate:
        interpreter = allocated(delegate)
        with monkeypatch.context() as patch:
            patch.setattr(delegate.gpu, "_current", lambda: pytest.fail("the context was entered"))
            calls = (interpreter.invoke, interpreter.allocate_tensors, delegate.memory)
            for call in (*calls, delegate.close):
                with pytest.raises(gd.WrongThreadError, match="own_thread=True"):
                    on_another_thread(call)
            interpreter.resize_tensor_input(0, (1, 5))
            with pytest.raises(gd.WrongThreadError):
                on_another_thread(interpreter.allocate_tensors)
        interpreter.resize_tensor_input(0, INPUT.shape)
        interpreter.allocate_tensors()
        check(interpreter)


def test_binding_fixes_the_thread() -> None:
    delegate = gd.GpuDelegate()
    with ThreadPoolExecutor(1) as pool:
        interpreter = pool.submit(
            lambda: gd.Interpreter(model_content=small_model(), experimental_delegates=[delegate])
        ).result()
        with pytest.raises(gd.WrongThreadError):
            interpreter.allocate_tensors()
        pool.submit(delegate.close).result()


def test_another_context_is_not_taken_for_the_adopted_one(
    app: tuple[Any, moderngl.Context], egl: gd.EglContext
) -> None:
    glcontext, ctx = app
    delegate = gd.GpuDelegate(context=ctx)
    with egl:
        with pytest.raises(gd.WrongContextError, match="found another context"):
            allocated(delegate)
        assert egl.is_current
    with glcontext, delegate:
        check(allocated(delegate))


@pytest.mark.parametrize("whatever", [False, True], ids=["a moderngl.Context", "current"])
def test_an_adopted_context_must_be_current(
    whatever: bool, app: tuple[Any, moderngl.Context], egl: gd.EglContext
) -> None:
    glcontext, ctx = app
    delegate = gd.GpuDelegate(context="current" if whatever else ctx)
    with pytest.raises(gd.WrongContextError, match="found no current context: make it current"):
        allocated(delegate)
    with glcontext:
        before = EglBinding.of_this_thread(libegl())
        interpreter = allocated(delegate)
        check(interpreter)
        assert EglBinding.of_this_thread(libegl()) == before
    for call in (interpreter.invoke, interpreter.allocate_tensors, delegate.close):
        with pytest.raises(gd.WrongContextError, match="must be current"):
            call()
    with egl, pytest.raises(gd.WrongContextError, match="must be current"):
        interpreter.invoke()
    with glcontext:
        check(interpreter)
        delegate.close()


def test_what_was_current_stays_current(app: tuple[Any, moderngl.Context]) -> None:
    glcontext, _ = app
    with glcontext:
        before = EglBinding.of_this_thread(libegl())
        with gd.GpuDelegate() as delegate:
            interpreter = allocated(delegate)
            assert EglBinding.of_this_thread(libegl()) == before
            check(interpreter)
            assert EglBinding.of_this_thread(libegl()) == before
        assert EglBinding.of_this_thread(libegl()) == before


def test_own_threads_side_by_side() -> None:
    def work(scale: int) -> None:
        with gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=True)) as delegate:
            interpreter = allocated(delegate)
            for i in range(10):
                x = INPUT * (scale + i)
                np.testing.assert_allclose(run(interpreter, x), expected(x), rtol=1e-4, atol=1e-4)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_one_thread_at_a_time_sets_the_number_of_compiler_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """NVIDIA's driver crashes otherwise."""
    unchecked, present, counts = Functions.unchecked, [0], list[int]()

    def found(gl: Functions, name: str) -> Callable[..., Any]:
        return call if name == "glMaxShaderCompilerThreadsKHR" else unchecked(gl, name)

    def call(number: int) -> None:
        present[0] += 1
        counts.append(present[0])
        time.sleep(0.05)
        present[0] -= 1

    def make(_: int) -> None:
        gpu = GpuContext()
        with gpu.guard():
            has = "GL_KHR_parallel_shader_compile" in gpu.gl.extensions()
        gpu.release()
        assert has or pytest.skip("the driver has no GL_KHR_parallel_shader_compile")

    monkeypatch.setattr(Functions, "unchecked", found)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(make, range(4)))
    assert counts == [1] * 4


def test_two_contexts_in_turn() -> None:
    with gd.GpuDelegate() as first, gd.GpuDelegate() as second:
        interpreters = [allocated(first), allocated(second)]
        for i in range(6):
            check(interpreters[i % 2], INPUT + i)


def test_close_is_final_and_may_come_twice() -> None:
    delegate = gd.GpuDelegate()
    interpreter = allocated(delegate)
    check(interpreter)
    delegate.close()
    delegate.close()
    with pytest.raises(gd.DelegateError, match="closed"):
        interpreter.invoke()
    interpreter.resize_tensor_input(0, (1, 5))
    for call in (interpreter.allocate_tensors, lambda: delegate.gpu):
        with pytest.raises(gd.DelegateError, match="closed"):
            call()
    with pytest.raises(gd.DelegateError, match="closed"):
        allocated(delegate)


def test_close_before_any_use_leaves_nothing() -> None:
    for options in (gd.GpuDelegateOptions(), gd.GpuDelegateOptions(own_thread=True)):
        delegate = gd.GpuDelegate(options)
        delegate.close()
        assert delegate.report.nodes == ()


def test_a_delegate_serves_one_interpreter() -> None:
    with gd.GpuDelegate() as delegate:
        interpreter = allocated(delegate)
        with pytest.raises(gd.DelegateError, match="one GpuDelegate for each interpreter"):
            allocated(delegate)
        check(interpreter)


@pytest.mark.parametrize("delegate", [object(), gd.GpuDelegate, "libdelegate.so"])
def test_something_else_is_no_delegate(delegate: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a gles_delegate\.GpuDelegate"):
        gd.Interpreter(model_content=tiny_model(), experimental_delegates=[delegate])


@pytest.mark.parametrize("context", [object(), moderngl.Context, 0, "egl"])
def test_something_else_is_no_context(context: Any) -> None:
    with pytest.raises(TypeError, match=r"gles_delegate\.EglContext or a moderngl\.Context"):
        gd.GpuDelegate(context=context)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gd.GpuDelegate({"own_thread": True}), "a gles_delegate.GpuDelegateOptions, not a"),
        (lambda: gd.GpuDelegate(True), "GpuDelegateOptions, not a bool: write GpuDelegate("),
        (lambda: gd.GpuDelegate(model=3), "the path of a .tflite file or its bytes, not a int"),
        (lambda: gd.GpuDelegate(progress=3), "progress must be a function of two numbers"),
        (lambda: gd.Interpreter(small_model()), "found the bytes of one: give them as model_con"),
        (lambda: gd.Interpreter(3), "expected the path of a .tflite file, found a int"),
        (lambda: gd.Interpreter(model_content="m.tflite"), "not a str; a path is given as model_"),
        (
            lambda: gd.Interpreter("m", experimental_delegates=gd.GpuDelegate()),
            "found a GpuDelegate: write experimental_delegates=[delegate]",
        ),
    ],
)
def test_arguments_of_other_types(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)) as caught:
        make()
    assert len(str(caught.value)) < 200


def test_a_long_path_is_cut_in_the_message() -> None:
    with pytest.raises(gd.ModelError, match="File name too long") as caught:
        gd.Interpreter("x" * 5000)
    assert len(str(caught.value)) < 300


def test_a_name_is_no_index() -> None:
    with gd.GpuDelegate() as delegate:
        interpreter = allocated(delegate)
        with pytest.raises(TypeError, match=r"index of a tensor, found 'x': .*run\(\) takes names"):
            interpreter.set_tensor("x", INPUT)  # type: ignore[arg-type]


def test_options_that_exclude_each_other(egl: gd.EglContext) -> None:
    with pytest.raises(ValueError, match="device_index"):
        gd.GpuDelegate(gd.GpuDelegateOptions(device_index=0), context=egl)
    _, ctx = es_app()
    for adopted in (ctx, "current"):
        with pytest.raises(ValueError, match="own_thread"):
            gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=True), context=adopted)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="device_index"):
        gd.GpuDelegate(gd.GpuDelegateOptions(device_index=0), context="current")
    ctx.release()


def test_a_device_that_is_not_there() -> None:
    count = len(gd.list_devices())
    for own_thread in (False, True):
        options = gd.GpuDelegateOptions(device_index=count, own_thread=own_thread)
        threads = threading.active_count()
        no_device = pytest.raises(gd.ContextError, match=f"no device {count}: .* has {count}")
        with gd.GpuDelegate(options) as delegate, no_device:
            allocated(delegate)
        assert threading.active_count() == threads


def test_each_device_that_is_there() -> None:
    for device in gd.list_devices():
        with gd.GpuDelegate(gd.GpuDelegateOptions(device_index=device.index)) as delegate:
            check(allocated(delegate))
            assert delegate.gpu.driver.renderer == device.renderer


def test_a_released_context_is_refused(egl: gd.EglContext) -> None:
    egl.release()
    with pytest.raises(gd.ContextError, match="released"):
        allocated(gd.GpuDelegate(context=egl))


FORK = """
import os, sys
import gles_delegate as gd
from tests.support.small import allocated, check

delegate = gd.GpuDelegate(gd.GpuDelegateOptions(own_thread={own_thread}))
interpreter = allocated(delegate)
check(interpreter)
child = os.fork()
if not child:
    status = 1
    try:
        interpreter.invoke()
    except gd.ContextError as error:
        print(error, flush=True)
        status = 7
    finally:
        os._exit(status)
_, status = os.waitpid(child, 0)
check(interpreter)
delegate.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize("own_thread", [False, True])
def test_a_fork_is_refused_in_the_child_and_harmless_in_the_parent(own_thread: bool) -> None:
    code = FORK.format(own_thread=own_thread)
    result = run_python(code, PYTHONWARNINGS="ignore::DeprecationWarning")
    assert result.returncode == 7, result.stdout + result.stderr
    assert "does not survive a fork" in result.stdout


def test_a_delegate_is_not_pickled() -> None:
    with gd.GpuDelegate() as delegate:
        interpreter = allocated(delegate)
        for subject in (delegate, interpreter):
            for dump in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="cannot be pickled"):
                    dump(subject)


@pytest.mark.mesa
@pytest.mark.parametrize("own_thread", [False, True])
def test_a_hundred_cycles_leave_nothing(own_thread: bool) -> None:
    def cycle() -> None:
        with gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=own_thread)) as delegate:
            interpreter = allocated(delegate, tiny_model())
            interpreter.invoke()

    require_flat(cycle, 100)


def test_cycles_on_one_context_leave_no_objects(egl: gd.EglContext) -> None:
    state = State(egl.load)
    before = objects_in(egl, state)
    for _ in range(10):
        with gd.GpuDelegate(context=egl) as delegate:
            interpreter = allocated(delegate)
            assert objects_in(egl, state)["Program"] > before["Program"]
            interpreter.resize_tensor_input(0, (2, 5))
            interpreter.allocate_tensors()
            interpreter.invoke()
        assert objects_in(egl, state) == before


def test_a_resize_frees_what_it_replaces(egl: gd.EglContext) -> None:
    state = State(egl.load)
    with gd.GpuDelegate(context=egl) as delegate:
        interpreter = allocated(delegate)

        def objects_at(rows: int) -> dict[str, int]:
            interpreter.resize_tensor_input(0, (rows, 5))
            interpreter.allocate_tensors()
            check(interpreter, np.ones((rows, 5), np.float32))
            return {kind: len(names) for kind, names in objects_in(egl, state).items()}

        # Programs stay for other sizes.
        _, _, before = map(objects_at, (2, 9, 2))
        _, after = map(objects_at, (9, 2))
        assert after == before


def fail_at(
    count: int, make: Callable[..., Any], error: Exception, calls: Iterator[int] | None = None
) -> Callable[..., Any]:
    """`make`, whose call number `count` raises; `calls` counts those of several functions."""
    calls = iter(range(count + 1)) if calls is None else calls

    def wrapper(*arguments: Any) -> Any:
        if next(calls, -1) == count:
            raise error
        return make(*arguments)

    return wrapper


def break_shader(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    seen = iter(range(100))

    def assemble(*arguments: Any) -> Any:
        source = assemble_whole(*arguments)
        broken = source.text.replace("void main()", "void main() { broken; }\nvoid other()")
        return replace(source, text=broken) if next(seen) == count else source

    assemble_whole = plan.assemble
    monkeypatch.setattr(plan, "assemble", assemble)


def break_buffer(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    error = gd.OutOfGpuMemoryError("no room")
    failing = fail_at(count, TexelBuffer, error)
    for module in (buffers, constants):
        monkeypatch.setattr(module, "TexelBuffer", failing)


def break_function(name: str) -> Callable[[pytest.MonkeyPatch, int], None]:
    def install(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        checked = Functions.__getattr__
        calls = iter(range(count + 1))  # of the functions of all threads that compile

        def getattr_(self: Functions, asked: str) -> Callable[..., Any]:
            if asked != name:
                return checked(self, asked)
            wrapper = fail_at(count, checked(self, name), gd.GLError(name), calls)
            setattr(self, name, wrapper)
            return wrapper

        monkeypatch.setattr(Functions, "__getattr__", getattr_)

    return install


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize(
    ("install", "error"),
    [
        (break_shader, gd.ShaderError),
        (break_buffer, gd.OutOfGpuMemoryError),
        *(
            (break_function(name), gd.GLError)
            for name in ("glCreateProgram", "glShaderSource", "glLinkProgram")
        ),
    ],
)
def test_a_failure_half_way_leaves_nothing(
    install: Callable[[pytest.MonkeyPatch, int], None],
    error: type[Exception],
    count: int,
    egl: gd.EglContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = State(egl.load)
    before = objects_in(egl, state)
    with gd.GpuDelegate(context=egl) as delegate, monkeypatch.context() as patch:
        interpreter = gd.Interpreter(model_content=small_model(), experimental_delegates=[delegate])
        install(patch, count)
        with pytest.raises(error):
            interpreter.allocate_tensors()
        assert objects_in(egl, state) == before
        with pytest.raises(RuntimeError, match="allocate_tensors"):
            interpreter.invoke()
        interpreter.allocate_tensors()  # the failure comes once
        check(interpreter)
    assert objects_in(egl, state) == before


@pytest.mark.parametrize("name", ["glGenTextures", "glTexBufferRange"])
def test_a_texture_that_fails_leaves_nothing_behind(
    name: str, egl: gd.EglContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, gpu = State(egl.load), GpuContext(egl)
    before = objects_in(egl, state)
    with gpu.guard():
        buffer = TexelBuffer(gpu.gl, 256, image=True)
        made = objects_in(egl, state)
        break_function(name)(monkeypatch, 0)
        with pytest.raises(gd.GLError, match=name):
            assert buffer.texture
        assert objects_in(egl, state) == made
        buffer.release()
    assert objects_in(egl, state) == before


@pytest.mark.parametrize("n", [1, 15, 16, 63, 64, 240, 256])
def test_sizes_of_buffers_need_no_second_program(n: int, egl: gd.EglContext) -> None:
    """llvmpipe of Mesa 25 compiles a program again for sizes of another kind."""
    content, seen = bytes(range(16)) * n, {}
    gpu = GpuContext(egl)

    class Noting:
        def __getattr__(self, name: str) -> Any:
            def call(*arguments: Any) -> Any:
                seen[name] = arguments
                return getattr(gpu.gl, name)(*arguments)

            return call

    with gpu.guard():
        buffer = TexelBuffer(cast(Functions, Noting()), content, image=True)
        assert buffer.texture
        assert (buffer.size, buffer.buffer.read()) == (len(content), content)
        buffer.release()
    whole, texture = seen["glBufferData"][1], seen["glTexBufferRange"][4]
    assert whole.bit_count() > 1
    assert texture % 256
    assert len(content) <= texture <= whole


def stir(ctx: moderngl.Context, gl: Functions) -> list[Any]:
    """State of an app that draws: nothing that a run touches is at its default."""
    buffers = [ctx.buffer(reserve=1024) for _ in range(8)]
    for i, buffer in enumerate(buffers[:6]):
        buffer.bind_to_storage_buffer(i, offset=256, size=512 + 16 * i)
    program = ctx.compute_shader(
        "#version 310 es\nlayout(local_size_x = 1) in;\n"
        "layout(std430, binding = 0) buffer B { float b[]; };\nvoid main() { b[0] = 1.0; }"
    )
    textures = [ctx.texture((4, 4), 4, dtype="f1") for _ in range(6)]
    framebuffer = ctx.framebuffer([textures[5]])
    framebuffer.use()
    ctx.viewport = (1, 2, 3, 2)
    ctx.enable_only(moderngl.BLEND)
    ctx.blend_func = moderngl.ONE, moderngl.ZERO, moderngl.ZERO, moderngl.ONE
    textures[0].use(2)
    gl.forget_errors()
    for i, texture in enumerate(textures[:4]):
        if texture.glo:
            gl.unchecked("glBindImageTexture")(i, texture.glo, 0, 0, 0, 0x88BA, 0x8058)
    gl.forget_errors()
    texture_buffer = TexelBuffer(gl, 256, image=True)
    gl.glBindTexture(gl_names.TEXTURE_BUFFER, texture_buffer.texture)
    gl.glBindBuffer(gl_names.ARRAY_BUFFER, buffers[6].glo)
    gl.glBindBuffer(gl_names.SHADER_STORAGE_BUFFER, buffers[7].glo)
    gl.glUseProgram(program.glo)
    gl.forget_errors()
    return [*buffers, program, *textures, framebuffer, texture_buffer]


def test_errors_of_the_app_are_not_blamed_on_the_delegate(
    app: tuple[Any, moderngl.Context],
) -> None:
    glcontext, ctx = app
    with glcontext, gd.GpuDelegate(context=ctx) as delegate:
        make_error = partial(Functions(glcontext.load).unchecked("glBindBuffer"), 0xDEAD, 1)
        make_error()
        interpreter = allocated(delegate)
        make_error()
        check(interpreter)
        make_error()


@pytest.mark.mesa
def test_a_program_deleted_while_in_use(app: tuple[Any, moderngl.Context]) -> None:
    glcontext, ctx = app
    with glcontext, gd.GpuDelegate(context=ctx) as delegate:
        interpreter = allocated(delegate)
        gl = Functions(glcontext.load)
        alive = stir(ctx, gl)
        gl.glDeleteProgram(gl.integer(gl_names.CURRENT_PROGRAM))
        check(interpreter)
        assert gl.integer(gl_names.CURRENT_PROGRAM) == 0
        assert len(alive) > 10


def test_the_apps_default_context_stays_the_default(app: tuple[Any, moderngl.Context]) -> None:
    glcontext, _ = app
    with glcontext:
        default = moderngl.get_context()
        with gd.GpuDelegate() as delegate:
            check(allocated(delegate))
            assert moderngl.get_context() is default


def test_what_prints_say(tmp_path: Path) -> None:
    content = tiny_model()
    path = tmp_path / "tiny.tflite"
    path.write_bytes(content)
    with gd.GpuDelegate() as delegate:
        assert repr(delegate) == "<GpuDelegate without a model>"
        interpreter = gd.Interpreter(path, experimental_delegates=[delegate])
        assert repr(delegate).endswith("nodes run on the GPU>")
        assert repr(interpreter).startswith(f"<Interpreter of {str(path)!r}, ")
        html = interpreter._repr_html_()
        assert ">input</td>" in html
        assert ">output</td>" in html
        assert "nodes run on the GPU</p>" in html
        other = gd.Interpreter(model_content=content)
        assert "a model from memory" in repr(other)
        other.close()
        assert repr(other).endswith("closed>")
    assert repr(delegate) == "<GpuDelegate closed>"
