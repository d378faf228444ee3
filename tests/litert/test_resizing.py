"""Models whose inputs are resized: one program serves many sizes."""

import sys
from collections.abc import Callable, Hashable
from dataclasses import replace
from math import prod, sqrt
from typing import Any

import moderngl
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import gles_delegate as gd
from gles_delegate.device.limits import Limits
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.program import Program
from gles_delegate.model.dtypes import SCHEMA_NUMBERS
from gles_delegate.model.reader import read_model
from gles_delegate.planning import plans, resizing
from gles_delegate.planning.lowering import Lowerings
from gles_delegate.planning.partition import choose_partitions
from gles_delegate.planning.plan import Plan, make_plan
from tests.litert.test_ops import check
from tests.op_table import CASES, LEFT_TO_THE_DRIVER, OPS, Case, one_of_each
from tests.support import sampling
from tests.support.hosts import run_resized
from tests.support.lowered import lowered_dispatches
from tests.support.oracle import assert_close, litert_interpreter, run
from tests.support.sampling import choose, drawn
from tests.support.sketch import Sketch

SIZES = ((48, 40), (33, 56), (40, 33), (49, 40), (41, 44), (48, 40), (33, 56))
"""Two shapes that alternate, with the same register tiles."""


ROWS = choose("with uniforms", [*OPS], drawn([*OPS], 150))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """The programs that the driver was given to compile."""
    programs: list[Program] = []
    start = Program.start

    def counted(program: Program) -> None:
        if not program._started:
            programs.append(program)
        start(program)

    monkeypatch.setattr(Program, "start", counted)
    return programs


def network() -> bytes:
    """A small network of images of any size."""
    s = Sketch(np.random.default_rng(1))
    n, (h, w) = 1, SIZES[0]
    x = s.input((n, h, w, 3))

    def conv(x: int, size: int, channels: int) -> int:
        n, h, w, inputs = s.tensors[x]["shape"]
        weights = s.constant(s.normal((channels, size, size, inputs), 0.3))
        bias = s.constant(s.normal((channels,)))
        options = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
        return s.op("CONV_2D", [x, weights, bias], [(n, h, w, channels)], **options)

    a = conv(x, 3, 8)
    b = s.op("TANH", [conv(a, 1, 8)], [(n, h, w, 8)])
    c = s.op("CONCATENATION", [a, b], [(n, h, w, 16)], axis=3)
    pad = s.constant(np.array([[0, 0], [1, 2], [2, 1], [0, 0]], np.int32))
    d = s.op("MIRROR_PAD", [c, pad], [(n, h + 3, w + 3, 16)], mode="REFLECT")
    e = conv(d, 3, 12)
    f = s.op("DEPTH_TO_SPACE", [e], [(n, 2 * h + 6, 2 * w + 6, 3)], block_size=2)
    g = s.op("MEAN", [f, s.constant(np.array([1, 2], np.int32))], [(n, 1, 1, 3)], keep_dims=True)
    y = s.op("SUB", [f, g], [(n, 2 * h + 6, 2 * w + 6, 3)])
    return s.build([y, s.op("SOFTMAX", [a], [(n, h, w, 8)], beta=1.0)])


def resized(interpreter: Any, size: tuple[int, int]) -> Any:
    index = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(index, (1, *size, 3))
    interpreter.allocate_tensors()
    return interpreter


def test_sizes_after_the_second_compile_nothing(
    context: gd.EglContext, compiled: list[Program]
) -> None:
    content = network()
    counts: list[int] = []
    told: list[tuple[int, int]] = []
    reference = litert_interpreter(content)
    with gd.GpuDelegate(context=context, progress=lambda *now: told.append(now)) as delegate:
        interpreter = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
        for size in SIZES:
            compiled.clear()
            told.clear()
            resized(interpreter, size)
            counts.append(len(compiled))
            assert told[-1:] == [(counts[-1], counts[-1])] * (counts[-1] > 0)
            image = np.random.default_rng(size).standard_normal((1, *size, 3)).astype(np.float32)
            assert_close(run(interpreter, [image]), run(resized(reference, size), [image]))
        shares = delegate.gpu.limits.size_uniforms
    assert min(counts[:2]) > 0
    assert counts[0] >= counts[1] or not shares
    assert not any(counts[2 if shares else 5 :])


def test_sizes_that_come_again_are_not_planned_again(
    context: gd.EglContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the last few; with other ports or values they are."""
    planned: list[object] = []

    def counted(lowered: Any, *arguments: Any) -> Plan:
        planned.append(lowered)
        return make_plan(lowered, *arguments)

    monkeypatch.setattr(plans, "make_plan", counted)
    content = network()
    sizes = [(8 + i, 9) for i in range(plans.MOST_SIZES + 1)]
    image = np.random.default_rng(0).standard_normal((1, *sizes[0], 3)).astype(np.float32)
    with gd.GpuDelegate(context=context) as delegate:
        interpreter = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
        first = run(resized(interpreter, sizes[0]), [image])
        for size in sizes[1:-1]:
            resized(interpreter, size)
        planned.clear()
        for size in (sizes[0], sizes[1], sizes[0]):
            resized(interpreter, size)
        assert not planned
        assert_close(run(interpreter, [image]), first)
        resized(interpreter, sizes[-1])
        resized(interpreter, sizes[2])  # the one that was used the longest ago
        assert len(planned) == 2
        with context:
            buffer = moderngl.create_context(context=context, require=310).buffer(reserve=1 << 16)
            delegate.bind_buffer_to_tensor(interpreter.get_output_details()[0]["index"], buffer)
        resized(interpreter, sizes[0])
        assert len(planned) > 2


def test_programs_of_other_sizes_count_and_go(context: gd.EglContext) -> None:
    with gd.GpuDelegate(context=context) as delegate:
        interpreter = gd.Interpreter(model_content=network(), experimental_delegates=[delegate])
        resized(interpreter, SIZES[0])
        before = delegate.memory().programs
        resized(interpreter, SIZES[1])
        assert delegate.memory().programs > before or not before
        programs = [p.program for p in delegate.bound._shared.programs._shared.values()]
        delegate.close()
    with context:
        gl = Functions(context.load)
        assert not any(gl.glIsProgram(program.name) for program in programs)


def test_a_program_that_failed_is_not_kept(
    context: gd.EglContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(program: Program) -> None:
        raise gd.ShaderError("not today")

    with gd.GpuDelegate(context=context) as delegate:
        interpreter = gd.Interpreter(model_content=network(), experimental_delegates=[delegate])
        with monkeypatch.context() as patch:
            patch.setattr(Program, "finish", fail)
            with pytest.raises(gd.ShaderError, match="not today"):
                resized(interpreter, SIZES[0])
        assert not delegate.bound._shared.programs._shared
        image = np.ones((1, *SIZES[0], 3), np.float32)
        ours = run(resized(interpreter, SIZES[0]), [image])
    assert_close(ours, run(litert_interpreter(network()), [image]))


def kernels(case: Case) -> frozenset[Hashable]:
    """The kernels of a case, without the numbers that may be uniforms."""
    sketch, outputs = case.sketch()
    kernels = set[Hashable]()
    for dispatch in lowered_dispatches(read_model(sketch.build(outputs)), Limits()):
        numbers = {name for name, _ in resizing.numbers_of(dispatch)}
        form = {name: v for name, v in dispatch.defines.items() if name not in numbers}
        kernels.add((dispatch.shader, *form.items()))
    return frozenset(kernels)


@pytest.mark.parametrize("op", ROWS)
def test_every_number_may_be_a_uniform(
    op: str, context: gd.EglContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A case of each form of the op's kernels; in a sample, one."""

    def generalized(self: resizing.Resizing, plan: Plan, shared_texels: int) -> Plan:
        dispatches = (
            replace(d, uniforms=frozenset(resizing.numbers_of(d))) for d in plan.dispatches
        )
        return replace(plan, dispatches=tuple(dispatches))

    monkeypatch.setattr(resizing.Resizing, "generalized", generalized)
    cases = [case for case in CASES if case.op == op and case.id not in LEFT_TO_THE_DRIVER]
    cases = one_of_each(cases, kernels) if sampling.everything else one_of_each(cases, lambda _: op)
    for case in cases:
        check(case, context)


def opened(s: Sketch, *signature: int) -> int:
    """An input of these sizes; -1 for those that the file leaves open, and gives as 1."""
    x = s.input(tuple(max(size, 1) for size in signature))
    s.tensors[x]["shape_signature"] = list(signature)
    return x


def window(s: Sketch, x: int, kernel: tuple[int, int, int, int], **options: Any) -> int:
    """A convolution, without padding, with 1 pixel in the file."""
    weights = [s.constant(s.normal(kernel, 1 / sqrt(prod(kernel[1:]))))]
    weights.append(s.constant(s.normal(kernel[:1])))
    sliding = {"padding": "VALID", "stride_w": 1, "stride_h": 1, **options}
    return s.op("CONV_2D", [x, *weights], [(1, 1, 1, kernel[0])], **sliding)


def of_a_picture(s: Sketch) -> list[int]:
    return [window(s, opened(s, 1, -1, -1, 3), (4, 3, 3, 3))]


def of_a_sound(s: Sketch) -> list[int]:
    """The batch and the length are open, and the window is as long as few batches are large."""
    x = s.op("EXPAND_DIMS", [opened(s, -1, -1), s.constant(np.int32(1))], [(1, 1, 1)])
    x = s.op("EXPAND_DIMS", [x, s.constant(np.int32(3))], [(1, 1, 1, 1)])
    y = window(s, x, (5, 1, 512, 1), stride_w=160)
    return [s.op("MEAN", [y, s.constant(np.int32([1, 2]))], [(1, 5)])]


def pooled(s: Sketch) -> list[int]:
    """Windows behind windows."""
    y = window(s, opened(s, -1, -1, -1, 3), (4, 5, 5, 3))
    halves = dict(stride_w=2, stride_h=2, filter_width=2, filter_height=2, padding="VALID")
    y = s.op("MAX_POOL_2D", [y], [(1, 1, 1, 4)], **halves)
    return [s.op("TANH", [window(s, y, (5, 3, 2, 4))], [(1, 1, 1, 5)])]


def down_and_up(s: Sketch) -> list[int]:
    """A quarter of the size, and back to it."""
    x, one = opened(s, -1, -1, -1, 4), s.constant(np.int32([1]))
    y = window(s, x, (4, 3, 3, 4), padding="SAME", stride_w=4, stride_h=4)
    shape = s.op("SHAPE", [y], [s.tensor((4,), "int32")], out_type=SCHEMA_NUMBERS["int32"])
    sides = s.op("STRIDED_SLICE", [shape, one, s.constant(np.int32([3])), one], [(2,)])
    sides = s.op("MUL", [sides, s.constant(np.int32([4, 4]))], [(2,)])
    y = s.op("RESIZE_NEAREST_NEIGHBOR", [y, sides], [s.tensor((1, 1, 1, 4))])
    return [s.op("ADD", [x, y], [(1, 1, 1, 4)])]


def frames(s: Sketch) -> list[int]:
    """A hundred samples each."""
    x = s.op("RESHAPE", [opened(s, -1, -1), s.constant(np.int32([-1, 100]))], [(1, 100)])
    layer = [s.constant(s.normal((7, 100))), s.constant(s.normal((7,)))]
    return [s.op("FULLY_CONNECTED", [x, *layer], [(1, 7)])]


def positions(s: Sketch) -> list[int]:
    """Attention among 37 places."""
    x = opened(s, -1, -1, 8)
    y = s.op("ADD", [x, s.constant(s.normal((37, 8)))], [(1, 37, 8)])
    shares = s.op("BATCH_MATMUL", [y, x], [(1, 37, 37)], adj_y=True)
    return [
        s.op("BATCH_MATMUL", [s.op("SOFTMAX", [shares], [(1, 37, 37)], beta=1.0), x], [(1, 37, 8)])
    ]


def parts(s: Sketch) -> list[int]:
    x, axis = opened(s, -1, -1, 6), s.constant(np.array(1, np.int32))
    results = [s.tensor((1, 1, 6)) for _ in range(5)]
    s.op("SPLIT", [axis, x], results, num_splits=5)
    return [s.op("CONCATENATION", results[::-1], [(1, 1, 6)], axis=1)]


OPEN = {
    of_a_picture: [(1, 60, 80, 3), (1, 3, 3, 3), (1, 7, 4, 3)],
    of_a_sound: [(1, 1760), (2, 512), (3, 25_000)],
    pooled: [(1, 20, 31, 3), (2, 40, 9, 3)],
    down_and_up: [(1, 16, 64, 4), (2, 32, 8, 4)],
    frames: [(1, 300), (2, 700)],
    positions: [(1, 37, 8), (3, 37, 8)],
    parts: [(1, 10, 6), (4, 35, 6)],
}
"""Networks by function, and sizes of their inputs; LiteRT, too, refuses 1."""


@pytest.mark.parametrize("host", ["ours", "ours without LiteRT", "LiteRT's"])
@pytest.mark.parametrize("network", OPEN)
def test_sizes_that_the_file_leaves_open(
    network: Callable[[Sketch], list[int]], host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = Sketch(np.random.default_rng(0))
    content, sizes = s.build(network(s)), OPEN[network]
    reference = Interpreter(model_content=content)
    with gd.GpuDelegate(model=content) as delegate:
        if host == "ours without LiteRT":
            monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
        kind = Interpreter if host == "LiteRT's" else gd.Interpreter
        interpreter = kind(model_content=content, experimental_delegates=[delegate])
        assert delegate.report.fully_delegated
        for size in (*sizes, sizes[0]):
            x = s.normal(size)
            assert_close(run_resized(interpreter, [x]), run_resized(reference, [x]))
        if network is of_a_picture:
            interpreter.resize_tensor_input(0, (1, 1, 1, 3))
            refused = pytest.raises((gd.UnsupportedModelError, RuntimeError), match="3 over 1")
            with refused:
                interpreter.allocate_tensors()


def heads_of(s: Sketch, x: int) -> int:
    """Two heads of four channels each, of as many places as there are."""
    sizes = s.op("SHAPE", [x], [s.tensor((3,), "int32")], out_type=SCHEMA_NUMBERS["int32"])
    one, two = s.constant(np.int32([1])), s.constant(np.int32([2]))
    length = s.op("STRIDED_SLICE", [sizes, one, two, one], [s.tensor((1,), "int32")])
    rest = [s.constant(np.int32([-1])), length, s.constant(np.int32([2, 4]))]
    shape = s.op("CONCATENATION", rest, [s.tensor((4,), "int32")], axis=0)
    y = s.op("RESHAPE", [x, shape], [(1, 1, 2, 4)])
    return s.op("TRANSPOSE", [y, s.constant(np.int32([0, 2, 1, 3]))], [(1, 2, 1, 4)])


def attention(s: Sketch, *signature: int) -> list[int]:
    """Among all places; the graph computes how many there are."""
    x = opened(s, *signature)
    products = [s.constant(s.normal((8, 8))), s.constant(s.normal((8,)))]
    y = s.op("FULLY_CONNECTED", [x, *products], [(1, 1, 8)], keep_num_dims=True)
    query, keys = heads_of(s, y), heads_of(s, x)
    shares = s.op("BATCH_MATMUL", [query, keys], [(1, 2, 1, 1)], adj_y=True)
    shares = s.op("SOFTMAX", [shares], [(1, 2, 1, 1)], beta=0.5)
    return [s.op("BATCH_MATMUL", [shares, keys], [(1, 2, 1, 4)])]


TEN_SIZES: dict[str, tuple[Callable[[Sketch], list[int]], list[tuple[int, ...]]]] = {
    "sequence": (lambda s: attention(s, 1, -1, 8), [(1, i, 8) for i in range(3, 13)]),
    "batch": (lambda s: attention(s, -1, 5, 8), [(i, 5, 8) for i in range(2, 12)]),
    "image": (down_and_up, [(1, 4 * i, 4 * (14 - i), 4) for i in range(2, 12)]),
}


@pytest.mark.parametrize("host", ["ours", "LiteRT's"])
@pytest.mark.parametrize("growing", TEN_SIZES)
def test_results_of_each_size_are_those_of_a_fresh_interpreter(
    growing: str, host: str, context: gd.EglContext
) -> None:
    network, sizes = TEN_SIZES[growing]
    s = Sketch(np.random.default_rng(0))
    content = s.build(network(s))
    kind = Interpreter if host == "LiteRT's" else gd.Interpreter

    def made(delegate: gd.GpuDelegate) -> Any:
        return kind(model_content=content, experimental_delegates=[delegate])

    def results(interpreter: Any, x: Any) -> list[bytes]:
        return [result.tobytes() for result in run_resized(interpreter, [x])]

    with gd.GpuDelegate(model=content, context=context) as delegate:
        interpreter = made(delegate)
        for size in (*sizes, sizes[0]):
            x = s.normal(size)
            with gd.GpuDelegate(model=content, context=context) as fresh:
                expected = results(made(fresh), x)
            assert results(interpreter, x) == expected


def decoder(s: Sketch) -> list[int]:
    """A step of a token, which is appended to two caches and sees all that they hold."""
    token, caches = opened(s, 1, 1, 8), [opened(s, 1, -1, 8) for _ in range(2)]
    grown = []
    for cache in caches:
        products = [s.constant(s.normal((8, 8))), s.constant(s.normal((8,)))]
        own = s.op("FULLY_CONNECTED", [token, *products], [(1, 1, 8)], keep_num_dims=True)
        grown.append(s.op("CONCATENATION", [cache, own], [(1, 2, 8)], axis=1))
    query, keys, values = (heads_of(s, x) for x in (token, *grown))
    shares = s.op("BATCH_MATMUL", [query, keys], [(1, 2, 1, 2)], adj_y=True)
    shares = s.op("SOFTMAX", [shares], [(1, 2, 1, 2)], beta=0.5)
    return [s.op("BATCH_MATMUL", [shares, values], [(1, 2, 1, 4)]), *grown]


@pytest.mark.parametrize("host", ["ours", "LiteRT's"])
def test_a_decoder_whose_caches_grow(host: str, context: gd.EglContext) -> None:
    """Ten tokens, each as of a fresh interpreter, and as LiteRT's own."""
    s = Sketch(np.random.default_rng(0))
    content = s.build(decoder(s))
    kind = Interpreter if host == "LiteRT's" else gd.Interpreter

    caches = [s.normal((1, 1, 8)) for _ in range(2)]
    with gd.GpuDelegate(model=content, context=context) as delegate:
        interpreter = kind(model_content=content, experimental_delegates=[delegate])
        for _ in range(10):
            feeds = [s.normal((1, 1, 8)), *caches]
            found = run_resized(interpreter, feeds)
            with gd.GpuDelegate(model=content, context=context) as fresh:
                other = kind(model_content=content, experimental_delegates=[fresh])
                for result, expected in zip(found, run_resized(other, feeds), strict=True):
                    np.testing.assert_array_equal(result, expected)
            assert_close(found, run_resized(Interpreter(model_content=content), feeds))
            caches = found[1:]
        assert delegate.report.fully_delegated
    assert caches[0].shape == (1, 11, 8)


@pytest.mark.parametrize("kind", [gd.Interpreter, Interpreter])
@pytest.mark.parametrize("on_cpu", ["the first node", "the last node"])
def test_open_sizes_and_nodes_on_the_cpu(kind: Callable[..., Any], on_cpu: str) -> None:
    s = Sketch(np.random.default_rng(0))
    content = s.build(pooled(s))
    options = gd.GpuDelegateOptions(
        first_delegate_node_index=int(on_cpu == "the first node"), last_delegate_node_index=2
    )
    reference = Interpreter(model_content=content)
    with gd.GpuDelegate(options, model=content) as delegate:
        interpreter = kind(model_content=content, experimental_delegates=[delegate])
        assert not delegate.report.fully_delegated
        assert delegate.report.segments == 1
        for size in OPEN[pooled]:
            x = s.normal(size)
            assert_close(run_resized(interpreter, [x]), run_resized(reference, [x]))
        del interpreter


def test_only_sizes_may_come_to_fit() -> None:
    """Nodes that another size does not help stay on the CPU, and nodes between them do not."""
    s = Sketch(np.random.default_rng(0))
    y = window(s, opened(s, 1, -1, -1, 3), (4, 5, 5, 3))
    y = s.op("Mystery", [y], [(1, 1, 1, 4)])
    content = s.build([s.op("TANH", [window(s, y, (5, 3, 2, 4))], [(1, 1, 1, 5)])])
    lowered = Lowerings(read_model(content), Limits()).default
    assert lowered.reasons == {1: "the op has no GPU implementation"}
    assert lowered.unfit == {
        0: "a window of 5 over 1 pixels without padding",
        2: "a window of 3 over 1 pixels without padding",
    }
    assert [partition.segments for partition in choose_partitions([lowered])] == [((0,), (2, 3))]
