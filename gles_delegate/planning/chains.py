"""Chains: small dispatches that one work group computes in sequence, in one dispatch.

On llvmpipe a dispatch takes 10 to 40 microseconds before it computes anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, prod

from gles_delegate.device.limits import Limits
from gles_delegate.planning.memory import Allocation
from gles_delegate.shaders.chains import invocations
from gles_delegate.shaders.dispatch import (
    Const,
    Dispatch,
    DispatchChain,
    Kind,
    Operand,
    OperandPlace,
    Value,
    constants_of,
    values_of,
)
from gles_delegate.shaders.files import is_own

_MAX_CODE = 64
"""A limit of a chain's code, in units that take about 10 ms to compile."""
_PRODUCT_CODE = 8
"""The units of one texel of a product with weights; another member takes one unit."""


def find_chains(
    dispatches: Sequence[Dispatch], allocations: Mapping[Value, Allocation], limits: Limits
) -> tuple[range, ...]:
    """The runs of at least two dispatches that become chains.

    Chains do not share programs with other dispatches, and large tiles take long to compile. So
    these join chains only in small networks.
    """
    if not limits.profile.chained:
        return ()
    joins = [_is_small(dispatch, limits) for dispatch in dispatches]
    if not all(joins):
        joins = [small and d.unrolled == 1 for small, d in zip(joins, dispatches, strict=True)]
    found: list[range] = []
    start, room = 0, _Room(allocations, limits)
    for at, dispatch in enumerate(dispatches):
        if joins[at] and room.takes(dispatch):
            continue
        found.append(range(start, at))
        start, room = at, _Room(allocations, limits)
        if not (joins[at] and room.takes(dispatch)):
            start, room = at + 1, _Room(allocations, limits)
    found.append(range(start, len(dispatches)))
    return tuple(chain for chain in found if len(chain) > 1)


def make_chain(
    members: Sequence[Dispatch], allocations: Mapping[Value, Allocation]
) -> DispatchChain:
    """The chain of dispatches, with a block for each of a plan's buffers that they use."""
    # LLVM's time grows faster than a chain's code, and the chain loops over invocations anyway.
    members = tuple(member.by_pixel() for member in members)
    blocks: dict[tuple[int, Kind], int] = {}
    images: dict[Const, int] = {}
    places: dict[Operand, OperandPlace] = {}
    for operand in (operand for member in members for operand in _tensors(member)):
        if isinstance(operand, Const):
            places[operand] = OperandPlace(True, images.setdefault(operand, len(images)))
        else:
            allocation = allocations[operand]
            number = blocks.setdefault((allocation.buffer, operand.kind), len(blocks))
            places[operand] = OperandPlace(False, number, allocation.offset // operand.texel_bytes)
    return DispatchChain(members, tuple(blocks), tuple(images), places)


class _Room:
    """The share of the device's limits that the members of a chain take."""

    def __init__(self, allocations: Mapping[Value, Allocation], limits: Limits) -> None:
        self._allocations = allocations
        self._limits = limits
        self._blocks: set[tuple[int, Kind]] = set()
        self._images: set[Const] = set()
        self._passes = 0
        self._code = 0

    def takes(self, dispatch: Dispatch) -> bool:
        """Add the dispatch, if there is room."""
        tensors = _tensors(dispatch)
        images = self._images.union(constants_of(tensors))
        blocks = self._blocks.union(
            (self._allocations[x].buffer, x.kind) for x in values_of(tensors)
        )
        passes = self._passes + _passes(dispatch, self._limits)
        code = self._code + dispatch.unrolled * (_PRODUCT_CODE if dispatch.flops else 1)
        fits = (
            len(blocks) <= self._limits.chain_blocks
            and len(images) <= self._limits.chain_images
            and passes <= self._limits.loop_passes
            and code <= _MAX_CODE
        )
        if fits:
            self._blocks, self._images, self._passes, self._code = blocks, images, passes, code
        return fits


def _tensors(dispatch: Dispatch) -> tuple[Operand, ...]:
    return (*dispatch.operands, dispatch.output)


def _is_small(dispatch: Dispatch, limits: Limits) -> bool:
    """Whether one work group computes it about as fast as several."""
    grid = dispatch.grid
    is_one_group = prod(grid.groups) == 1
    constants = constants_of(dispatch.operands)
    is_one_vector = is_one_group and prod(invocations(dispatch)) <= limits.simd_lanes
    return (
        is_own(dispatch.shader)
        and (is_one_group or _passes(dispatch, limits) <= limits.profile.chained)
        and (is_one_vector or not dispatch.defines.get("SHARED_TEXELS"))
        and not dispatch.textures
        and grid.reduction_lanes == grid.rows == 1
        and not any(x.texture or x.texels > limits.buffer_texels for x in constants)
        and not any(x.kind == "half" or limits.is_large(x.nbytes) for x in _tensors(dispatch))
    )


def _passes(dispatch: Dispatch, limits: Limits) -> int:
    """An upper bound of a vector's passes through loops."""
    return ceil(prod(invocations(dispatch)) / limits.simd_lanes) * (1 + dispatch.most_passes)
