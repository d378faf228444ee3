"""Which cases of the op table the package verifies devices with."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from gles_delegate.device import profiles
from gles_delegate.device.limits import Limits
from gles_delegate.gl.context import GpuContext
from gles_delegate.model.graph import Graph
from gles_delegate.model.reader import read_model
from gles_delegate.ops.cells import GRU_CELLS, LSTM_CELLS, RESET_FIRST_CELLS
from gles_delegate.planning.lowering import Lowerings
from gles_delegate.planning.plan import make_plan
from gles_delegate.shaders.dispatch import Dispatch
from gles_delegate.verification.cases import VerificationCase, pack
from gles_delegate.verification.check import Form, forms_of, verified
from tests.litert.test_custom_ops import pooled_and_back, run_xnnpack, unpooled
from tests.litert.test_landmarks import cropped, matrix_model, moved_landmarks, transform_matrix
from tests.litert.test_normalization import Net, as_torch
from tests.op_table import CASES, Case
from tests.support.faults import shown
from tests.support.force import TILED, limits_of
from tests.support.oracle import Arrays, complete, run_litert
from tests.support.sketch import Sketch
from tests.support.tflite_builder import quantization

T = TypeVar("T")
Features = frozenset[Hashable]

MOST_BYTES = 8192
"""Size limit of a model with its inputs, before compression."""
MOST_OF_A_ROW = 24
"""Cases to choose from of each row of the op table, but for GRAPH, of which all are."""
_MOST_IN_HALF = 0.5
"""Share of the allowed error in float16 that a case may take here, so that others may round
differently."""
_FEW = 2
"""Numbers up to this one are told apart."""
_ROOMY = Limits(storage_blocks=6, image_units=5, invocations=1024)
_TILES = {"PIXELS", "SLICES", "COLUMNS", "WEIGHT_COLUMNS", "IN_LANES", "BLOCK_DEPTH"}
"""Numbers of which each value is another form."""
_WINDOWS = ("KERNEL_", "FILTER_", "MEMORY_")
"""Beginnings of the names of a window's sizes."""


def cover(candidates: Sequence[T], features: Callable[[T], Features]) -> list[T]:
    """Candidates that have all features together, greedily; earlier ones first."""
    wanted = {feature for each in candidates for feature in features(each)}
    heap = [(-len(features(each)), i) for i, each in enumerate(candidates)]
    heapq.heapify(heap)
    taken: list[int] = []
    while wanted:
        _, i = heapq.heappop(heap)
        gain = len(features(candidates[i]) & wanted)
        if heap and -gain > heap[0][0]:
            heapq.heappush(heap, (-gain, i))
        elif gain:
            taken.append(i)
            wanted -= features(candidates[i])
    return [candidates[i] for i in sorted(taken)]


def chosen() -> list[VerificationCase]:
    """The op table's cases that show every kernel and its forms, element types, odd sizes, batches
    and faults."""
    known = []
    for case in candidates():
        features = features_of_row(case)
        if features:
            each = built(case)
            known.append((each, features | _of_faults(each, str(each.outputs[0].dtype))))
    return [case for case, _ in cover(known, lambda each: each[1])]


def candidates() -> list[Case]:
    """The cases of the op table to choose from."""
    rows: defaultdict[str, list[Case]] = defaultdict(list)
    for case in sorted(CASES, key=lambda case: case.hash):
        if not case.special and (case.op == "GRAPH" or len(rows[case.op]) < MOST_OF_A_ROW):
            rows[case.op].append(case)
    return [case for row in rows.values() for case in row]


def built(case: Case) -> VerificationCase:
    """The case with LiteRT's results."""
    content, inputs = case.build()
    steps, name = case.steps, case.id
    return _verification(content, inputs, run_litert(content, inputs), steps=steps, name=name)


def others() -> Iterator[VerificationCase]:
    """Cases of ops and kernels that the op table lacks, or has only with much data."""
    x = np.random.default_rng(0).uniform(0, 192, (1, 10, 3)).astype(np.float32)
    s, y, options = matrix_model(x)
    by_numpy = [
        (s, y, transform_matrix(x.astype(float), options)),
        moved_landmarks((1, 7, 2)),
        cropped((5, 9), 6, 0.3),
        unpooled((3, 5, 4, 7), 2),
    ]
    for s, y, expected in by_numpy:
        yield _verification(s.build([y]), s.feeds, [expected.astype(np.float32)])
    s, pooled = pooled_and_back((7, 5), (3, 2), 3)
    content = s.build(pooled)
    for op in ("MaxPoolingWithArgmax2D", "MaxUnpooling2D"):
        yield _verification(content, s.feeds, run_xnnpack(content, s.feeds), name=op)
    beside = Sketch(np.random.default_rng(0))
    x, y = beside.feed((1, 1, 1, 8)), beside.feed((1, 1, 1, 36))
    z = beside.op("CONCATENATION", [x, beside.op("RELU", [y])], axis=3)
    content = complete(beside, [z])
    name = "CONCATENATION of what is copied and what is computed in its place"
    yield _verification(content, beside.feeds, run_litert(content, beside.feeds), name=name)
    conv = Sketch(np.random.default_rng(0))
    weights, bias = conv.constant(conv.normal((7, 3, 3, 6))), conv.constant(conv.normal((7,)))
    options = dict(padding=0, stride_h=1, stride_w=1, fused_activation_function=1)
    y = conv.op("CONV_2D", [conv.feed((2, 9, 14, 6)), weights, bias], **options)
    content, name = complete(conv, [y]), "CONV_2D of 3 x 3 with a stride of 1"
    yield _verification(content, conv.feeds, run_litert(content, conv.feeds), name=name)
    net, long = Net((2, 3, 5, 37)), Sketch(np.random.default_rng(0))
    x = long.feed(values=np.resize(long.normal((13,)), (1, 16391)))
    made = [(net, as_torch(net)), (long, long.op("SOFTMAX", [x], beta=1.0))]
    # Not among the first of their op: large enough for work groups that share what they load.
    yield from (built(case) for case in CASES if case.id == "FULLY_CONNECTED x=70x5 out=125")
    for s, y in (*made, *map(_quantizing, (("float32", "int8"), ("uint8", "float32")))):
        content = complete(s, [y])
        yield _verification(content, s.feeds, run_litert(content, s.feeds))


def _quantizing(types: tuple[str, str]) -> tuple[Sketch, int]:
    s = Sketch(np.random.default_rng(0))
    source, target = (None if kind == "float32" else quantization(0.05, 7) for kind in types)
    values = 3 * s.normal((2, 3, 5)) + 90 * (source is not None)
    s.feeds.append(values.astype(types[0]))
    x = s.input(values.shape, types[0], quantization=source)
    op = "DEQUANTIZE" if target is None else "QUANTIZE"
    return s, s.op(op, [x], [s.tensor(None, types[1], quantization=target)])


def _verification(
    content: bytes, inputs: Arrays, outputs: Arrays, steps: int = 1, name: str = ""
) -> VerificationCase:
    graph = read_model(content)
    op = name.partition(" ")[0] or next(n.op for n in graph.nodes if graph.outputs[0] in n.outputs)
    if op == "GRAPH" or (len(graph.nodes) > _FEW and not name):
        dispatches = _dispatches(graph, _ROOMY, half=False)
        op = next(filter(None, map(_layer, dispatches)), "GRAPH")
    arrays = tuple(inputs), tuple(outputs)
    return VerificationCase(op, name or op, False, True, steps, content, *arrays)


def _layer(d: Dispatch) -> str:
    """The op of a layer that planning found."""
    if d.shader.startswith("lstm_"):
        return LSTM_CELLS
    if d.shader != "gru_step":
        return ""
    return RESET_FIRST_CELLS if d.defines["RESET_FIRST"] else GRU_CELLS


def made(context: GpuContext) -> list[VerificationCase]:
    """The cases of the package: which are quick, and comparable in float16, is found by running."""
    cases = [*chosen(), *others()]
    limits = replace(context.limits, buffer_texels=0, chain_blocks=0)
    halves = [
        Form(replace(limits, profile=p), half=True)
        for p in (profiles.UNKNOWN, profiles.MALI_G, profiles.INTEL)
    ]
    inaccurate = {
        (result.op, result.name)
        for result in verified(context, cases, halves)
        if not result.ratio <= _MOST_IN_HALF
    }
    cases = [replace(case, half=(case.op, case.name) not in inaccurate) for case in cases]
    return with_quick(sorted(cases, key=lambda case: (case.op, case.name)))


def with_quick(cases: Sequence[VerificationCase]) -> list[VerificationCase]:
    """The cases, with those marked that the short form includes."""
    # A step of an 8-bit result hides errors of some percent.
    by_use = sorted(
        cases, key=lambda case: (_is_coarse(case), -len(shown(case)), len(pack([case])))
    )
    quick = {(case.op, case.name) for case in cover(by_use, _quick_features)}
    return [replace(case, quick=(case.op, case.name) in quick) for case in cases]


def _is_coarse(case: VerificationCase) -> bool:
    arrays = *case.inputs, *case.outputs
    return any(array.dtype.kind in "iu" and array.dtype.itemsize < 4 for array in arrays)


def _quick_features(case: VerificationCase) -> Features:
    if case.op == "GRAPH":
        return frozenset()
    dispatches = [*_dispatches(read_model(case.model), _ROOMY, half=False)]
    shaders = {d.shader for d in dispatches}
    is_beside = any(d.partial for d in dispatches) and "elementwise" in shaders
    features = frozenset([("op", case.op), (case.op, "copied and computed", is_beside), *shaders])
    if shaders & TILED - {"reduce"}:
        features |= {("weights", case.op, _is_coarse(case))}
    if _is_coarse(case):
        return features
    # Calls on integers are other functions than those on real numbers; copies are the same.
    of_integers = "elementwise" in shaders and case.outputs[0].dtype.kind not in "fc"
    return features | _of_windows(case.op, dispatches) | _of_faults(case, of_integers)


def _of_faults(case: VerificationCase, kind: Hashable) -> Features:
    return frozenset((case.op, kind, fault) for fault in shown(case))


def _of_windows(op: str, dispatches: Iterable[Dispatch]) -> Features:
    """The sizes of windows whose loops take more than one pass."""
    return frozenset(
        (op, name)
        for d in dispatches
        for name in d.numbers
        if name.startswith(_WINDOWS) and _takes_passes(d, name)
    )


def _takes_passes(d: Dispatch, size: str) -> bool:
    if d.shader == "transpose_conv":  # whose loops step by the stride
        return d.numbers[size] > d.numbers[size.replace("KERNEL", "STRIDE")]
    return d.numbers[size] != 1


def features_of_row(case: Case) -> Features:
    """The features of a case of the op table; none if it is large, or values decide its form."""
    sketch, outputs = case.sketch()
    content = sketch.build(outputs)
    if len(content) + sum(feed.nbytes for feed in sketch.feeds) > MOST_BYTES:
        return frozenset()
    return features_of(content, case.op.partition(" ")[0])


def features_of(content: bytes, op: str) -> Features:
    """The kernels, forms and element types of a model of an op."""
    graph = read_model(content)
    dispatches = every_dispatch(graph)
    if not dispatches:
        return frozenset()
    own = [("op", op, graph.tensors[i].dtype) for i in graph.inputs]
    of_dispatches = frozenset(feature for d in dispatches for feature in _of_dispatch(d))
    return of_dispatches.union(own, _of_windows(op, dispatches))


def every_dispatch(graph: Graph) -> list[Dispatch]:
    """The dispatches of a graph in every form of every profile that has others than the default."""
    dispatches = [*_dispatches(graph, _ROOMY, half=True)]
    if TILED.intersection(d.shader for d in dispatches):
        for profile in profiles.NAMED.values():
            dispatches += _dispatches(graph, limits_of(_ROOMY, profile), profile.half_storage)
    return dispatches


def _dispatches(graph: Graph, limits: Limits, half: bool) -> Iterator[Dispatch]:
    """Every dispatch in every form; none if the values of inputs or variables decide it."""
    lowerings = Lowerings(graph, limits)
    if lowerings.default.reasons or lowerings.default.uses.tensors:
        return
    values, nodes = lowerings.default.values, range(len(graph.nodes))
    for form in forms_of(limits, half, tuned=True):
        choices = dict.fromkeys(nodes, form.choice)
        lowered = lowerings.lower({}, values=values)
        plan = make_plan(lowered, lowered.steps, form.limits, form.half, choices=choices)
        yield from plan.dispatches


def _of_dispatch(d: Dispatch) -> Iterator[Hashable]:
    yield d.shader, "kinds", *(operand.kind for operand in (*d.reads[:2], d.output))
    yield d.shader, "odd", bool(d.output.channels % 4)
    yield d.shader, "batch", d.output.shape[:1] > (1,)
    for call in (*d.epilogue, *d.inner):
        yield "call", call.function
    for name, value in d.defines.items():
        if isinstance(value, str) and value.isidentifier():
            yield d.shader, name, value
        elif isinstance(value, int) and not name.endswith(("_PIXELS", "_CHANNELS", "_STRIDE")):
            yield d.shader, name, value if name in _TILES else min(value, _FEW + 1)
