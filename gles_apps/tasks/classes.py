"""Which classes of a network's outputs a task returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from gles_apps.tasks.components.containers import Category, Classifications
from gles_apps.tasks.components.processors import ClassifierOptions
from gles_apps.vision.classes import require_labels, top_indices
from gles_delegate import ModelError, TensorMetadata
from gles_delegate.model.graph import Array
from gles_delegate.model.metadata import ScoreCalibration

MIN_SCORE = 1e-16
"""Scores below this have the logarithm of this (score_calibration_calculator.cc)."""


class Choice:
    """The classes that options allow.

    Raises:
        ValueError: Options contradict each other.
    """

    def __init__(self, options: ClassifierOptions, labels: Sequence[str]) -> None:
        self.threshold = options.score_threshold
        most = options.max_results
        if most == 0:
            raise ValueError("Invalid `max_results` option: value must be != 0.")
        self.most = None if most is None or most < 0 else most
        allowed = options.category_allowlist or ()
        denied = options.category_denylist or ()
        if allowed and denied:
            raise ValueError(
                "`category_allowlist` and `category_denylist` are mutually exclusive options."
            )
        if (allowed or denied) and not labels:
            raise ValueError(
                "Using `category_allowlist` or `category_denylist` requires labels to be present "
                "in the TFLite Model Metadata but none was found."
            )
        self._allowed = _indices(allowed, labels)
        self._denied = _indices(denied, labels)

    def __contains__(self, index: int) -> bool:
        """Whether a class may be returned; a list of unknown names allows all."""
        return index not in self._denied and (not self._allowed or index in self._allowed)


def _indices(names: Sequence[str], labels: Sequence[str]) -> set[int]:
    return {labels.index(name) for name in names if name in labels}


class Classifier:
    """A network with scores of classes.

    Args:
        shapes: Shapes of the outputs.
        outputs: Metadata of the outputs.
        options: Which classes count.
        labels: Names of the classes; None: those in the metadata.
        probabilities: See `ImageClassifierOptions`.

    Raises:
        ModelError: Its outputs are not scores, or its metadata has another number of labels.
        ValueError: Options contradict each other, or there is another number of `labels`.
    """

    def __init__(
        self,
        shapes: Sequence[Sequence[int]],
        outputs: Sequence[TensorMetadata],
        options: ClassifierOptions,
        labels: Sequence[str] | None = None,
        probabilities: bool = False,
    ) -> None:
        self._probabilities = probabilities
        self._heads = []
        for shape, metadata in zip(shapes, outputs, strict=True):
            if not shape or int(np.prod(shape)) != shape[-1] * shape[0]:
                found = [list(each) for each in shapes]
                raise ModelError(f"expected outputs [1, classes] of a classifier, found {found}")
            if labels is None:
                with model_errors():
                    require_labels(metadata.labels, shape[-1])
            else:
                require_labels(labels, shape[-1])
                metadata = replace(metadata, labels=tuple(labels))
            self._heads.append((metadata, Choice(options, metadata.labels)))

    def heads(self, outputs: Sequence[Array]) -> list[Classifications]:
        """The classes of each output, best first; equal scores by their index."""
        heads = []
        for i, (array, (metadata, choice)) in enumerate(zip(outputs, self._heads, strict=True)):
            scores = np.asarray(array, np.float64).ravel()
            if metadata.calibration is not None:
                scores = calibrated(scores, metadata.calibration)
            if self._probabilities and not (scores.min() >= 0 and scores.max() <= 1):
                scores = softmax(scores)
            least = metadata.threshold if choice.threshold is None else choice.threshold
            ranked = [j for j in top_indices(scores, None).tolist() if j in choice]
            categories = [
                Category(j, float(scores[j]), None, (metadata.labels or {j: None})[j])
                for j in ranked
                if least is None or scores[j] >= least
            ]
            heads.append(Classifications(categories[: choice.most], i, metadata.name or None))
        return heads


@contextmanager
def model_errors() -> Iterator[None]:
    """Make ValueError a `ModelError`: what is wrong is in the model."""
    try:
        yield
    except ValueError as error:
        raise ModelError(str(error)) from error


def softmax(scores: Array) -> Array:
    """Along the last axis."""
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def calibrated(
    scores: Array, calibration: ScoreCalibration, classes: Sequence[int] | None = None
) -> Array:
    """Scores as probabilities; see `ScoreCalibration`.

    Args:
        scores: [n].
        calibration: Has a sigmoid for each class.
        classes: The class of each score; None: 0 to n - 1.
    """
    result = np.full(len(scores), calibration.default)
    transformed = np.asarray(scores, np.float64)
    if calibration.transformation != "identity":
        logarithm = np.log(np.maximum(transformed, MIN_SCORE))
        if calibration.transformation == "log":
            transformed = logarithm
        else:
            transformed = logarithm - np.log(np.maximum(1 - transformed, MIN_SCORE))
    for i, number in enumerate(range(len(scores)) if classes is None else classes):
        known = 0 <= number < len(calibration.sigmoids)
        sigmoid = calibration.sigmoids[number] if known else None
        if sigmoid is not None and scores[i] >= sigmoid[3]:
            scale, slope, offset, _ = sigmoid
            exponent = np.clip(slope * transformed[i] + offset, -700, 700)
            result[i] = scale / (1 + np.exp(-exponent))
    return result
