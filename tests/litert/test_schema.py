"""Numbers of the schema that are written down here, against LiteRT's own schema."""

from collections.abc import Iterable
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as tfl

from gles_delegate.model.dtypes import SCHEMA_NUMBERS
from gles_delegate.model.schema import (
    ACTIVATIONS,
    BUILTIN_OPERATORS,
    COMPOSITE_OPTIONS,
    OPTIONS,
    OPTIONS_2,
)
from gles_delegate.ops.lib import registry
from tests.support.schema import BUILTIN_OPTIONS, ENUMS, TABLES, pack

SAMPLES: dict[str, Any] = {"bool": True, "float32": 1.5, "string": "text", "bytes": b"\1\2"}


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(map(str.capitalize, rest))


def sample(kind: str) -> Any:
    """A value other than any default."""
    if kind == "union":
        return ("SoftmaxOptions", {"beta": 1.5})
    if kind.startswith("["):
        element = sample(kind[1:-1])
        return [element, element]
    return {} if kind in TABLES else SAMPLES.get(kind, 7)


@pytest.mark.parametrize("table", TABLES)
def test_every_field_is_where_litert_reads_it(table: str) -> None:
    for field, (_, kind) in TABLES[table].items():
        if field == "details":  # of no kind that tests write
            continue
        value = sample(kind)
        values = {field: value}
        if field == "builtin_options":
            values["builtin_options_type"] = tfl.BuiltinOptions.SoftmaxOptions
        if field == "builtin_options_2":
            values["builtin_options_2_type"] = COMPOSITE_OPTIONS
            values[field] = ("StableHLOCompositeOptions", {"decomposition_subgraph_index": 7})
        builder = flatbuffers.Builder()
        builder.Finish(pack(builder, table, values))
        read = getattr(tfl, f"{table}T").InitFromPackedBuf(bytes(builder.Output()), 0)
        actual = getattr(read, camel(field))
        if field == "builtin_options":
            assert actual.beta == 1.5
        elif field == "builtin_options_2":
            assert actual.decompositionSubgraphIndex == 7
        elif kind.strip("[]") in TABLES:
            assert actual is not None
            assert not kind.startswith("[") or len(actual) == 2
        else:
            expected = value.encode() if kind == "string" else value
            assert np.array_equal(bytes(actual) if kind == "bytes" else actual, expected), field


def numbered(enum: Any) -> dict[str, int]:
    return {name: number for name, number in vars(enum).items() if not name.startswith("_")}


def names(of: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(of)}


def test_names_have_the_numbers_of_litert() -> None:
    assert names(BUILTIN_OPTIONS) == numbered(tfl.BuiltinOptions)
    assert names(ENUMS["padding"]) == numbered(tfl.Padding)
    assert names(ENUMS["mode"]) == numbered(tfl.MirrorPadMode)
    assert names(ENUMS["weights_format"]) == numbered(tfl.FullyConnectedOptionsWeightsFormat)
    assert names(ENUMS["kernel_type"]) == numbered(tfl.LSTMKernelType)
    assert names(ENUMS["fused_activation_function"]) == numbered(tfl.ActivationFunctionType)
    assert names(ACTIVATIONS) == numbered(tfl.ActivationFunctionType)


def test_the_packages_names_have_the_numbers_of_litert() -> None:
    ours = names(BUILTIN_OPERATORS)
    assert {name: ours.get(name) for name in numbered(tfl.BuiltinOperator)} == numbered(
        tfl.BuiltinOperator
    )
    types = names(name.upper() for name in SCHEMA_NUMBERS)
    assert {name: types.get(name) for name in numbered(tfl.TensorType)} == numbered(tfl.TensorType)


def test_the_kind_of_the_options_is_known_of_every_op_that_reads_them() -> None:
    """LiteRT ignores options of another op's kind."""
    reading = {name for name, op in registry._OPS.items() if op.options is not registry.Options}
    assert reading.intersection(BUILTIN_OPERATORS) <= {*OPTIONS, *OPTIONS_2}
    numbers = numbered(tfl.BuiltinOptions).values()
    assert {*OPTIONS.values()} <= {*numbers}
