"""The delegate inside LiteRT's own interpreter: life-cycle, errors, and what it leaves alone."""

import ctypes
import gc
import random
import textwrap
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import interpreter as interpreter_module
from ai_edge_litert import schema_py_generated as tfl
from ai_edge_litert.interpreter import Interpreter as LiteRt

import gles_delegate as gd
from gles_delegate.litert import check as litert_check
from gles_delegate.litert import native as litert
from gles_delegate.litert.abi import TfLiteContext
from gles_delegate.litert.check import require_known_layout, require_layout_of
from gles_delegate.litert.native import NativeDelegate
from gles_delegate.litert.native_graph import NativeGraph
from gles_delegate.model.reader import read_model
from gles_delegate.planning.partition import find_segments
from gles_delegate.runtime.session import Session
from tests.support import oracle
from tests.support.oracle import assert_close, delegated_interpreter, run_litert
from tests.support.process import run_python
from tests.support.random_graphs import random_graph
from tests.support.resources import require_flat
from tests.support.schema import pack_model
from tests.support.sketch import Sketch
from tests.support.small import _WEIGHTS, INPUT, check, run, small_model, tiny_model, with_a_detour


def in_litert(delegate: gd.GpuDelegate, content: bytes | None = None) -> LiteRt:
    interpreter = LiteRt(model_content=content or small_model(), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    return interpreter


def test_only_the_delegates_line_is_added(tmp_path: Any) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(small_model())
    delegate = gd.GpuDelegate(model=path)
    interpreter = LiteRt(str(path), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    check(interpreter)
    assert delegate.report.fully_delegated
    assert [d["op_name"] for d in interpreter._get_ops_details()][-1] == "DELEGATE"


@pytest.mark.parametrize("first", ["delegate", "interpreter", "closed"])
def test_either_may_go_first(first: str) -> None:
    delegate = gd.GpuDelegate(model=small_model())
    interpreter = in_litert(delegate)
    check(interpreter)
    if first == "interpreter":
        del interpreter
        gc.collect()
        delegate.close()
    elif first == "delegate":
        del delegate
        gc.collect()
        check(interpreter)
        del interpreter
    else:
        delegate.close()
        with pytest.raises(RuntimeError, match="the delegate is closed"):
            interpreter.invoke()
        del interpreter
    gc.collect()


def test_at_the_end_of_a_process() -> None:
    """Interpreter, delegate and kernels are still there when Python ends."""
    script = """
        from ai_edge_litert.interpreter import Interpreter
        import gles_delegate as gd
        from tests.support.small import small_model
        delegate = gd.GpuDelegate(model=small_model())
        interpreter = Interpreter(model_content=small_model(), experimental_delegates=[delegate])
        interpreter.allocate_tensors()
        interpreter.invoke()
        print("done")
    """
    ended = run_python(textwrap.dedent(script))
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr


def test_two_interpreters_with_two_delegates() -> None:
    with gd.GpuDelegate(model=small_model()) as one, gd.GpuDelegate(model=small_model()) as other:
        interpreters = [in_litert(one), in_litert(other)]
        for scale in (1, 2):
            for interpreter in interpreters:
                check(interpreter, INPUT * scale)


def test_a_delegate_has_one_interpreter() -> None:
    with gd.GpuDelegate(model=small_model()) as delegate:
        interpreter = in_litert(delegate)
        for delegates in ([delegate], [delegate, delegate]):
            with pytest.raises(gd.DelegateError, match="already runs a model"):
                LiteRt(model_content=small_model(), experimental_delegates=delegates)
        with pytest.raises(gd.DelegateError, match="already runs a model"):
            gd.Interpreter(model_content=small_model(), experimental_delegates=[delegate])
        check(interpreter)
    twice = [gd.GpuDelegate(model=small_model())] * 2
    with twice[0], pytest.raises(gd.DelegateError, match="already runs a model"):
        LiteRt(model_content=small_model(), experimental_delegates=twice)


def test_the_model_must_be_given() -> None:
    with pytest.raises(ValueError, match=r"GpuDelegate\(model=\.\.\.\)"):
        LiteRt(model_content=small_model(), experimental_delegates=[gd.GpuDelegate()])
    with pytest.raises(gd.ModelError, match="Could not open"):
        LiteRt(
            model_content=small_model(),
            experimental_delegates=[gd.GpuDelegate(model="missing.tflite")],
        )


def other_model(**changes: Any) -> bytes:
    s = Sketch(np.random.default_rng(0))
    x = s.input((1, changes.get("size", 4)))
    y = s.op(changes.get("op", "RELU"), [x], [(1, changes.get("size", 4))])
    if "more" in changes:
        y = s.op("RELU", [y], [(1, 4)])
    return s.build([y])


@pytest.mark.parametrize(
    "model",
    [other_model(op="TANH"), other_model(more=True), other_model(size=5), small_model()],
    ids=["op", "more", "size", "another"],
)
def test_another_model_is_refused(model: bytes) -> None:
    message = r"their files differ from byte \d+ on; give both the same file"
    with pytest.raises(gd.LiteRtError, match=message) as caught, gd.GpuDelegate(model=model) as d:
        in_litert(d, tiny_model())
    assert isinstance(caught.value.__cause__, gd.LiteRtError)


def softmax_with(beta: float) -> bytes:
    s = Sketch(np.random.default_rng(0))
    return s.build([s.op("SOFTMAX", [s.input((1, 4))], [(1, 4)], beta=beta)])


def with_another_weight() -> bytes:
    content = small_model()
    weight = content.index(np.float32(_WEIGHTS[0, 0]).tobytes())
    return content[:weight] + np.float32(7).tobytes() + content[weight + 4 :]


def without_names(op: str, factor: float | None) -> bytes:
    """x times a constant, or `op` of x."""
    s = Sketch(np.random.default_rng(0))
    inputs = [s.input((1, 4))]
    if factor is not None:
        inputs.append(s.constant(np.full(4, factor, np.float32)))
    tables = s.model([s.op(op, inputs, [(1, 4)])])
    for tensor in tables["subgraphs"][0]["tensors"]:
        del tensor["name"]
    return pack_model(tables)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (softmax_with(1.0), softmax_with(2.0)),
        (with_another_weight(), small_model()),
        (without_names("MUL", 2), without_names("MUL", 3)),
    ],
    ids=["options", "weights", "weights without names"],
)
def test_other_numbers_are_refused(ours: bytes, theirs: bytes) -> None:
    differing = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
    with (
        pytest.raises(gd.LiteRtError, match=f"differ from byte {differing} on"),
        gd.GpuDelegate(model=ours) as delegate,
    ):
        in_litert(delegate, theirs)


def test_models_without_names() -> None:
    ours = without_names("MUL", 2)
    with gd.GpuDelegate(model=ours) as delegate:
        result = run(in_litert(delegate, ours), np.arange(4, dtype=np.float32)[None])
        assert result.tolist() == [[0, 2, 4, 6]]
    plain = without_names("RELU", None)
    with (
        pytest.raises(gd.LiteRtError, match="it has neither constants nor names of tensors"),
        gd.GpuDelegate(model=plain) as delegate,
    ):
        in_litert(delegate, plain)


def test_another_thread_is_refused_with_the_reason() -> None:
    with gd.GpuDelegate(model=small_model()) as delegate:
        interpreter = in_litert(delegate)
        with ThreadPoolExecutor(1) as pool:
            error = pool.submit(interpreter.invoke).exception()
        assert isinstance(error, RuntimeError)
        assert "WrongThreadError: the delegate is bound to the thread" in str(error)
        assert "GlesDelegate" in str(error)
        check(interpreter)


def test_with_gives_the_cause_of_litert_s_error() -> None:
    def invoke_elsewhere(interpreter: LiteRt) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(interpreter.invoke).result()

    with (
        pytest.raises(gd.LiteRtError, match="WrongThreadError") as caught,
        gd.GpuDelegate(model=small_model()) as delegate,
    ):
        invoke_elsewhere(in_litert(delegate))
    assert isinstance(caught.value.__cause__, gd.WrongThreadError)


def test_ours_in_litert_s_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """For programs that one cannot edit; nodes on the CPU still need LiteRT's class."""
    require_known_layout.cache_clear()
    monkeypatch.setattr(interpreter_module, "Interpreter", gd.Interpreter)
    s, content = with_a_detour()
    with interpreter_module.Interpreter(model_content=content) as interpreter:
        interpreter.allocate_tensors()
        assert_close(run(interpreter, s.feeds[0]), run_litert(content, s.feeds)[0])


def test_a_subclass_in_litert_s_place_adds_the_delegate(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithDelegate(LiteRt):
        def __init__(self, model_content: bytes) -> None:
            delegates = [gd.GpuDelegate(model=model_content)]
            super().__init__(model_content=model_content, experimental_delegates=delegates)

    require_known_layout.cache_clear()
    monkeypatch.setattr(interpreter_module, "Interpreter", WithDelegate)
    interpreter = interpreter_module.Interpreter(small_model())
    interpreter.allocate_tensors()
    check(interpreter)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_with_hands_on_what_ends_a_program(
    kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "run", raising(kind))
    with pytest.raises(kind), gd.GpuDelegate(model=small_model()) as delegate:
        in_litert(delegate).invoke()


def raising(kind: type[BaseException]) -> Callable[..., None]:
    def run(*arguments: object) -> None:
        raise kind

    return run


def test_an_own_thread_serves_any_thread() -> None:
    options = gd.GpuDelegateOptions(own_thread=True)
    with gd.GpuDelegate(options, model=small_model()) as delegate:
        interpreter = in_litert(delegate)
        thread = threading.Thread(target=check, args=(interpreter,))
        thread.start()
        thread.join()
        check(interpreter)


def test_what_a_kernel_raises_reaches_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    with gd.GpuDelegate(model=small_model()) as delegate:
        interpreter = in_litert(delegate)
        with monkeypatch.context() as patch:
            patch.setattr(Session, "run", lambda *a: (_ for _ in ()).throw(KeyError("100% lost")))
            with pytest.raises(RuntimeError, match="KeyError: '100% lost'"):
                interpreter.invoke()
        check(interpreter)


def test_a_model_that_does_not_fit_is_refused_before_litert_sees_it() -> None:
    s = Sketch(np.random.default_rng(0))
    content = s.build([s.op("WHERE", [s.feed((2, 3))], [s.tensor((0, 2), np.int64)])])
    options = gd.GpuDelegateOptions(require_full_delegation=True)
    with (
        gd.GpuDelegate(options, model=content) as delegate,
        pytest.raises(gd.UnsupportedModelError, match="node 0 WHERE"),
    ):
        in_litert(delegate, content)


@pytest.mark.mesa
def test_a_hundred_cycles_leave_nothing() -> None:
    def cycle() -> None:
        with gd.GpuDelegate(model=tiny_model()) as delegate:
            in_litert(delegate, tiny_model()).invoke()

    require_flat(cycle, 100)


def test_a_cycle_of_kernels_leaves_no_objects() -> None:
    gc.collect()  # what other tests have left
    kernels = len(litert._kernels)
    with gd.GpuDelegate(model=small_model()) as delegate:
        check(in_litert(delegate))
        gc.collect()
        assert len(litert._kernels) == kernels
        assert not delegate._bound.first._segments  # type: ignore[union-attr]


def test_a_failure_does_not_keep_the_interpreter_alive() -> None:
    gc.collect()  # what other tests have left
    kernels = len(litert._kernels)

    def fail(delegate: gd.GpuDelegate) -> None:
        interpreter = in_litert(delegate)
        with ThreadPoolExecutor(1) as pool:
            assert "WrongThreadError" in str(pool.submit(interpreter.invoke).exception())

    with gd.GpuDelegate(model=small_model()) as delegate:
        fail(delegate)
        gc.collect()
        assert len(litert._kernels) == kernels


def with_branches() -> bytes:
    """RELU of x, then IF: EXP of it, or else NEG of it; each in its own subgraph."""
    s = Sketch(np.random.default_rng(0))
    choice, x = s.input((), bool), s.input((1, 4))
    y = s.op("RELU", [x], [(1, 4)])
    options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    s.op("IF", [choice, y], [s.tensor((1, 4))], **options)
    model = unpacked(s.build([y + 1]))
    for op in ("EXP", "NEG"):
        branch = unpacked(other_model(op=op))
        branch.subgraphs[0].operators[0].opcodeIndex = len(model.operatorCodes)
        model.operatorCodes += branch.operatorCodes
        model.subgraphs += branch.subgraphs
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def unpacked(content: bytes) -> tfl.ModelT:
    return tfl.ModelT.InitFromObj(tfl.Model.GetRootAs(content))


@pytest.mark.parametrize("choice", [True, False])
def test_branches_are_not_delegated_by_themselves(choice: bool) -> None:
    content = with_branches()
    feeds = [np.array(choice), np.array([[-1, 0, 0.5, 2]], np.float32)]
    options = gd.GpuDelegateOptions(max_delegated_partitions=9)
    with delegated_interpreter(content, options=options) as interpreter:
        assert_close(oracle.run(interpreter, feeds), run_litert(content, feeds))
        (delegate,) = interpreter._delegates
        assert [node.delegated for node in delegate.report.nodes] == [True, True]
    with gd.Interpreter(model_content=content) as ours:
        ours.allocate_tensors()
        assert_close(oracle.run(ours, feeds), run_litert(content, feeds))
        assert ours.num_subgraphs() == 3


class Recorder:
    """A model of which the GPU takes some nodes; notes in which parts LiteRT hands them out."""

    def __init__(self, nodes: Sequence[int]) -> None:
        self.delegated = nodes
        self.segments: list[tuple[int, ...]] = []

    def warn_of_split(self) -> None: ...

    def segment(self, nodes: Sequence[int]) -> Any:
        self.segments.append(tuple(nodes))

    def drop(self, segment: None) -> None: ...


@pytest.mark.parametrize("seed", range(12))
def test_segments_are_those_of_litert(seed: int) -> None:
    sketch, outputs = random_graph(random.Random(seed), ops=30)
    content = sketch.build(outputs)
    rng = np.random.default_rng(seed)
    graph = read_model(content)
    left = {node.index for node in graph.nodes if rng.random() < 0.4}
    claimed = [node.index for node in graph.nodes if node.index not in left]
    recorder = Recorder(claimed)
    LiteRt(model_content=content, experimental_delegates=[NativeDelegate(graph, {0: recorder})])
    assert recorder.segments == find_segments(graph, left)
    assert len(recorder.segments) > 1


def with_a_size_of_run_time(op: str) -> tuple[Sketch, bytes]:
    """RELU, then a tensor whose size depends on data, then EXP and TANH of it."""
    s = Sketch(np.random.default_rng(0))
    x = s.op("RELU", [s.feed((1, 6))], [(1, 6)])
    if op == "RESHAPE":
        many = s.feed(values=[2, 3, *range(18)], dtype="int32")
        ends = [s.constant(np.array([n], np.int32)) for n in (0, 2, 1)]
        shape = s.op("STRIDED_SLICE", [many, *ends], [s.tensor((2,), "int32")])
        late = s.op("RESHAPE", [x, shape], [s.tensor()])
    else:
        mask = s.feed(values=[True, False, True], dtype="bool")
        actual = s.op("WHERE", [mask], [s.tensor((0, 1), np.int64)])
        late = s.op("CAST", [actual], [s.tensor((0, 1))])
    y = s.op("TANH", [s.op("EXP", [late], [s.tensor()])], [s.tensor()])
    return s, s.build([x, y])


@pytest.mark.parametrize("op", ["RESHAPE", "WHERE"])
def test_sizes_of_run_time_stay_on_the_cpu(op: str) -> None:
    s, content = with_a_size_of_run_time(op)
    options = gd.GpuDelegateOptions(max_delegated_partitions=9)
    with delegated_interpreter(content, options=options) as interpreter:
        (delegate,) = interpreter._delegates
        taken = [node.op for node in delegate.report.nodes if node.delegated]
        assert taken == (["RELU", "STRIDED_SLICE"] if op == "RESHAPE" else ["RELU"])
        assert "known only at run time" in delegate.report.nodes[-1].reason
        assert_close(oracle.run(interpreter, s.feeds), run_litert(content, s.feeds))


@pytest.mark.parametrize("option", ["layout", "crash"])
def test_an_unknown_layout_is_refused(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_known_layout.cache_clear()
    if option == "layout":
        failing = lambda: (_ for _ in ()).throw(RuntimeError("no node"))  # noqa: E731
        monkeypatch.setattr(litert_check, "_try_layout", failing)
    else:
        monkeypatch.setattr(litert_check, "TESTED", ("0.1", "0.2"))
        monkeypatch.setattr(litert_check, "_TRIAL", "import os; os.abort()")
    with (
        gd.GpuDelegate(model=small_model()) as delegate,
        pytest.raises(gd.LiteRtError, match="another binary interface than the versions"),
    ):
        in_litert(delegate)
    require_known_layout.cache_clear()


def test_a_version_out_of_the_tested_range_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    require_known_layout.cache_clear()
    monkeypatch.setattr(litert_check, "TESTED", ("0.1", "0.2"))
    with gd.GpuDelegate(model=small_model()) as delegate:
        check(in_litert(delegate))
    require_known_layout.cache_clear()


def test_the_layout_of_another_package_is_tried_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of tflite_runtime, whose structures may be others than the installed LiteRT's."""
    own = "from ai_edge_litert.interpreter import Interpreter"
    (tmp_path / "like_ours.py").write_text(own)
    (tmp_path / "of_another_kind.py").write_text("import os; os.abort()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    require_layout_of("like_ours")
    with pytest.raises(gd.LiteRtError, match="of_another_kind has another binary interface"):
        require_layout_of("of_another_kind")


def test_no_model_is_read_where_there_is_none() -> None:
    """At an address of other bytes, and at one that is not the process's."""
    other = ctypes.create_string_buffer(b"x" * 64)
    graph = NativeGraph(ctypes.POINTER(TfLiteContext)())
    for address in (ctypes.addressof(other), 0):
        with pytest.raises(gd.LiteRtError, match="expected a model at the address"):
            graph.read(address)


@pytest.mark.parametrize("flaw", ["shape", "memory", "plan"])
def test_the_trial_sees_a_wrong_layout(flaw: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {
        "shape": ("shape", lambda graph, index: (3, 2)),
        "memory": ("array", lambda graph, index: np.zeros((2, 3), np.float32)),
        "plan": ("_execution_plan", lambda graph: ()),
    }
    name, function = wrong[flaw]
    monkeypatch.setattr(NativeGraph, name, function)
    with pytest.raises((gd.LiteRtError, RuntimeError)):
        litert_check._try_layout()


def test_without_litert(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    require_known_layout.cache_clear()
    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(gd.LiteRtError, match="pip install ai-edge-litert"):
        require_known_layout()
