"""Random numbers: the streams of LiteRT's generator, which continue from run to run."""

from __future__ import annotations

from math import ceil, prod

import numpy as np

from gles_delegate.model.graph import Array
from gles_delegate.ops.lib.elementwise import inputs
from gles_delegate.ops.lib.grid import by_texel, make_grid
from gles_delegate.ops.lib.node import NodeView, Unsupported, one_integer
from gles_delegate.ops.lib.options import Options, Uint64
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import reshaped_as
from gles_delegate.shaders.dispatch import Define, SessionInput, Step

WORD = 0xFFFFFFFF
SKIPPED = 512
"""Draws that LiteRT's MULTINOMIAL skips per number."""


class RandomOptions(Options):
    seed: Uint64 = 0
    seed2: Uint64 = 0

    @property
    def is_seeded(self) -> bool:
        """Whether each start draws the same numbers; LiteRT keeps the lower halves of the seeds."""
        return bool((self.seed | self.seed2) & WORD)

    def defines(self, node: NodeView, draws: int) -> dict[str, Define]:
        """Defines of glsl/lib/philox.glsl; a run makes `draws` of four words each.

        Raises `Unsupported` for a node in a subgraph, which may run several times in a run.
        """
        if node.node is not node.graph.nodes[node.index]:
            raise Unsupported("random numbers in a subgraph; expected them in the graph itself")
        # LiteRT sign-extends the lower halves.
        lows = [seed & WORD for seed in (self.seed, self.seed2)]
        words = [word for low in lows for word in (low, WORD * (low >> 31))]
        key, stream = (words[:2], words[2:]) if self.is_seeded else ([0, 0], [node.index, 0])
        return {
            "SEEDED": int(self.is_seeded),
            "KEY": "uvec2({}u, {}u)".format(*key),
            "STREAM": "uvec2({}u, {}u)".format(*stream),
            "DRAWS": f"{draws & WORD}u",
        }


def _counter(runs: int, random_words: Array) -> Array:
    """The number of earlier runs, 0, and two random words: where an unseeded stream begins."""
    return np.array([runs & WORD, 0, *random_words], np.uint32).view(np.int32)


RUNS = SessionInput(-2, (4,), "runs", "int", content=_counter)


@op("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", options=RandomOptions, sized_by=(0,))
def random(node: NodeView, options: RandomOptions) -> list[Step]:
    shape = tuple(node.array(0).ravel().tolist())
    output = node.output(shape)
    if min(shape, default=0) < 0 or node.graph.tensors[output.tensor].dtype != "float32":
        raise Unsupported(f"random numbers of shape {list(shape)}; expected float32")
    numbers = node.scratch((prod(shape),), "numbers")
    defines: dict[str, Define] = {"NORMAL": int(node.op == "RANDOM_STANDARD_NORMAL")}
    defines |= options.defines(node, numbers.slices)
    grid = make_grid(1, numbers.slices, node.limits)
    return [
        node.dispatch("random", (RUNS,), numbers, grid, defines, passes=10),
        reshaped_as(node, numbers, output),
    ]


@op("MULTINOMIAL", options=RandomOptions, sized_by=(1,))
def multinomial(node: NodeView, options: RandomOptions) -> list[Step]:
    """Indices drawn by their log probabilities, which need not be normalized."""
    (logits,), count = inputs(node, (0,)), one_integer(node, 1, "the number of samples")
    if len(logits.shape) != 2 or not logits.channels or count < 0 or node.dtype(0) != "float32":
        raise Unsupported(f"{count} samples by {node.dtype(0)} of shape {list(logits.shape)}")
    dtype = node.graph.tensors[node.outputs[0]].dtype
    if dtype not in ("int32", "int64"):
        raise Unsupported(f"output 0 is {dtype}; expected int32 or int64")
    output = node.output((logits.pixels, count), kind="int")
    defines = options.defines(node, logits.pixels * ceil(count / 4) * 4 * SKIPPED)
    defines |= {"CLASSES": logits.channels}
    passes = 6 * (logits.channels + 11)
    return [by_texel(node, "multinomial", (logits, RUNS), output, defines, passes=passes)]
