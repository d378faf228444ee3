"""Which classes a classifier returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class ClassifierOptions:
    """Which classes a classifier returns.

    Attributes:
        display_names_locale: Accepted for compatibility; models with names in several languages
            are not supported, and display names are None.
        max_results: Maximum number of classes; None or below 0: all.
        score_threshold: Minimum score; None: the model's metadata decides.
        category_allowlist: Only classes of these names. Unknown names are ignored.
        category_denylist: No classes of these names.
    """

    display_names_locale: str | None = None
    max_results: int | None = None
    score_threshold: float | None = None
    category_allowlist: Sequence[str] | None = None
    category_denylist: Sequence[str] | None = None


__all__ = ["ClassifierOptions"]
