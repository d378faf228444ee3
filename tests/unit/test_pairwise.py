"""The choice among combinations of parameters."""

from itertools import combinations

import pytest

from tests.support.pairwise import pairs

PARAMETERS = [("a", "b"), (1, 2, 3), ([], {}), (True, False)]


def test_each_value_meets_each_of_every_other_parameter() -> None:
    chosen = pairs(*PARAMETERS)
    for one, other in combinations(range(len(PARAMETERS)), 2):
        met = [(row[one], row[other]) for row in chosen]
        assert all((a, b) in met for a in PARAMETERS[one] for b in PARAMETERS[other])


@pytest.mark.parametrize(("sizes", "count"), [((2, 3), 6), ((2, 2, 2), 4), ((4, 2, 2, 2), 8)])
def test_as_few_as_the_largest_two_parameters_need(sizes: tuple[int, ...], count: int) -> None:
    assert len({*pairs(*map(range, sizes))}) == count


def test_they_are_in_the_order_of_the_product() -> None:
    assert pairs("ab", "xy", "12") == [
        ("a", "x", "1"),
        ("a", "y", "2"),
        ("b", "x", "2"),
        ("b", "y", "1"),
    ]
