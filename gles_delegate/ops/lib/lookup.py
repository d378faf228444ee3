"""Lookups of elements by indices, by glsl/gather.glsl."""

from __future__ import annotations

from dataclasses import dataclass

from gles_delegate.dispatch import Const, Define, Dispatch, Operand, Shape, Value
from gles_delegate.ops.lib.grid import by_texel
from gles_delegate.ops.lib.index import row_major
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.views import moved_output


@dataclass(frozen=True)
class Lookup:
    """The source element of each output element.

    The output coordinate c reads the source at ``c @ strides`` plus, for each of `axes`, an index
    times the stride of that axis. ``c @ walk`` is the offset of the first of these indices.

    Attributes:
        shape: The shape of the output.
        axes: The axes of the source that the indices count along.
        sizes: Upper bounds of the indices; by default the sizes of `axes`.
        channels_last: Unless an index counts along the source's last dimension, the output's last
            dimension is the beginning of it.
    """

    shape: Shape
    strides: Shape
    walk: Shape
    axes: tuple[int, ...]
    sizes: Shape = ()
    channels_last: bool = True


def gathered(
    node: NodeView,
    source: Operand,
    indices: Operand,
    lookup: Lookup,
    i: int = 1,
    output: Value | None = None,
) -> Dispatch:
    """Look up elements of `source` by `indices`.

    Args:
        i: The input with the indices, if they are constant.
        output: The result; by default with elements of the type of `source`.

    Raises:
        Unsupported: A constant index is out of range.
    """
    axes, dense = lookup.axes, row_major(source.shape)
    sizes = lookup.sizes or tuple(source.shape[axis] for axis in axes)
    if isinstance(indices, Const):
        constant = node.array(i).reshape(-1, len(axes))
        if ((constant < 0) | (constant >= sizes)).any():
            raise Unsupported(f"indices outside the sizes {list(sizes)} that they count in")
    output = output or moved_output(node, source, lookup.shape)
    defines: dict[str, Define] = {
        "IN_CHANNELS": max(source.channels, 1),
        "IN_PIXELS": source.pixels,
        "INDEX_CHANNELS": max(indices.channels, 1),
        "INDEX_PIXELS": indices.pixels,
        "DIMS": max(len(lookup.shape), 1),
        "SIZES": lookup.shape or (1,),
        "STRIDES": lookup.strides or (0,),
        "WALK": lookup.walk or (0,),
        "DEPTH": len(axes),
        "AXIS_SIZES": sizes,
        "AXIS_STRIDES": tuple(dense[axis] for axis in axes),
        "WHOLE_TEXELS": int(lookup.channels_last and max(axes) + 1 < len(source.shape)),
    }
    return by_texel(node, "gather", (source, indices), output, defines)
