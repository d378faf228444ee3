"""Equality of results, as programs that use either of two interpreters see it."""

from typing import Any

import numpy as np


def assert_same(
    ours: Any, theirs: Any, where: str = "", rtol: float = 1e-6, atol: float = 1e-6
) -> None:
    """Equal values of equal types, all the way down; an error's type that programs catch as
    theirs.
    """
    if isinstance(theirs, type):
        assert isinstance(ours, type), f"{where}: {ours!r}, expected {theirs!r}"
        assert issubclass(ours, theirs), where
        return
    assert type(ours) is type(theirs), f"{where}: {ours!r}, expected {theirs!r}"
    if isinstance(theirs, dict):
        assert sorted(ours) == sorted(theirs), where
        for key in theirs:
            assert_same(ours[key], theirs[key], f"{where}.{key}", rtol, atol)
    elif isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs), where
        for i, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(one, other, f"{where}[{i}]", rtol, atol)
    elif isinstance(theirs, np.ndarray):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), where
        np.testing.assert_allclose(ours, theirs, rtol, atol, err_msg=where)
    else:
        assert ours == theirs, where
