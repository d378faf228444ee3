"""Reductions that the invocations of a work group share, against LiteRT's CPU kernels."""

import pytest

import gles_delegate as gd
from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import AMD, MIDGARD, NVIDIA
from gles_delegate.model.reader import read_model
from tests.op_table import OPS, Case
from tests.op_table.base import Attributes, Op
from tests.op_table.case import make_case
from tests.support.force import force_profile
from tests.support.lowered import lowered_dispatches
from tests.support.oracle import assert_close, run_gles, run_litert
from tests.support.sketch import Dims, Sketch

pytestmark = pytest.mark.usefixtures("floor")


def residual(s: Sketch, op: str, x: Dims, out: int) -> int:
    """FULLY_CONNECTED, another tensor added, RELU."""
    y = s.op(
        "FULLY_CONNECTED",
        [s.feed(x), s.constant(s.normal((out, x[1]))), s.constant(s.normal((out,)))],
    )
    return s.op("RELU", [s.op("ADD", [s.feed((x[0], out)), y])])


PROFILES = {"amd": AMD, "midgard": MIDGARD, "nvidia": NVIDIA}
"""With weights in storage blocks, and in textures; with many lanes and with few; of windows."""
WINDOW = dict(stride_h=1, stride_w=1, padding="VALID")
SPATIAL: list[Attributes] = [
    dict(x=(2, 9, 8, 6)),
    dict(x=(1, 112, 112, 16)),
    dict(x=(40, 5, 3), axes=(0,)),
    dict(x=(5, 41, 3), axes=(1,), keep_dims=True),
    dict(x=(6, 7, 8, 3), axes=(0, 2)),
    dict(x=(1, 7, 7, 37), axes=(1, 2, 3)),
    dict(x=(5, 129), axes=(1,)),
    dict(x=(3, 2, 71), axes=(0, 2)),
    dict(x=(1, 70, 130, 3), axes=(1, 2)),
    dict(x=(2, 3001), axes=(1,)),
]
ROWS: dict[str, list[Attributes]] = {
    "FULLY_CONNECTED": [
        dict(x=(1, 1024), out=1001),
        dict(x=(5, 1027), out=1001, act="RELU6"),
        dict(x=(5, 33), out=5),
        dict(x=(1, 37), out=1),
        dict(x=(1, 999), out=3, bias=False),
        dict(x=(7, 260), out=1),
        dict(x=(2, 70), out=9, runtime_weights=True, bias=False),
        dict(x=(1, 3, 65), out=130, keep_num_dims=True),
    ],
    "FULLY_CONNECTED (8-bit)": [
        dict(x=(3, 133), kind=kind, weights=(10, 133), per_channel=False, out_scale=0.5)
        for kind in ("int8", "uint8")
    ],
    "CONV_2D": [
        dict(x=(1, 1, 1, 256), out=260, kernel=(1, 1), act="RELU6"),
        dict(x=(5, 1, 1, 65), out=3, kernel=(1, 1)),
        dict(x=(1, 3, 3, 191), out=130, padding="VALID"),
        dict(x=(1, 2, 3, 68), out=70),
        dict(x=(1, 5, 5, 36), out=33, stride=(3, 2), dilation=(1, 1)),
        dict(x=(1, 2, 2, 128), out=64, groups=2),
        dict(x=(1, 3, 1, 34), out=5, runtime_weights=True),
    ],
    "CONV_2D (8-bit)": [
        dict(x=(1, 1, 1, 66), kind="int8", weights=(13, 1, 1, 66), out_scale=0.5, **WINDOW)
    ],
    "RESIDUAL": [dict(x=(1, 300), out=10), dict(x=(5, 64), out=7)],
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_PROD"), SPATIAL),
    **{op: [dict(case, kind="int32") for case in SPATIAL] for op in ("REDUCE_MAX", "REDUCE_MIN")},
    **{op: [dict(case, kind="bool") for case in SPATIAL] for op in ("REDUCE_ANY", "REDUCE_ALL")},
    "SUM (8-bit)": [dict(x=(2, 9, 8, 6), kind="int8", integers=((1, 2),), out_scale=0.5)],
    **{
        op: [
            dict(x=(2, 7, 6, 9), size=(7, 6), padding="VALID", act="RELU"),
            dict(x=(1, 6, 7, 1030), size=(9, 8), stride=(9, 9)),
            dict(x=(3, 1, 19, 2), size=(1, 19), padding="VALID"),
        ]
        for op in ("AVERAGE_POOL_2D", "MAX_POOL_2D")
    },
    **{
        op: [dict(x=(3, 1001)), dict(x=(2, 66)), dict(x=(3, 16387)), dict(x=(1, 99999))]
        for op in ("SOFTMAX", "LOG_SOFTMAX")
    },
    "L2_NORMALIZATION": [dict(x=(3, 1001)), dict(x=(2, 66))],
    "UNIDIRECTIONAL_SEQUENCE_LSTM": [
        dict(x=(2, 3, 7), units=65),
        dict(x=(1, 3, 7), units=38, outputs=33, features=("projection",)),
        dict(x=(1, 2, 7), units=33, features=("norm", "cifg")),
    ],
    "UNIDIRECTIONAL_SEQUENCE_LSTM (8-bit)": [dict(x=(1, 3, 5), units=33)],
    "RNN": [dict(x=(3, 7), units=37)],
}
CASES = [
    make_case(op, OPS.get(op) or Op(residual, list), case)
    for op, row in ROWS.items()
    for case in row
]


@pytest.fixture(params=PROFILES)
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Limits:
    force_profile(monkeypatch, PROFILES[request.param])
    return Limits(profile=PROFILES[request.param])


def check(case: Case, limits: Limits, context: gd.EglContext, shared: bool) -> None:
    content, inputs = case.build()
    dispatches = lowered_dispatches(read_model(content), limits)
    lanes = [dispatch.grid.reduction_lanes for dispatch in dispatches]
    assert (max(lanes) > 1) == shared
    actual = run_gles(content, inputs, context)
    assert_close(actual, run_litert(content, inputs), special=case.special, inputs=inputs)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_shared(case: Case, limits: Limits, context: gd.EglContext) -> None:
    check(case, limits, context, shared=True)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("REDUCE_MAX", dict(x=(16, 5), axes=(0,), special=True)),
        ("AVERAGE_POOL_2D", dict(x=(1, 9, 10, 3), size=(7, 10), stride=(9, 10))),
    ],
    ids=["in an order that NaNs make visible", "a window that misses rows"],
)
def test_not_shared(
    op: str, attributes: Attributes, limits: Limits, context: gd.EglContext
) -> None:
    check(make_case(op, OPS[op], attributes), limits, context, shared=False)
