"""Classes by name and score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gles_delegate.model.graph import Array

TASKS = ("classify", "detect", "pose", "repaint", "segment")
"""Tasks of single networks that see pictures; "repaint": the network makes another picture."""


def require_labels(labels: Sequence[str], classes: int) -> None:
    """Raise ValueError if there are labels, but not one for each class."""
    if labels and len(labels) != classes:
        raise ValueError(f"expected a label for each of {classes} classes, found {len(labels)}")


def class_name(labels: Sequence[str], index: int) -> str:
    """The label of a class, or its number if there are too few labels."""
    return labels[index] if index < len(labels) else f"class {index}"


def top_indices(scores: Array, count: int | None) -> Array:
    """Indices of the `count` highest scores along the last axis, best first; None: all.

    Equal scores keep their order.
    """
    return np.argsort(-scores.astype(np.float64), axis=-1, kind="stable")[..., :count]


def top_classes(scores: Array, labels: Sequence[str], count: int = 5) -> list[tuple[str, float]]:
    """Names and scores of the top classes, best first; equal scores keep their order.

    Args:
        scores: [classes] or [1, classes].
        labels: A name for each class.
        count: Maximum number of classes.

    Raises:
        ValueError: The numbers of labels and scores differ.

    Examples:
        >>> vision.top_classes(np.array([0.1, 0.7, 0.2]), ["cat", "dog", "owl"], count=2)
        [('dog', 0.7), ('owl', 0.2)]
    """
    array = np.asarray(scores)
    if array.size != len(labels) or array.size != max(array.shape, default=0):
        raise ValueError(
            f"expected scores [{len(labels)}], one for each label, found {list(array.shape)}"
        )
    flat = array.reshape(-1)
    return [(labels[i], float(flat[i])) for i in top_indices(flat, count).tolist()]
