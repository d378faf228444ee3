"""A model's metadata about its inputs."""

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import flatbuffers
import numpy as np
import pytest

from gles_delegate.errors import ModelError
from gles_delegate.image.transform import picture_transform
from gles_delegate.model.graph import Graph, Tensor
from gles_delegate.model.metadata import Metadata, TensorMetadata
from gles_delegate.model.reader import read_model
from gles_delegate.planning.outputs import read_metadata
from tests.support.example import EXAMPLES
from tests.support.metadata import Ref, process_unit, table, vector
from tests.support.schema import pack_model
from tests.support.tflite_builder import ModelBuilder

NORMALIZATION, SCORE_CALIBRATION = 1, 3
Unit = tuple[int, Sequence[float], Sequence[float]]


def graph(*inputs: Sequence[Unit]) -> Graph:
    """A graph of two pictures in, whose metadata has these process units for each."""
    b = flatbuffers.Builder()
    tensors = []
    for units in inputs:
        made = [process_unit(b, mean, std, kind) for kind, mean, std in units]
        tensors.append(table(b, None, None, None, None, Ref(vector(b, made))))
    main = table(b, None, None, Ref(vector(b, tensors)))
    b.Finish(table(b, None, None, None, Ref(vector(b, [main]))))
    pictures = tuple(Tensor(i, f"picture {i}", "float32", (1, 8, 8, 3), ()) for i in (0, 1))
    data = np.frombuffer(bytes(b.Output()), np.uint8)
    return Graph(pictures, (), (1, 0), (), metadata={"TFLITE_METADATA": data})


def numbers(graph: Graph, tensor: int, *given: float | None) -> tuple[Any, Any]:
    """The mean and the std of pictures for an input."""
    known = read_metadata(graph).inputs[graph.inputs.index(tensor)]
    transform = picture_transform((1, 8, 8, 3), "float32", known, *given)
    return transform.mean, transform.std


OF_ALL: Unit = (NORMALIZATION, [0], [255])
OF_EACH: Unit = (NORMALIZATION, [1, 2, 3], [4, 5, 6])


def test_each_input_has_its_own() -> None:
    both = graph([OF_ALL], [(SCORE_CALIBRATION, [], []), OF_EACH])
    assert numbers(both, 1) == (0, 255)
    assert numbers(both, 0) == ((1, 2, 3), (4, 5, 6))


def test_what_is_given_wins() -> None:
    each = graph([OF_EACH])
    assert numbers(each, 1, 7) == (7, (4, 5, 6))
    assert numbers(each, 1, None, 8) == ((1, 2, 3), 8)
    assert numbers(each, 1, 0, 9) == (0, 9)


@pytest.mark.parametrize(
    "silent", [graph(), graph([]), graph([(SCORE_CALIBRATION, [], [])]), graph([OF_ALL])]
)
def test_it_is_0_to_1_where_metadata_says_nothing(silent: Graph) -> None:
    assert numbers(silent, 0) == (None, None)
    assert numbers(silent, 0, 127.5, 127.5) == (127.5, 127.5)
    assert numbers(silent, 0, 127.5) == (127.5, 255)
    assert numbers(silent, 0, None, 2) == (0, 2)
    assert numbers(Graph(silent.tensors, (), (0,), ()), 0) == (None, None)


@pytest.mark.parametrize("unit", [([1, 2], [1]), ([0], [0]), ([1] * 3, [-1] * 3), ([1] * 4, [1])])
def test_what_does_not_fit_is_refused(unit: tuple[list[float], list[float]]) -> None:
    wrong = graph([(NORMALIZATION, *unit)])
    with pytest.raises(ModelError, match=r"or 3 of each, .* of the input '', found \["):
        numbers(wrong, 1)
    assert numbers(wrong, 1, 0, 1) == (0, 1)


def test_pixels_of_bytes_are_themselves() -> None:
    known = TensorMetadata(mean=(127.5,), std=(127.5,))
    colors = np.array([[[0, 1, 255]]], np.uint8)

    def stored(dtype: str, known: TensorMetadata, pair: tuple[float, int]) -> list[int]:
        transform = picture_transform((1, 1, 1, 3), dtype, known)
        result = transform.apply(colors, (1, 1), dtype=dtype, quantization=pair)
        assert result.dtype == dtype
        numbers: list[int] = result.reshape(-1).tolist()
        return numbers

    assert stored("uint8", known, (1 / 128, 128)) == [0, 1, 255]
    assert stored("int8", known, (1 / 127.5, 0)) == [-127, -126, 127]
    assert stored("int8", TensorMetadata(), (1 / 255, -128)) == [-128, -127, 127]
    assert stored("int16", TensorMetadata(), (1 / 32767, 0)) == [0, 128, 32767]
    assert stored("int16", known, (1 / 32767, 0)) == [-32767, -32510, 32767]
    assert stored("int32", TensorMetadata(), (0.0, 0)) == [0, 1, 255]


@pytest.mark.parametrize("shape", [(1, 8, 8, 2), (2, 8, 8, 3), (1, 3), (1, 8, 8, 3, 1)])
def test_what_is_no_picture_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="a picture suits an input"):
        picture_transform(shape, "float32", TensorMetadata())


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\r\n\r\n"])
@pytest.mark.parametrize("first", ["a", "a\x85b", "a\u2028b", "a\x0cb", "", "0  a", "\ufeffa"])
def test_labels_in_a_model(first: str, end: str) -> None:
    content = (EXAMPLES / "models" / "digit_classifier.tflite").read_bytes()
    start = content.index(b"PK\x03\x04")
    (name,) = ZipFile(BytesIO(content)).namelist()
    names = [first, *map(str, range(1, 10))]
    archive = BytesIO()
    with ZipFile(archive, "w") as file:
        file.writestr(name, "\n".join(names) + end)
    (scores,) = read_metadata(read_model(content[:start] + archive.getvalue())).outputs
    assert scores.labels == (first.removeprefix("\ufeff"), *names[1:])


def test_damaged_metadata_is_refused() -> None:
    data = graph([OF_ALL]).metadata["TFLITE_METADATA"]
    for size in range(4, len(data), 4):
        cut = Graph(graph().tensors, (), (0,), (), metadata={"TFLITE_METADATA": data[:size]})
        with pytest.raises(ModelError, match="damaged"):
            read_metadata(cut)


def test_three_labels_are_all_there_are() -> None:
    assert str(TensorMetadata(labels=("a", "b", "c"))) == "3 labels: a, b, c"
    assert str(TensorMetadata(labels=("a", "b", "c", "d"))) == "4 labels: a, b, c ..."


def test_what_models_say(real_model: Callable[[str], bytes]) -> None:
    metadata = read_metadata(read_model(real_model("yamnet")))
    assert (metadata.name, metadata.version) == ("yamnet/classification", "v1")
    assert (metadata.author, metadata.license[:6]) == ("TensorFlow", "Apache")
    assert metadata.files == ("yamnet_label_list.txt",)
    (clip,), (scores,) = metadata.inputs, metadata.outputs
    assert (clip.name, clip.content) == ("audio_clip", "audio")
    assert (clip.sample_rate, clip.channels) == (16000, 1)
    assert (scores.minimum, scores.maximum) == ((0,), (1,))
    assert (len(scores.labels), scores.labels[0]) == (521, "Speech")
    assert "16000 Hz" in str(clip)
    assert "521 labels: Speech, " in str(scores)
    (image,) = read_metadata(read_model(real_model("selfie_segmenter"))).inputs
    assert (image.content, image.colors) == ("image", "rgb")
    assert "rgb image; (x - 0) / 255; 0 to 1" in str(image)


def test_a_model_without_metadata() -> None:
    b = ModelBuilder()
    model = b.model([b.op("NEG", [b.input((1, 4))], [(1, 4)])])
    metadata = read_metadata(read_model(pack_model({**model, "description": "minus"})))
    assert metadata == Metadata(
        description="minus", inputs=(TensorMetadata(),), outputs=(TensorMetadata(),)
    )
    assert str(TensorMetadata()) == ""
