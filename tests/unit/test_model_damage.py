"""Damaged and hostile bytes: `read_model` gives a graph or raises ModelError, and soon."""

import random
import signal
import struct
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import flatbuffers
import numpy as np
import pytest

from gles_delegate.errors import ModelError
from gles_delegate.model.dtypes import SCHEMA_NUMBERS
from gles_delegate.model.reader import read_model
from gles_delegate.model.sparse import Level, Sparsity, to_dense
from gles_delegate.runtime.standalone import describe
from tests.support.sampling import choose, drawn
from tests.support.schema import pack, pack_model
from tests.support.speed import scaled
from tests.support.tflite_builder import ModelBuilder, quantization

IDENTIFIER = b"TFL3"
MEMORY_PER_BYTE = 300  # a table of a few bytes becomes a Python object


def small_tables() -> Any:
    """The tables of a model with one of everything that the reader looks at."""
    b = ModelBuilder()
    x = b.input((1, 4, 4, 3), name="x", quantization=quantization(0.5, 3))
    weights = b.constant(np.ones((2, 3, 3, 3), np.float32), name="weights")
    bias = b.constant(np.zeros(2, np.float32))
    options: dict[str, Any] = {"stride_h": 1, "stride_w": 1, "fused_activation_function": "RELU"}
    conv = b.op("CONV_2D", [x, weights, bias], [(1, 4, 4, 2)], **options)
    custom = b.op("Mine", [conv, -1, b.variable((1, 4))], [(1, 4)], custom_options=b"\1\2\3")
    body = b.subgraph(lambda inner: [inner.op("EXP", [inner.input((1, 4))], [(1, 4)])])
    custom = b.composite(body, [custom], [(1, 4)])
    return b.model([custom], signatures={"serve": ({"image": x}, {"scores": custom})})


@cache
def small_model() -> bytes:
    return pack_model(small_tables())


@contextmanager
def time_limit(limit: float = 5.0) -> Iterator[None]:
    """Raise TimeoutError after so much processor time: busy and slow machines do not count."""
    seconds = scaled(limit)

    def give_up(*_: object) -> None:
        raise TimeoutError(f"not read within {seconds:.1f} s of the processor")

    previous = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)


def read_all(data: bytes) -> None:
    """Read the model and the values of its constants."""
    with time_limit():
        for tensor in (t for graph in read_model(data).subgraphs for t in graph.tensors):
            if tensor.is_constant:
                tensor.array()


def check_all(damaged: Iterable[tuple[str, bytes]]) -> None:
    """Each is read or refused with ModelError; a failure names all that are neither."""
    wrong = []
    for label, data in damaged:
        try:
            read_all(data)
        except ModelError:
            pass
        except Exception as error:
            wrong.append(f"{label}: {error!r}")
    assert not wrong, "\n".join(wrong[:20])


def patched(position: int, new: bytes) -> bytes:
    data = small_model()
    return data[:position] + new + data[position + len(new) :]


def test_the_undamaged_model_is_read() -> None:
    read_all(small_model())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"T",
        b"\0" * 8,
        b"\0" * 4096,
        b"not a model at all, but long enough to look at",
        b"\0\0\0\0" + IDENTIFIER,
        b"\xff\xff\xff\xff" + IDENTIFIER,
        b"\x08\0\0\0" + IDENTIFIER,
        patched(4, b"TFL2"),
        patched(4, b"\0\0\0\0"),
    ],
)
def test_no_model(data: bytes) -> None:
    with pytest.raises(ModelError):
        read_all(data)


def test_every_prefix() -> None:
    data = small_model()
    check_all((f"first {size} bytes", data[:size]) for size in range(len(data)))


def test_a_table_that_ends_behind_the_file() -> None:
    """The file is cut off, even if none of the fields that are read lies there."""
    model = small_model()
    root = struct.unpack_from("<I", model)[0]
    vtable = root - struct.unpack_from("<i", model, root)[0]
    read_all(patched(vtable + 2, struct.pack("<H", len(model) - root)))
    with pytest.raises(ModelError, match=f"a table of .* at byte {root} lies outside the"):
        read_all(patched(vtable + 2, struct.pack("<H", len(model) - root + 1)))


def test_every_byte() -> None:
    model = small_model()
    positions = range(len(model))
    for position in choose("damaged bytes", positions, drawn(positions, len(positions) // 4)):
        byte = model[position]
        values = {0x00, 0xFF, 0x7F, *(byte ^ 1 << bit for bit in range(8))}
        check_all((f"byte {position} = {v:#x}", patched(position, bytes([v]))) for v in values)


def test_every_word() -> None:
    """Vector lengths and offsets: huge, zero, to themselves, backwards, just past the end."""
    size = len(small_model())
    for position in range(0, size - 3, 4):
        values = {0, 4, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 24, size, size - position}
        values |= {-position % (1 << 32), (position - size) % (1 << 32)}
        words = ((v, struct.pack("<I", v)) for v in values)
        check_all((f"word {position} = {v:#x}", patched(position, word)) for v, word in words)


def test_random_damage() -> None:
    rng = random.Random(0)

    def damaged() -> bytes:
        data = bytearray(small_model())
        for _ in range(rng.randint(2, 12)):
            data[rng.randrange(len(data))] = rng.choice(
                (0, 1, 4, 8, 0x7F, 0xFF, rng.randrange(256))
            )
        return bytes(data)

    check_all((f"damage {i}", damaged()) for i in range(3000))


def edited(changes: Mapping[str, Any]) -> bytes:
    """The small model with other values at paths like ``subgraphs.0.tensors.0.buffer``."""
    model = small_tables()
    for path, value in changes.items():
        *steps, field = path.split(".")
        node: Any = model
        for step in steps:
            node = node[int(step) if step.isdigit() else step]
        node[field] = value
    return pack_model(model)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"subgraphs": None},
        {"subgraphs": []},
        {"operator_codes": None},
        {"subgraphs.0.tensors": None},
        {"subgraphs.0.inputs": [55]},
        {"subgraphs.0.inputs": [-1]},
        {"subgraphs.0.outputs": [-2]},
        {"subgraphs.0.outputs": [2**31 - 1]},
        {"subgraphs.0.operators.0.inputs": [0, 99]},
        {"subgraphs.0.operators.0.inputs": [-7]},
        {"subgraphs.0.operators.0.outputs": [-1]},
        {"subgraphs.0.operators.0.opcode_index": 9},
        {"subgraphs.0.tensors.0.buffer": 99},
        {"subgraphs.0.tensors.0.buffer": 2**32 - 1},
        {"subgraphs.0.tensors.0.type": 99},
        {"subgraphs.0.tensors.0.type": -1},
        {"subgraphs.0.tensors.0.shape": [1, -4, 4, 3]},
        {"subgraphs.0.tensors.0.shape": [1] * 1000},
        {"subgraphs.0.tensors.1.shape": [2, 3, 3, 4]},
        {"subgraphs.0.tensors.1.shape": [2**31 - 1] * 4},
        {"subgraphs.0.tensors.1.shape": [0, 2**31 - 1, 2**31 - 1, 2**31 - 1]},
        {"subgraphs.1.outputs": [9]},
        {"signature_defs.0.inputs.0.tensor_index": 99},
        {"signature_defs.0.subgraph_index": 2},
        {"signature_defs.0.subgraph_index": 1},
        {"buffers.1.offset": 2**63},
        {"buffers.1.offset": 64, "buffers.1.size": 2**64 - 1},
    ],
    ids=str,
)
def test_what_contradicts_itself_is_refused(changes: Mapping[str, Any]) -> None:
    with pytest.raises(ModelError):
        read_all(edited(changes))


def _model(builder: flatbuffers.Builder, **graph: Any) -> bytes:
    tables = {"version": 3, "subgraphs": [graph], "operator_codes": [{}]}
    return pack_model(tables, builder)


def _tensors_that_share_a_shape(builder: flatbuffers.Builder) -> bytes:
    tensor = pack(builder, "Tensor", {"shape": np.ones(20_000, np.int32)})
    return _model(builder, tensors=[tensor] * 20_000)


def _tensors_that_share_a_name(builder: flatbuffers.Builder) -> bytes:
    tensor = pack(builder, "Tensor", {"name": "n" * 50_000})
    return _model(builder, tensors=[tensor] * 2_000)


def _nodes_that_share_their_inputs(builder: flatbuffers.Builder) -> bytes:
    node = pack(builder, "Operator", {"inputs": np.full(20_000, -1, np.int32)})
    return _model(builder, operators=[node] * 20_000)


def _nodes_that_share_large_custom_options(builder: flatbuffers.Builder) -> bytes:
    size = 100_000
    builder.CreateNumpyVector(np.zeros(size, np.uint8))
    options = {"large_custom_options_offset": 2, "large_custom_options_size": size}
    return _model(builder, operators=[pack(builder, "Operator", options)] * 2_000)


@pytest.mark.parametrize(
    "write",
    [
        _tensors_that_share_a_shape,
        _tensors_that_share_a_name,
        _nodes_that_share_their_inputs,
        _nodes_that_share_large_custom_options,
    ],
)
def test_a_small_file_cannot_ask_for_much_memory(
    write: Callable[[flatbuffers.Builder], bytes],
) -> None:
    data = write(flatbuffers.Builder())
    tracemalloc.start()
    try:
        check_all([(write.__name__, data)])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEMORY_PER_BYTE * len(data)


def test_levels_of_more_entries_than_elements_take_no_memory() -> None:
    sparsity = Sparsity((0, 1), (), (Level(3000), Level(3000)))
    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match=r"a sparse constant of shape \[2, 2\]"):
            to_dense(np.zeros(4, np.float32), (2, 2), sparsity)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_options_of_another_op_are_not_read() -> None:
    tables = small_tables()
    operator = tables["subgraphs"][0]["operators"][0]
    assert read_model(pack_model(tables)).nodes[0].options is not None
    operator["builtin_options_type"] += 1
    assert read_model(pack_model(tables)).nodes[0].options is None


def test_a_constant_of_bools_that_are_none() -> None:
    """LiteRT's result for such a byte depends on chance."""
    b = ModelBuilder()
    x = b.constant(np.array([0, 1, 2], np.uint8))
    tables = b.model([b.op("LOGICAL_NOT", [x], [b.tensor((3,), np.bool_)])])
    tables["subgraphs"][0]["tensors"][x]["type"] = SCHEMA_NUMBERS["bool"]
    with pytest.raises(ModelError, match="of type bool has the byte 2; expected 0 or 1"):
        read_model(pack_model(tables)).tensors[x].array()


def test_buffer_0_is_no_data_even_if_it_has_some() -> None:
    """As in LiteRT."""
    tables = small_tables()
    tables["buffers"][0] = {"data": bytes(64)}
    assert not any(t.is_constant for t in read_model(pack_model(tables)).tensors[:1])


@pytest.mark.parametrize(
    ("stored", "kept"), [(2**31, -(2**31)), (2**40 + 3, 3), (-(2**63), 0), (-7, -7)]
)
def test_zero_points_have_32_bits_as_in_litert(stored: int, kept: int) -> None:
    b = ModelBuilder()
    x = b.input((2,), quantization=quantization(0.5, stored))
    (tensor, _) = read_model(b.build([b.op("RELU", [x], [(2,)])])).tensors
    assert tensor.quantization.zero_points == (kept,)
    assert describe(tensor, (2,))["quantization"] == (0.5, kept)


def test_a_variable_with_data() -> None:
    b = ModelBuilder()
    x = b.constant(np.ones(3, np.float32), variable=True)
    with pytest.raises(ModelError, match="variable tensor 0 'tensor_0' has data"):
        read_model(b.build([b.op("RELU", [x], [(3,)])]))


def test_custom_options_behind_the_tables() -> None:
    """Where they end at the last byte, and where a byte follows."""
    options = b"\1\2\3\4\5"
    place = {"large_custom_options_offset": 1 << 20, "large_custom_options_size": len(options)}
    tables = small_tables()
    custom = tables["subgraphs"][0]["operators"][1]
    custom |= place
    place["large_custom_options_offset"] = len(pack_model(tables))
    custom |= place
    for rest in (b"", b"\6"):
        node = read_model(pack_model(tables) + options + rest).nodes[1]
        assert (node.op, node.custom_options.tobytes()) == ("Mine", options)
    cut_off = read_model(pack_model(tables) + options[:-1]).nodes[1]
    assert cut_off.custom_options.tobytes() == b"\1\2\3"
