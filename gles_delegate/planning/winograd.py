"""Convolutions with windows of 3 x 3 by Winograd's algorithm, where the profile asks for it."""

from __future__ import annotations

from collections.abc import Iterator

from gles_delegate.ops.lib.product import Convolution
from gles_delegate.ops.lib.tiles import option_of
from gles_delegate.ops.lib.weights import with_small_weights
from gles_delegate.ops.lib.winograd import is_possible, winograd
from gles_delegate.planning.rewriting import Edit, Is, Listing, Rule


def _three(listing: Listing, conv: Convolution) -> Iterator[Edit]:
    """Where it is faster, and accurate: float16 has too few bits for the numbers."""
    scope, limits = listing.scope, listing.scope.limits
    channels = option_of(limits.profile.winograd, conv.choice)
    has_enough = 0 < channels <= min(conv.reads[0].channels, conv.output.channels)
    if scope.half or not has_enough or not is_possible(conv, limits):
        return
    # Transformed weights are larger: those that are read as the model has them stay as they are.
    if with_small_weights(conv, limits, scope.tensors, scope.half) == conv:
        yield Edit(winograd(conv, limits), conv)


transform_tiles = Rule(Is(Convolution), _three)
"""Replace convolutions by three dispatches each; see `Profile.winograd`."""
