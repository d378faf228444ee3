"""Products of parameters of which not every combination runs."""

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any

import pytest


def pairs(*parameters: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Combinations of values in which each value meets each of every other parameter.

    Of all combinations, in their order, the next is the first of those that have the most pairs
    of values that none before has.
    """
    values = [tuple(each) for each in parameters]
    places = [*product(*(range(len(each)) for each in values))]
    # A pair is two parameters' numbers, each with the place of its value.
    of = {place: {*combinations(enumerate(place), 2)} for place in places}
    missing = set().union(*of.values())
    chosen = []
    while missing:
        chosen.append(max(places, key=lambda place: len(of[place] & missing)))
        missing -= of[chosen[-1]]
    return [
        tuple(each[at] for each, at in zip(values, place, strict=True)) for place in sorted(chosen)
    ]


def pairwise(**parameters: Iterable[Any]) -> pytest.MarkDecorator:
    """Run a test with the combinations of these parameters that `pairs` chooses."""
    chosen = pairs(*parameters.values())
    return pytest.mark.parametrize(tuple(parameters), chosen, ids=_named)


def _named(value: Any) -> str | None:
    """What a test's name has for a value; None leaves it to pytest."""
    return str(value) if isinstance(value, tuple | list | dict) else None
