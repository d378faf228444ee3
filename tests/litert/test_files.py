"""Model files whose constants are behind the FlatBuffer, in other files, or beyond 2 GB."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt

import gles_delegate as gd
from gles_delegate.model import reader
from tests.support.schema import pack_model
from tests.support.small import INPUT, check, expected, run, small_model
from tests.support.tflite_builder import ModelBuilder

SHAPE = (2, 5)
X = np.linspace(-1, 1, 10, dtype=np.float32).reshape(SHAPE)
WEIGHTS = np.random.default_rng(0).standard_normal((5, 5)).astype(np.float32)
EXPECTED = np.tanh(X @ WEIGHTS.T) @ WEIGHTS.T
START = 64

Host = Callable[[Path, gd.GpuDelegate], Any]


def ours(path: Path, delegate: gd.GpuDelegate) -> Any:
    return gd.Interpreter(path, experimental_delegates=[delegate])


def litert(path: Path, delegate: gd.GpuDelegate) -> Any:
    return LiteRt(path, experimental_delegates=[delegate])


both_hosts = pytest.mark.parametrize("host", [ours, litert])


def tables() -> tuple[Any, int]:
    """Two layers with the same weights, of which the file has no data; and their tensor."""
    b = ModelBuilder()
    x, weights = b.input(SHAPE, name="x"), b.tensor((5, 5))
    bias = b.constant(np.zeros(5, np.float32))
    y = b.op("TANH", [b.op("FULLY_CONNECTED", [x, weights, bias], [SHAPE])], [SHAPE])
    return b.model([b.op("FULLY_CONNECTED", [y, weights, bias], [SHAPE])]), weights


def with_weights_in_a_file(folder: Path, name: str = "w.bin", **buffer: Any) -> Path:
    model, weights = tables()
    model["subgraphs"][0]["tensors"][weights]["external_buffer"] = 1 << 31
    model["external_buffer_groups"] = [{"name": "other"}, {"name": name}]
    place = {"id": 1 << 31, "group": 1, "offset": START, "length": 100, "packing": "unpacked"}
    model["external_buffers"] = [{**place, **buffer}]
    path = folder / "m.tflite"
    path.write_bytes(pack_model(model))
    (folder / "w.bin").write_bytes(bytes(START) + WEIGHTS.tobytes())
    return path


def with_weights_behind(path: Path, start: int) -> Path:
    """A sparse file with the weights from byte `start` on."""
    model, weights = tables()
    model["subgraphs"][0]["tensors"][weights]["buffer"] = len(model["buffers"])
    model["buffers"].append({"offset": start, "size": 100})
    with path.open("wb") as file:
        file.write(pack_model(model))
        file.seek(start)
        file.write(WEIGHTS.tobytes())
    return path


def check_layers(host: Host, path: Path, **options: Any) -> None:
    with gd.GpuDelegate(gd.GpuDelegateOptions(**options), model=path) as delegate:
        interpreter = host(path, delegate)
        interpreter.allocate_tensors()
        np.testing.assert_allclose(run(interpreter, X), EXPECTED, rtol=0, atol=1e-5)


@both_hosts
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("last", [None, 1])
def test_weights_in_a_file_of_their_own(
    host: Host, last: int | None, offset: int, tmp_path: Path
) -> None:
    path = with_weights_in_a_file(tmp_path, offset=START + offset)
    file = tmp_path / "w.bin"
    file.write_bytes(bytes(START + offset) + WEIGHTS.tobytes())
    check_layers(host, path, last_delegate_node_index=last)


def test_a_file_by_its_absolute_path(tmp_path: Path) -> None:
    path = with_weights_in_a_file(tmp_path, str(tmp_path / "w.bin"))
    with gd.Interpreter(model_content=path.read_bytes()) as interpreter:
        (result,) = interpreter.run({"x": X}).values()
    np.testing.assert_allclose(result, EXPECTED, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("why", "buffer"),
    [
        (r"100 bytes at byte 65, lies outside the 164 bytes of the file 'w\.bin'", {"offset": 65}),
        ("packed as 'zip'; expected 'unpacked'", {"packing": "zip"}),
        ("external buffer 2147483648 of tensor 1 'tensor_1' does not exist", {"id": 5}),
        ("group 7 of external buffers does not exist; there are 2", {"group": 7}),
        ("has 96 bytes", {"length": 96}),
        (r"cannot read the file 'other', which has weights .*: No such file", {"group": 0}),
    ],
)
def test_wrong_weights_are_refused(why: str, buffer: Any, tmp_path: Path) -> None:
    path = with_weights_in_a_file(tmp_path, **buffer)
    with pytest.raises(gd.ModelError, match=why), gd.Interpreter(path) as interpreter:
        interpreter.allocate_tensors()


def test_odd_files_are_refused(tmp_path: Path) -> None:
    path = with_weights_in_a_file(tmp_path)
    with pytest.raises(gd.ModelError, match=r"in the file 'w\.bin' beside it: give the model's"):
        gd.Interpreter(model_content=path.read_bytes())
    (tmp_path / "w.bin").unlink()
    os.mkfifo(tmp_path / "w.bin")
    with pytest.raises(gd.ModelError, match="it is not a regular file"):
        gd.Interpreter(path)


def test_other_weights_make_a_stored_model_stale(tmp_path: Path) -> None:
    path = with_weights_in_a_file(tmp_path)
    (tmp_path / "w.bin").write_bytes(bytes(START) + (WEIGHTS * 2).tobytes())
    with pytest.raises(AssertionError):
        check_layers(ours, path, serialization_dir=tmp_path, model_token="m")
    (tmp_path / "w.bin").write_bytes(bytes(START) + WEIGHTS.tobytes())
    check_layers(ours, path, serialization_dir=tmp_path, model_token="m")


def test_the_folder_may_change_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteRT, which another signature needs, opens the file itself."""
    monkeypatch.chdir(tmp_path)
    b = ModelBuilder()
    b.subgraph(lambda inner: [inner.op("TANH", [inner.op("ABS", [inner.input(SHAPE)])])])
    y = b.op("NEG", [b.input(SHAPE)], [SHAPE])
    Path("m.tflite").write_bytes(b.build([y], signatures={"s": ({"x": 0}, {"y": 2}, 1)}))
    with gd.GpuDelegate(gd.GpuDelegateOptions(last_delegate_node_index=0)) as delegate:
        interpreter = gd.Interpreter("m.tflite", experimental_delegates=[delegate])
        monkeypatch.chdir("/")
        result = interpreter.get_signature_runner()(x=X)["y"]
        np.testing.assert_allclose(result, np.tanh(np.abs(X)), rtol=0, atol=1e-5)


@both_hosts
def test_weights_behind_the_model(host: Host, tmp_path: Path) -> None:
    check_layers(host, with_weights_behind(tmp_path / "m.tflite", 4096))


def test_a_file_of_more_than_2_gb(tmp_path: Path) -> None:
    path = with_weights_behind(tmp_path / "m.tflite", 1 << 31)
    check_layers(ours, path)
    graph = reader.load_model(path)
    assert isinstance(graph.content, memoryview)
    assert np.array_equal(graph.tensors[1].array(), WEIGHTS)


def test_the_size_from_which_files_are_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "m.tflite"
    file.write_bytes(b"12345678")
    for size, kind in ((7, memoryview), (8, memoryview), (9, bytes)):
        monkeypatch.setattr(reader, "MAPPED_FROM", size)
        content = reader.read_content(file)
        assert type(content) is kind
        assert bytes(content) == b"12345678"
    monkeypatch.setattr(reader, "MAPPED_FROM", 0)  # a file without content cannot be mapped
    file.write_bytes(b"")
    assert reader.read_content(file) == b""


@pytest.fixture
def mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAPPED_FROM", 0)


@both_hosts
@pytest.mark.parametrize("last", [None, 0])
@pytest.mark.usefixtures("mapped")
def test_mapped_files(host: Host, last: int | None, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(small_model())
    options = gd.GpuDelegateOptions(
        last_delegate_node_index=last, serialization_dir=tmp_path / "store"
    )
    assert isinstance(reader.read_file(path).content, memoryview)
    for _ in range(2):
        with gd.GpuDelegate(options, model=path) as delegate:
            interpreter = host(path, delegate)
            interpreter.allocate_tensors()
            check(interpreter)


@pytest.mark.usefixtures("mapped")
def test_another_mapped_file_is_refused(tmp_path: Path) -> None:
    paths = [with_weights_behind(tmp_path / name, 4096) for name in ("a", "b")]
    with gd.GpuDelegate(model=paths[0]) as delegate:
        litert(paths[1], delegate).allocate_tensors()
    with paths[1].open("r+b") as file:
        file.seek(4096)
        file.write(b"\1")
    with (
        gd.GpuDelegate(model=paths[0]) as delegate,
        pytest.raises(RuntimeError, match="their files differ from byte 4096 on"),
    ):
        litert(paths[1], delegate)


@pytest.mark.usefixtures("mapped")
def test_a_model_in_a_mapped_bundle(tmp_path: Path) -> None:
    path = tmp_path / "b.task"
    with ZipFile(path, "w", ZIP_STORED) as bundle:
        bundle.writestr("m.tflite", small_model())
        bundle.writestr("labels.txt", "cat")
    content = reader.read_file(path, "m.tflite").content
    assert isinstance(content, memoryview)
    assert content == small_model()
    with gd.Interpreter(path, member="m.tflite") as interpreter:
        np.testing.assert_allclose(
            next(iter(interpreter.run({"x": INPUT}).values())), expected(), atol=1e-5
        )


@pytest.mark.usefixtures("mapped")
def test_empty_files_and_pipes(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(gd.ModelError, match=r"expected a \.tflite model"):
        gd.Interpreter(tmp_path / "empty")
    read, write = os.pipe()
    os.write(write, small_model())
    os.close(write)
    with gd.Interpreter(f"/proc/self/fd/{read}") as interpreter:
        interpreter.allocate_tensors()
        check(interpreter)
    os.close(read)
