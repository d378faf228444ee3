"""Models whose inputs are resized: one program serves many sizes."""

import itertools
import sys
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import gles_delegate as gd
from gles_delegate.device.limits import Limits
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.program import Program
from gles_delegate.model.reader import read_model
from gles_delegate.planning import resizing
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.planning.plan import Plan
from gles_delegate.shaders.dispatch import Dispatch
from tests.litert.test_ops import check
from tests.op_table import CASES, LEFT_TO_THE_DRIVER, OPS, Case, one_of_each
from tests.support import sampling
from tests.support.oracle import assert_close, litert_interpreter, run
from tests.support.sampling import choose, drawn
from tests.support.sketch import Sketch

SIZES = ((48, 40), (33, 56), (40, 33), (49, 40), (41, 44), (48, 40), (33, 56))
"""Two shapes that alternate, with the same register tiles."""


ROWS = choose("with uniforms", [*OPS], drawn([*OPS], 150))


@pytest.fixture(scope="module")
def context(gl: None) -> Iterator[gd.EglContext]:
    with gd.EglContext() as context:
        yield context


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

    def conv(x: int, size: int, channels: int, stride: int = 1) -> int:
        n, h, w, inputs = s.tensors[x]["shape"]
        weights = s.constant(s.normal((channels, size, size, inputs), 0.3))
        bias = s.constant(s.normal((channels,)))
        options = {"padding": "SAME", "stride_h": stride, "stride_w": stride}
        shape = (n, -(-h // stride), -(-w // stride), channels)
        return s.op("CONV_2D", [x, weights, bias], [shape], **options)

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
    steps = lower_graph(read_model(sketch.build(outputs)), Limits()).steps.values()
    kernels = set[Hashable]()
    for dispatch in itertools.chain(*steps):
        if isinstance(dispatch, Dispatch):
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


def open_network() -> bytes:
    """A convolution without padding of pictures of any size, which the file gives as 1 x 1."""
    s = Sketch(np.random.default_rng(0))
    x = s.input((1, 1, 1, 3))
    s.tensors[x]["shape_signature"] = [1, -1, -1, 3]
    weights = [s.constant(s.normal((4, 3, 3, 3))), s.constant(s.normal((4,)))]
    window = dict(padding="VALID", stride_w=1, stride_h=1)
    return s.build([s.op("CONV_2D", [x, *weights], [(1, 1, 1, 4)], **window)])


@pytest.mark.parametrize("host", ["ours", "ours without LiteRT", "LiteRT's"])
def test_sizes_that_the_file_leaves_open(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = open_network()
    reference = Interpreter(model_content=content)
    with gd.GpuDelegate(model=content) as delegate:
        if host == "ours without LiteRT":
            monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
        kind = Interpreter if host == "LiteRT's" else gd.Interpreter
        interpreter = kind(model_content=content, experimental_delegates=[delegate])
        assert delegate.report.fully_delegated
        for height, width in ((60, 80), (3, 3), (7, 4)):
            picture = np.random.default_rng(0).standard_normal((1, height, width, 3), np.float32)
            for each in (interpreter, reference):
                each.resize_tensor_input(0, picture.shape)
                each.allocate_tensors()
            assert_close(run(interpreter, [picture]), run(reference, [picture]))
        interpreter.resize_tensor_input(0, (1, 1, 1, 3))
        with pytest.raises((gd.UnsupportedModelError, RuntimeError), match="a window of 3 over 1"):
            interpreter.allocate_tensors()
