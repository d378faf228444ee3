"""Metadata of Ultralytics' exporter, in all its notations and damaged."""

import io
import json
import time
import zipfile

import numpy as np
import pytest

from gles_delegate.model.metadata import Metadata
from gles_delegate.model.reader import read_model
from gles_delegate.model.ultralytics import LONGEST, Export, parse_export
from gles_delegate.planning.outputs import read_metadata
from tests.support.speed import scaled
from tests.support.tflite_builder import ModelBuilder

VALUES = {
    "description": "Ultralytics YOLO11n-pose: a model",
    "license": "AGPL-3.0 License (https://ultralytics.com/license)",
    "stride": 32,
    "task": "pose",
    "imgsz": [640, 480],
    "names": {0: "person", 1: 'it\'s a "dog"', 2: "café 😀"},
    "kpt_shape": [17, 3],
    "args": {"batch": 1, "half": False, "fraction": 1.0, "data": None},
}


@pytest.mark.parametrize(
    "text",
    [
        str(VALUES),
        repr(VALUES).replace("[", "(").replace("]", ")"),
        json.dumps(VALUES),
        json.dumps(VALUES, indent=2, ensure_ascii=False),
    ],
)
def test_notations(text: str) -> None:
    export = parse_export(text.encode())
    assert export is not None
    assert export.names == ("person", 'it\'s a "dog"', "café 😀")
    assert (export.task, export.stride, export.size) == ("pose", 32, (640, 480))
    assert export.points == (17, 3)
    assert export.texts["description"] == VALUES["description"]
    assert export.texts["license"] == VALUES["license"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{'stride': 64, 'names': ['a', 'b']}", Export(("a", "b"), stride=64)),
        ("{'task': 'classify', 'names': {'1': 'b', '0': 'a'}}", Export(("a", "b"), "classify")),
        ("{'task': 'obb', 'imgsz': 1024}", Export((), "obb", size=(1024, 1024))),
        ("{'task': 'depth', 'stride': 32, 'names': ['a']}", Export(("a",), stride=32)),
        ("{'task': 'detect', 'names': {0: 'a', 2: 'c'}}", Export((), "detect")),
        ("{'task': 'detect', 'names': {0: 'a', 1: ['b']}}", Export((), "detect")),
        ("{'task': 'detect', 'names': {'a': 0}}", Export((), "detect")),
        ("{'task': 'detect', 'names': [0, 1, 'b']}", Export(("0", "1", "b"), "detect")),
        (f"{{'task': 'detect', 'names': {{0x{'f' * 9000}: 'a'}}}}", Export((), "detect")),
        (f"{{'task': 'detect', 'names': [0x{'f' * 9000}]}}", Export((), "detect")),
        ("{'task': 'detect', 'names': 'abc', 'stride': [32]}", Export((), "detect")),
        ("{'task': 'detect', 'stride': -1, 'imgsz': [0, 640]}", Export((), "detect")),
        ("{'task': 'detect', 'imgsz': [1, 2, 3], 'kpt_shape': 'x'}", Export((), "detect")),
        ("{'task': 'pose', 'kpt_shape': [17, 4]}", Export((), "pose")),
        ("{'task': 'detect', 'stride': True, 'imgsz': (True, 9)}", Export((), "detect")),
        ('{"task": "detect", "stride": true, "license": false}', Export((), "detect")),
        ("{'task': 'detect', 'license': False}", Export((), "detect")),
    ],
)
def test_values_that_make_no_sense_are_left_out(text: str, expected: Export) -> None:
    actual = parse_export(text.encode())
    assert actual is not None
    assert (actual.names, actual.task, actual.stride) == (
        expected.names, expected.task, expected.stride,
    )  # fmt: skip
    assert (actual.size, actual.points) == (expected.size, expected.points)
    assert actual.texts.get("license") is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"cat\ndog\n",
        b"{}",
        b"[1, 2]",
        b"{'names': ['a']}",
        b"{'task': 'detect'",
        b"{'task': 'detect'} and more",
        b"{'task': 'detect', }}",
        b"{'task' 'detect'}",
        b"{'task': 'detect', 'args': [1 2]}",
        b"{{'task': 'detect'}: 1}",
        b"{'task': 'det",
        b"{'task': __import__('os').getcwd()}",
        b"{'args': " + b"[" * 100_000 + b"]" * 100_000 + b", 'task': 'detect'}",
        b'{"args": ' + b"[" * 100_000 + b"]" * 100_000 + b', "task": "detect"}',
        b"{'task': 'detect', 'stride': " + b"9" * 5000 + b"}",
        b"{'task': 'detect', 'stride': 1" + b"+1" * 400_000 + b"}",
        b"{'task': 'detect', 'stride': a" + b".a" * 400_000 + b"}",
        b"{'task': 'detect', 'stride': 1" + b"()" * 400_000 + b"}",
        b"{'task': 'detect', 'names': {[]: 'a'}}",
        b"{'task': 'detect', '\0': 1}",
        b"{'args': " + b"-" * 100_000 + b"1 2}",
        b"\xff\xfe\x00" * 100,
        b"task: detect\nnames:\n- a\n",
        b"{'task': 'detect'}" + b" " * LONGEST,
    ],
)
def test_other_files_and_damaged_ones(data: bytes) -> None:
    assert parse_export(data) is None


def test_bytes_that_are_not_utf_8() -> None:
    export = parse_export(b"{'task': 'detect', 'names': ['caf\xe9', \"\\ud800\", 'a\\nb']}")
    assert export is not None
    assert export.names == ("caf\ufffd", "\ufffd", "a b")


def test_long_files_in_reasonable_time() -> None:
    start = time.process_time()
    for piece in ("1,", "[],", "'a' ", "1<", "not ", "a.", "1if 1else ", '"', "'\\N{", "\\\n"):
        many = piece * (LONGEST // len(piece) - 9)
        parse_export(f"{{'task': 'detect', 'names': [{many}]}}".encode())
    count = LONGEST // 20
    export = parse_export(json.dumps({"task": "detect", "names": ["name"] * count}).encode())
    assert export is not None
    assert len(export.names) == count
    assert time.process_time() - start < scaled(20)


def model(*shapes: tuple[int, ...]) -> bytes:
    """A model with outputs of these shapes."""
    builder = ModelBuilder()
    x = builder.input((1, 8, 8, 3))
    outputs = [
        builder.op("RESHAPE", [x, builder.constant(np.array(shape, np.int32))], [shape])
        for shape in shapes
    ]
    return builder.build(outputs=outputs)


def with_files(content: bytes, files: dict[str, bytes]) -> bytes:
    """A model with a zip file at its end."""
    file = io.BytesIO(content)
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as bundle:
        for name, data in files.items():
            bundle.writestr(name, data)
    return file.getvalue()


SHAPES = ((1, 6, 32), (1, 2, 3, 32))


def metadata_of(files: dict[str, bytes]) -> Metadata:
    return read_metadata(read_model(with_files(model(*SHAPES), files)))


@pytest.mark.parametrize("name", ["metadata.json", "temp_meta.txt", "a/meta.txt"])
def test_metadata_of_a_model(name: str) -> None:
    text = json.dumps(VALUES) if name.endswith("json") else str(VALUES)
    metadata = metadata_of({"labels.txt": b"cat\ndog\n", name: text.encode()})
    boxes, masks = metadata.outputs
    assert boxes.labels == ("person", 'it\'s a "dog"', "café 😀")
    assert masks.labels == ()
    assert (boxes.task, masks.task, boxes.points) == ("pose", "pose", (17, 3))
    assert (metadata.stride, metadata.size) == (32, (640, 480))
    assert metadata.license.startswith("AGPL-3.0")
    assert metadata.description.startswith("Ultralytics")
    assert metadata.files == ("labels.txt", name)


def test_files_that_cannot_be_read_are_left_out() -> None:
    plain = metadata_of({})
    assert plain.outputs[0].labels == ()
    content = bytearray(with_files(model(*SHAPES), {"metadata.json": json.dumps(VALUES).encode()}))
    at = content.index(b"metadata.json") + len("metadata.json")
    content[at + 5 : at + 60] = bytes(55)
    damaged = read_metadata(read_model(bytes(content)))
    assert damaged.outputs == plain.outputs
    bomb = metadata_of({f"{i}.txt": bytes(1 << 24) for i in range(20)})
    assert bomb.outputs == plain.outputs
