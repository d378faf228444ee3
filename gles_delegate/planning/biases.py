"""Rules that make a product's biases of constants that are added to its result.

Exporters of JAX, Keras and PyTorch add them in a node of their own, often behind a reshape.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gles_delegate.ops.lib.elementwise import ADD
from gles_delegate.ops.lib.packing import phwc4
from gles_delegate.ops.lib.product import WeightedProduct
from gles_delegate.ops.lib.views import Copy, view
from gles_delegate.planning.rewriting import Edit, Is, Listing, Rule
from gles_delegate.shaders.dispatch import Call, Const, Operation, Shape


def take_biases(listing: Listing) -> None:
    """Start the sums of products with constants that are added to these, or to what they become."""
    product = Is(WeightedProduct, read_once=True)
    listing.rewrite(
        Rule(Is(Copy, product, where=_adds), _of_reshaped),
        Rule(Is(WeightedProduct, where=_adds), _of_product),
    )


def _adds(operation: Operation) -> bool:
    return bool(operation.epilogue) and _added(operation.epilogue[0]) is not None


def _added(call: Call) -> Const | None:
    """The constant that a call adds, unless it is one number."""
    operand = call.operand
    is_added = call.function == ADD and not (call.args or call.rows or call.branches)
    if not is_added or not isinstance(operand, Const) or operand.kind != "float":
        return None
    return operand if operand.pack is phwc4 and len(operand.tensors) == 1 else None


def _of_product(listing: Listing, product: WeightedProduct) -> Iterator[Edit]:
    call, *rest = product.epilogue
    added = _added(call)
    is_row = added and (added.pixels, added.channels) == (1, product.output.channels)
    if added and is_row and (made := _with_biases(listing, product, added)):
        yield Edit(replace(made, epilogue=tuple(rest)), product)


def _of_reshaped(listing: Listing, copy: Copy, product: WeightedProduct) -> Iterator[Edit]:
    call, *rest = copy.epilogue
    added = _added(call)
    source, output = product.output, copy.output
    is_reshape = (
        copy.layout.is_whole(source)
        and source.elements == output.elements
        and len(copy.reads) == 1
        and not (copy.target or copy.counts_lanes or product.epilogue)
    )
    if added is None or not is_reshape or added.elements != source.channels:
        return
    own = _without_ones(added.shape)
    is_each_row = own == output.shape[len(output.shape) - len(own) :]
    if is_each_row and (made := _with_biases(listing, product, added)):
        limits, calls = listing.scope.limits, tuple(rest)
        moved = view(source, output, copy.layout, limits, copy.node, epilogue=calls)
        yield Edit((made, moved), copy, product)


def _without_ones(shape: Shape) -> Shape:
    """The shape from its first dimension that is not 1."""
    return _without_ones(shape[1:]) if shape[:1] == (1,) else shape


def _with_biases(
    listing: Listing, product: WeightedProduct, added: Const
) -> WeightedProduct | None:
    """The product with biases, in whose row-major order they are packed; None if it has others."""
    constants = product.weights.constants
    if constants is None or constants[1] >= 0:
        return None
    weights, biases = constants[0], added.tensors[0]
    tensors = listing.scope.tensors
    if tensors[weights].is_half and not tensors[biases].is_half:  # they share one texture
        return None
    return replace(product, weights=replace(product.weights, constants=(weights, biases)))
