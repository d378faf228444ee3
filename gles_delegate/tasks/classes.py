"""Which classes of a network's outputs a task returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from gles_delegate.errors import ModelError
from gles_delegate.model.graph import Array
from gles_delegate.model.metadata import ScoreCalibration
from gles_delegate.tasks.components.containers import Category, Classifications
from gles_delegate.tasks.network import PictureNetwork

LEAST_SCORE = 1e-16
"""Scores below this have the logarithm of this (score_calibration_calculator.cc)."""


class ClassOptions(Protocol):
    """Options that choose classes; see `ClassifierOptions`."""

    max_results: int | None
    score_threshold: float | None
    category_allowlist: Sequence[str] | None
    category_denylist: Sequence[str] | None


class Choice:
    """The classes that options allow.

    Raises:
        ValueError: Options contradict each other.
    """

    def __init__(self, options: ClassOptions, labels: Sequence[str]) -> None:
        self.threshold, most = options.score_threshold, options.max_results
        if most == 0:
            raise ValueError("Invalid `max_results` option: value must be != 0.")
        self.most = None if most is None or most < 0 else most
        allowed, denied = options.category_allowlist or (), options.category_denylist or ()
        if allowed and denied:
            raise ValueError(
                "`category_allowlist` and `category_denylist` are mutually exclusive options."
            )
        if (allowed or denied) and not labels:
            raise ValueError(
                "Using `category_allowlist` or `category_denylist` requires labels to be present "
                "in the TFLite Model Metadata but none was found."
            )
        self._allowed, self._denied = _indices(allowed, labels), _indices(denied, labels)

    def __contains__(self, index: int) -> bool:
        """Whether a class may be returned; a list of unknown names allows all."""
        return index not in self._denied and (not self._allowed or index in self._allowed)


def _indices(names: Sequence[str], labels: Sequence[str]) -> set[int]:
    return {labels.index(name) for name in names if name in labels}


class Classifier:
    """A network with scores of classes.

    Raises:
        ModelError: Its outputs are not scores.
        ValueError: Options contradict each other.
    """

    def __init__(self, network: PictureNetwork, options: ClassOptions) -> None:
        self.network, self._options = network, options
        self._heads = []
        for shape, metadata in zip(network.shapes, network.metadata.outputs, strict=True):
            if not shape or int(np.prod(shape)) != shape[-1] * shape[0]:
                raise ModelError(
                    f"expected outputs [1, classes] of a classifier, found {network.shapes}"
                )
            if metadata.labels and len(metadata.labels) != shape[-1]:
                raise ModelError(
                    f"expected a label for each of {shape[-1]} classes, found "
                    f"{len(metadata.labels)}"
                )
            self._heads.append((metadata, Choice(options, metadata.labels)))

    def heads(self, outputs: Sequence[Array]) -> list[Classifications]:
        """The classes of each output, best first; equal scores by their index."""
        heads = []
        for i, (array, (metadata, choice)) in enumerate(zip(outputs, self._heads, strict=True)):
            scores = np.asarray(array, np.float64).ravel()
            if metadata.calibration is not None:
                scores = calibrated(scores, metadata.calibration)
            least = choice.threshold
            least = metadata.threshold if least is None else least
            ranked = [j for j in np.argsort(-scores, kind="stable").tolist() if j in choice]
            categories = [
                Category(j, float(scores[j]), None, (metadata.labels or {j: None})[j])
                for j in ranked
                if least is None or scores[j] >= least
            ]
            heads.append(Classifications(categories[: choice.most], i, metadata.name or None))
        return heads


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
        logarithm = np.log(np.maximum(transformed, LEAST_SCORE))
        if calibration.transformation == "log":
            transformed = logarithm
        else:
            transformed = logarithm - np.log(np.maximum(1 - transformed, LEAST_SCORE))
    for i, number in enumerate(range(len(scores)) if classes is None else classes):
        known = 0 <= number < len(calibration.sigmoids)
        sigmoid = calibration.sigmoids[number] if known else None
        if sigmoid is not None and scores[i] >= sigmoid[3]:
            scale, slope, offset, _ = sigmoid
            exponent = np.clip(slope * transformed[i] + offset, -700, 700)
            result[i] = scale / (1 + np.exp(-exponent))
    return result
