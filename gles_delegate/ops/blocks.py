"""Ops that move blocks of pixels to channels or to the batch, and back."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from gles_delegate.dispatch import Operand, Step
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.index import rank_4, row_major
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Int32, Options
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import View, bordered, moved, moved_output, view


@dataclass(frozen=True)
class BlockOptions(Options):
    block_size: Int32 = 0


@op("DEPTH_TO_SPACE", max_version=2, options=BlockOptions, rows=rows.images)
def depth_to_space(node: NodeView, options: BlockOptions) -> list[Step]:
    x, block = node.input(0, None), options.block_size
    batch, height, width, channels = rank_4(x.shape, "input 0")
    if block < 1 or channels % (block * block):
        raise Unsupported(f"block size {block} on {channels} channels")
    depth = channels // (block * block)
    layout = View(
        (batch * height, block, width, block, depth),
        (width * channels, block * depth, channels, depth, 1),
    )
    return [moved(node, x, (batch, height * block, width * block, depth), layout)]


@op("SPACE_TO_DEPTH", max_version=2, options=BlockOptions, rows=rows.images)
def space_to_depth(node: NodeView, options: BlockOptions) -> list[Step]:
    x, block = node.input(0, None), options.block_size
    batch, height, width, channels = rank_4(x.shape, "input 0")
    if block < 1 or height % block or width % block:
        raise Unsupported(f"block size {block} on {height} x {width} pixels")
    run = block * channels  # the channels of a block's row follow each other
    layout = View(
        (batch * height // block, width // block, block, run),
        (block * width * channels, run, width * channels, 1),
    )
    return [moved(node, x, (batch, height // block, width // block, block * run), layout)]


@op("SPACE_TO_BATCH_ND", max_version=4)
def space_to_batch(node: NodeView, options: Options) -> list[Step]:
    x = node.input(0, None)
    blocks, pads = _blocks(node, x)
    layout = bordered(x.shape, [[0, 0], *pads, [0, 0]])
    steps: list[Step] = []
    source: Operand = x
    if pads != [[0, 0]] * len(pads):
        source = node.scratch(layout.sizes, "padded", x.kind)
        steps.append(view(x, source, layout, node.limits, node.index))
    batch, *space, channels = source.shape
    if any(size % block for size, block in zip(space, blocks, strict=True)):
        raise Unsupported(f"blocks {blocks} of an image that is {space} with its paddings")
    counts = [size // block for size, block in zip(space, blocks, strict=True)]
    frame, *dense, _ = row_major(source.shape)
    jumps = [stride * block for stride, block in zip(dense, blocks, strict=True)]
    layout = View((*blocks, batch, *counts, channels), (*dense, frame, *jumps, 1))
    output = moved_output(node, x, (batch * prod(blocks), *counts, channels))
    return [*steps, view(source, output, layout, node.limits, node.index)]


@op("BATCH_TO_SPACE_ND", max_version=4)
def batch_to_space(node: NodeView, options: Options) -> list[Step]:
    x = node.input(0, None)
    blocks, crops = _blocks(node, x)
    images, *counts, channels = x.shape
    batch = images // prod(blocks)
    if images % prod(blocks):
        raise Unsupported(f"{images} images are no multiple of the blocks {blocks}")
    frame, *dense, _ = row_major(x.shape)
    sizes, strides = [batch], [frame]
    for i, (count, block, stride) in enumerate(zip(counts, blocks, dense, strict=True)):
        sizes += [count, block]
        strides += [stride, frame * batch * prod(blocks[i + 1 :])]
    layout = View((*sizes, channels), (*strides, 1))
    spread = tuple(count * block for count, block in zip(counts, blocks, strict=True))
    kept = tuple(size - a - b for size, (a, b) in zip(spread, crops, strict=True))
    if min(kept) < 0:
        raise Unsupported(f"crops {crops} of an image that is {list(spread)}")
    if kept == spread:
        return [moved(node, x, (batch, *kept, channels), layout)]
    whole = node.scratch((batch, *spread, channels), "whole", x.kind)
    output = moved_output(node, x, (batch, *kept, channels))
    walk = row_major(whole.shape)
    offset = sum(a * stride for (a, _), stride in zip(crops, walk[1:-1], strict=True))
    cropped = View(output.shape, walk, offset)
    return [
        view(x, whole, layout, node.limits, node.index),
        view(whole, output, cropped, node.limits, node.index),
    ]


def _blocks(node: NodeView, x: Operand) -> tuple[list[int], list[list[int]]]:
    """The block sizes and, for each, the padding or cropping before and after."""
    blocks, borders = node.array(1).ravel().tolist(), node.array(2)
    space = len(x.shape) - 2
    if space not in (1, 2) or len(blocks) != space or borders.shape != (space, 2):
        raise Unsupported(
            f"blocks {blocks} and borders {borders.tolist()} of a tensor of shape {list(x.shape)}; "
            "expected rank 3 with one block or rank 4 with two"
        )
    if min(blocks) < 1 or borders.min(initial=0) < 0:
        raise Unsupported(f"blocks {blocks} and borders {borders.tolist()}; expected none negative")
    pairs: list[list[int]] = borders.tolist()
    return blocks, pairs
