"""Convolutions with windows of 3 x 3 by Winograd's algorithm, where the profile asks for it."""

from __future__ import annotations

from gles_delegate.ops.lib.product import Convolution
from gles_delegate.ops.lib.tiles import option_of
from gles_delegate.ops.lib.weights import with_small_weights
from gles_delegate.ops.lib.winograd import is_possible, winograd
from gles_delegate.planning.fusion import Scope
from gles_delegate.shaders.dispatch import Dispatch


def transform_tiles(dispatches: list[Dispatch], scope: Scope) -> list[Dispatch]:
    """Replace convolutions by three dispatches each; see `Profile.winograd`."""
    return [
        step
        for dispatch in dispatches
        for step in (
            winograd(dispatch, scope.limits)
            if isinstance(dispatch, Convolution) and _pays(dispatch, scope)
            else [dispatch]
        )
    ]


def _pays(conv: Convolution, scope: Scope) -> bool:
    """Whether it is faster, and accurate: float16 has too few bits for the numbers."""
    channels = option_of(scope.limits.profile.winograd, conv.choice)
    has_enough = 0 < channels <= min(conv.reads[0].channels, conv.output.channels)
    if scope.half or not has_enough or not is_possible(conv, scope.limits):
        return False
    # Transformed weights are larger: those that are read as the model has them stay as they are.
    return with_small_weights(conv, scope.limits, scope.tensors, scope.half) == conv
