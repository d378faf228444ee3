"""Classes of pictures and sounds from scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gles_delegate.model.graph import Array


def top_classes(scores: Array, labels: Sequence[str], count: int = 5) -> list[tuple[str, float]]:
    """Names and scores of the likeliest classes, best first; the first of equal ones is better.

    Args:
        scores: [classes] or [1, classes].
        labels: A name for each class.
        count: The most classes.

    Raises:
        ValueError: There is not one name for each score.
    """
    found = np.asarray(scores)
    if found.size != len(labels) or found.size != max(found.shape, default=0):
        raise ValueError(
            f"expected scores [{len(labels)}], one for each label, found {list(found.shape)}"
        )
    flat = found.reshape(-1)
    order = np.argsort(-flat.astype(np.float64), kind="stable")[:count]
    return [(labels[i], float(flat[i])) for i in order.tolist()]
