"""ImageEmbedder: feature vectors of pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gles_apps.tasks.components.containers import Embedding, EmbeddingResult
from gles_apps.tasks.image import Image
from gles_apps.tasks.options import VisionTaskOptions
from gles_apps.tasks.vision.methods import Embeds
from gles_apps.vision.regions import Region
from gles_delegate.model.graph import Array
from gles_delegate.support.closing import on_error

ImageEmbedderResult = EmbeddingResult


def cosine_similarity(u: Embedding, v: Embedding) -> float:
    """The cosine of the angle between two vectors, -1 to 1.

    Raises:
        ValueError: Lengths or types differ, or a vector is 0.
    """
    first = u.embedding
    second = v.embedding
    if len(first) != len(second) or first.dtype != second.dtype:
        raise ValueError(
            f"expected vectors of the same length and type, found {len(first)} of "
            f"{first.dtype} and {len(second)} of {second.dtype}"
        )
    pair = [a.view(np.int8) if a.dtype == np.uint8 else a for a in (first, second)]
    a, b = (vector.astype(np.float64) for vector in pair)
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    if not lengths > 0:
        raise ValueError("expected vectors with a length above 0")
    return float(a @ b) / lengths


@dataclass
class ImageEmbedderOptions(VisionTaskOptions):
    """Options of `ImageEmbedder`.

    Attributes:
        base_options: The model.
        running_mode: Single pictures, a video or a live stream.
        l2_normalize: Whether vectors get the length 1.
        quantize: Whether vectors are int8, 128 for 1, in arrays of uint8.
        result_callback: Called in a live stream with the result, the picture and its time in ms.
    """

    l2_normalize: bool | None = None
    quantize: bool | None = None
    result_callback: Callable[[EmbeddingResult, Image, int], None] | None = None


class ImageEmbedder(Embeds[EmbeddingResult]):
    """Makes a feature vector of each output of a network.

    Examples:
        >>> with mp.tasks.vision.ImageEmbedder.create_from_model_path("model.tflite") as embedder:
        ...     embedding = embedder.embed(picture).embeddings[0]
        >>> embedding.embedding.shape
        (1001,)
    """

    _options_type = ImageEmbedderOptions

    def __init__(self, options: ImageEmbedderOptions) -> None:
        super().__init__(options)
        with on_error(self.close):
            self._network().require_normalization()

    def _process(self, image: Image, region: Region, time_ms: int | None) -> EmbeddingResult:
        network = self.network
        outputs = network(image, self._sampling(region, network.transform, "stretch"))
        names = [metadata.name or None for metadata in network.metadata.outputs]
        pairs = enumerate(zip(outputs, names, strict=True))
        vectors = [Embedding(self._vector(output), i, name) for i, (output, name) in pairs]
        return EmbeddingResult(vectors, time_ms or 0)

    def _vector(self, output: Array) -> Array:
        vector = np.asarray(output, np.float64).ravel()
        if self.options.l2_normalize:
            length = float(np.linalg.norm(vector))
            vector = vector / length if length > 0 else vector
        if self.options.quantize:
            scaled = np.floor(np.abs(vector) * 128 + 0.5) * np.sign(vector)
            return scaled.clip(-128, 127).astype(np.int8).view(np.uint8)
        return vector

    cosine_similarity = staticmethod(cosine_similarity)
