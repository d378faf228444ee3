"""Interpreters that are made before a fork, and called in its children."""

import pytest

from tests.support.process import run_python

pytestmark = pytest.mark.mesa

IN_A_CHILD = """
import ctypes, os, signal, sys, threading, time
import numpy as np
import gles_delegate as gd
from gles_delegate.gl.libegl import attributes, libegl, release_thread
from tests.support.small import INPUT, check, expected, small_model, with_a_detour
from tests.support.oracle import assert_close, in_ours, run, run_litert

def in_children(function, count=1):
    children = []
    for number in range(count):
        child = os.fork()
        if not child:
            signal.alarm(100)
            try:
                function(number)
            except Exception as error:
                print(type(error).__name__, error, flush=True)
                os._exit(9)
            sys.exit(0)
        children.append(child)
    for child in children:
        status = os.waitpid(child, 0)[1]
        assert status == 0, status
    print("done", flush=True)
"""
FORKING = "ignore::DeprecationWarning"  # of Python, which has threads


def in_a_child(code: str) -> str:
    ran = run_python(IN_A_CHILD + code, PYTHONWARNINGS=FORKING)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def assert_done(code: str) -> None:
    """All its children end well."""
    assert in_a_child(code) == "done\n"


@pytest.mark.parametrize("runs", [0, 1, 3])
def test_requests_of_several_workers(runs: int) -> None:
    """As of a server that loads once, and forks; faster programs may be compiled meanwhile."""
    assert_done(f"""
i = gd.Interpreter(model_content=small_model())
i.allocate_tensors()
for _ in range({runs}):
    run(i, [INPUT])
def serve(number):
    for request in range(6):
        value = INPUT * (number + request)
        assert_close(run(i, [value]), [expected(value)])
in_children(serve, 4)
assert_close(run(i, [INPUT]), [expected(INPUT)])
""")


def test_shapes_and_values_stay() -> None:
    assert_done("""
i = gd.Interpreter(model_content=small_model())
larger = np.concatenate([INPUT, -INPUT])
result = i.run({"x": larger})
(x,), (y,) = i.get_input_details(), i.get_output_details()
def look(number):
    assert np.array_equal(i.get_tensor(x["index"]), larger)
    assert_close([i.get_tensor(y["index"])], [expected(larger)])
    i.invoke()
    assert_close([i.get_tensor(y["index"])], [expected(larger)])
    i.close()
in_children(look, 2)
""")


def test_nodes_on_the_cpu() -> None:
    assert_done("""
s, content = with_a_detour()
i = gd.Interpreter(model_content=content)
i.allocate_tensors()
want = run_litert(content, s.feeds)
assert_close(run(i, s.feeds), want)
in_children(lambda number: assert_close(run(i, s.feeds), want), 3)
assert_close(run(i, s.feeds), want)
""")


def test_threads_of_a_child() -> None:
    """Their first calls come at once."""
    assert_done("""
i = gd.Interpreter(model_content=small_model())
i.allocate_tensors()
def serve(number):
    failed = []
    def ask(factor):
        try:
            result = i.run({"x": INPUT * factor})
            assert_close(list(result.values()), [expected(INPUT * factor)])
        except BaseException as error:
            failed.append(error)
    threads = [threading.Thread(target=ask, args=(factor,)) for factor in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
in_children(serve, 2)
""")


def test_new_interpreters_of_a_child() -> None:
    assert_done("""
i = gd.Interpreter(model_content=small_model())
i.allocate_tensors()
def make(number):
    assert len(gd.list_devices()) >= 1
    with gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=True)) as delegate:
        other = in_ours(delegate, small_model())
        assert_close(run(other, [INPUT]), [expected(INPUT)])
in_children(make, 2)
""")


def test_after_other_work() -> None:
    """Of contexts and delegates that the parent has made more than once, or has closed."""
    assert_done("""
i = gd.Interpreter(model_content=small_model())
i.allocate_tensors()
contexts = [gd.EglContext() for _ in range(3)]
contexts[1].release()
for _ in range(2):
    gd.list_devices()
    with gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=True)) as delegate:
        other = in_ours(delegate, small_model())
        assert_close(run(other, [INPUT]), [expected(INPUT)])
with gd.Interpreter(model_content=small_model()) as closed:
    closed.allocate_tensors()
in_children(lambda number: assert_close(run(i, [INPUT]), [expected(INPUT)]), 2)
assert_close(run(i, [INPUT]), [expected(INPUT)])
""")


@pytest.mark.parametrize("own_thread", [False, True])
def test_a_fork_while_other_threads_call_all_the_time(own_thread: bool) -> None:
    out = in_a_child(f"""
ended = threading.Event()
def work(busy):
    while not ended.is_set():
        for invocation in [busy.invoke_async() for _ in range(2)]:
            invocation.wait()
def delegates():
    return [gd.GpuDelegate(gd.GpuDelegateOptions(own_thread=True))] if {own_thread} else []
made = [delegates() for _ in range(2)]
interpreters = [
    gd.Interpreter(model_content=small_model(), experimental_delegates=own or None)
    for own in [*made, []]
]
for i in interpreters:
    i.allocate_tensors()
    assert_close(run(i, [INPUT]), [expected(INPUT)])
threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in interpreters[:2]]
for thread in threads:
    thread.start()
for _ in range(3):
    in_children(lambda number: assert_close(run(i, [INPUT]), [expected(INPUT)]))
ended.set()
for thread in threads:
    thread.join()
""")
    assert out == "done\n" * 3


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("eglInitialize", "gd.list_devices"),
        ("eglDestroyContext", "context.release"),
        ("eglMakeCurrent", "context.__enter__"),
        ("eglReleaseThread", "release_thread"),
    ],
)
def test_a_fork_waits_for_the_end_of_a_call_of_egl(function: str, call: str) -> None:
    """Its locks are the whole process's, and a child would wait for them forever."""
    assert_done(f"""
context = gd.EglContext()
call = libegl().{function}
inside, begun = [], threading.Event()
def slow(*arguments):
    inside.append(True)
    begun.set()
    time.sleep(0.3)
    result = call(*arguments)
    inside.clear()
    return result
libegl().{function} = slow
thread = threading.Thread(target={call})
thread.start()
begun.wait()
def look(number):
    assert not inside, "forked inside"
in_children(look)
thread.join()
""")


def test_a_fork_while_other_threads_compile_and_run() -> None:
    out = in_a_child("""
ended = threading.Event()
def work():
    while not ended.is_set():
        with gd.Interpreter(model_content=small_model()) as other:
            other.allocate_tensors()
            assert_close(run(other, [INPUT]), [expected(INPUT)])
i = gd.Interpreter(model_content=small_model())
i.allocate_tensors()
threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(3):
    in_children(lambda number: assert_close(run(i, [INPUT]), [expected(INPUT)]), 2)
ended.set()
for thread in threads:
    thread.join()
""")
    assert out == "done\n" * 3


def test_what_a_child_cannot_have() -> None:
    """A delegate of the app, a context that is current, a driver of hardware."""
    out = in_a_child("""
delegate = gd.GpuDelegate()
theirs = in_ours(delegate, small_model())
ours = gd.Interpreter(model_content=small_model())
ours.allocate_tensors()
context = gd.EglContext()
def refused(call):
    try:
        call()
    except gd.ContextError as error:
        assert "fork" in str(error), error
    else:
        raise AssertionError(call)
in_children(lambda number: refused(theirs.invoke))
with context:
    in_children(lambda number: (refused(ours.invoke), refused(gd.list_devices)))
in_children(lambda number: ours.invoke())
libegl().has_hardware = True
in_children(lambda number: (refused(ours.invoke), refused(gd.EglContext)))
ours.invoke()
""")
    assert out == "done\n" * 4


@pytest.mark.parametrize(
    "take",
    [
        'gd.EglContext(share="current")',
        'gd.GpuDelegate(context="current").bind(i._graph)',
        "gd.GpuDelegate(context=context).bind(i._graph)",
    ],
)
def test_contexts_of_the_parent(take: str) -> None:
    """Their threads do not exist in the child, which would wait for them."""
    assert_done(f"""
i = gd.Interpreter(model_content=small_model())
context = gd.EglContext()
def refused(number):
    context._native.make_current()  # as another library does
    try:
        {take}
    except gd.ContextError as error:
        assert "fork" in str(error), error
    else:
        raise AssertionError("{{take}}")
in_children(refused)
""")


def test_displays_that_another_library_has_used() -> None:
    """A child leaves them alone; Mesa 22.3 has no other for it."""
    assert_done("""
i = gd.Interpreter(model_content=small_model())
i.allocate_tensors()
egl = libegl()
other = egl.eglGetPlatformDisplayEXT(0x313F, egl.devices()[-1], None)
egl.eglInitialize(other, None, None)
wanted = attributes(0x3098, 3)
context = egl.eglCreateContext(other, 0, 0, wanted)
def serve(number):
    try:
        assert_close(run(i, [INPUT]), [expected(INPUT)])
    except gd.ContextError as error:
        assert "surfaceless, device: it was in use before this process was forked" in str(error)
in_children(serve, 2)
""")


def test_the_exit_functions_of_libraries_are_left_out() -> None:
    """They wait for the parent's threads, also in a child that does not use EGL."""
    assert_done("""
context = gd.EglContext()
libc = ctypes.CDLL(None)
libc.on_exit(libc.abort, None)
in_children(lambda number: None)
os._exit(0)
""")


def test_a_child_of_a_child() -> None:
    """A display for it is lacking in older versions of Mesa; then it says so."""
    out = in_a_child("""
i = gd.Interpreter(model_content=small_model())
i.allocate_tensors()
def again(number):
    assert_close(run(i, [INPUT]), [expected(INPUT)])
    in_children(grandchild)
def grandchild(number):
    try:
        assert_close(run(i, [INPUT]), [expected(INPUT)])
    except gd.ContextError as error:
        assert "before this process was forked" in str(error)
        assert "EGL_EXT_explicit_device" not in libegl().client_extensions, error
        return
    if number < 2:
        in_children(lambda _: grandchild(number + 1))
in_children(again)
""")
    assert out.endswith("done\n" * 2)
