"""ImageClassifier: classes of pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gles_apps.tasks.classes import Classifier
from gles_apps.tasks.components.containers import ClassificationResult
from gles_apps.tasks.components.processors import ClassifierOptions
from gles_apps.tasks.image import Image
from gles_apps.tasks.options import VisionTaskOptions
from gles_apps.tasks.vision.methods import Classifies
from gles_apps.vision.regions import Region
from gles_delegate.image.transform import Fit
from gles_delegate.support.closing import on_error

ImageClassifierResult = ClassificationResult


@dataclass
class ImageClassifierOptions(ClassifierOptions, VisionTaskOptions):
    """Options of `ImageClassifier`; see `components.processors.ClassifierOptions` for classes.

    Attributes:
        base_options: The model.
        running_mode: Single pictures, a video or a live stream.
        result_callback: Called in a live stream with the result, the picture and its time in ms.
        labels: Class names; None: those in the metadata. Not MediaPipe's.
        probabilities: The scores of an output that are outside 0 to 1 become their softmax. Not
            MediaPipe's.
    """

    result_callback: Callable[[ClassificationResult, Image, int], None] | None = None
    labels: Sequence[str] | None = None
    probabilities: bool = False


class ImageClassifier(Classifies[ClassificationResult]):
    """Classifies pictures, or regions of them, by a model with TFLite Metadata or Ultralytics'.

    Ultralytics' classifiers see the middle of a picture, other networks all of it.

    Examples:
        >>> path = "model.tflite"
        >>> with mp.tasks.vision.ImageClassifier.create_from_model_path(path) as classifier:
        ...     result = classifier.classify(picture)
        >>> best = result.classifications[0].categories[0]
        >>> best.category_name, best.score > 0
        ('class ...', True)
    """

    _options_type = ImageClassifierOptions

    def __init__(self, options: ImageClassifierOptions) -> None:
        super().__init__(options)
        with on_error(self.close):
            network = self._network()
            network.require_normalization()
            shapes = network.shapes
            outputs = network.metadata.outputs
            labels = options.labels
            probabilities = options.probabilities
            self._classifier = Classifier(shapes, outputs, options, labels, probabilities)

    def _process(self, image: Image, region: Region, time_ms: int | None) -> ClassificationResult:
        network = self.network
        fit: Fit = "crop" if network.metadata.outputs[0].task == "classify" else "stretch"
        outputs = network(image, self._sampling(region, network.transform, fit))
        return ClassificationResult(self._classifier.heads(outputs), time_ms or 0)
