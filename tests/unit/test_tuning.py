"""Choices by measured times."""

from gles_delegate.runtime.tuning import fastest
from gles_delegate.shaders.dispatch import Dispatch, Grid, Value


def dispatch(node: int, tile: int, *fused: int, channels: int = 4) -> Dispatch:
    output = Value(node, (1, 8, 8, channels))
    return Dispatch(node, "any", (), output, Grid(1, 1, 1, 1), {"TILE": tile}, fused=fused)


def test_each_node_takes_what_is_fastest_for_it() -> None:
    choices = fastest(
        {
            0: [(dispatch(1, 0), 2.0), (dispatch(2, 0, channels=8), 2.0)],
            1: [(dispatch(1, 1), 1.0), (dispatch(2, 1, channels=8), 3.0)],
            2: [(dispatch(1, 2), 3.0), (dispatch(2, 2, channels=8), 1.0)],
        }
    )
    assert choices == {1: 1, 2: 2}


def test_the_first_stays_where_little_is_saved() -> None:
    assert fastest({0: [(dispatch(1, 0), 1.0)], 1: [(dispatch(1, 1), 0.98)]}) == {}


def test_equal_kernels_choose_together() -> None:
    choices = fastest(
        {
            0: [(dispatch(1, 0), 2.0), (dispatch(2, 0), 2.0)],
            1: [(dispatch(1, 1), 1.0), (dispatch(2, 1), 2.1)],
        }
    )
    assert choices == {1: 1, 2: 1}


def test_what_is_the_same_kernel_is_no_choice() -> None:
    assert fastest({0: [(dispatch(1, 0), 2.0)], 1: [(dispatch(1, 0), 1.0)]}) == {}


def test_nodes_that_one_dispatch_may_compute_choose_together() -> None:
    apart = [(dispatch(1, 0), 1.0), (dispatch(2, 0), 1.0), (dispatch(3, 0), 1.0)]
    joined = [(dispatch(2, 1, 1), 1.5), (dispatch(3, 1), 5.0)]
    assert fastest({0: apart, 1: joined}) == {1: 1, 2: 1}


def test_choices_that_could_not_run_are_not_missed() -> None:
    assert fastest({0: [(dispatch(1, 0), 2.0)], 3: [(dispatch(1, 1), 1.0)]}) == {1: 3}


def test_work_of_no_node_is_nobodys() -> None:
    assert fastest({0: [(dispatch(-1, 0), 2.0)], 1: [(dispatch(-1, 1), 1.0)]}) == {}
