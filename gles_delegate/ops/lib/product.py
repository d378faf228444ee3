"""Products: convolutions, and products of matrices, before `kernels` makes dispatches of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.packing import Groups
from gles_delegate.ops.lib.weights import Weights
from gles_delegate.ops.lib.window import Window
from gles_delegate.shaders.dispatch import (
    Call,
    Define,
    Dispatch,
    Grid,
    Operand,
    Operation,
    Shape,
    Value,
)


@dataclass(frozen=True, kw_only=True)
class Product(Operation):
    """Sums of products, without a shader, a tile and work groups; see `kernels.choosing`.

    Attributes:
        flops: Floating-point operations, for reports.
        fused: The other nodes that it computes.
    """

    node: int
    reads: tuple[Operand, ...]
    output: Value
    epilogue: tuple[Call, ...] = ()
    flops: int = 0
    fused: tuple[int, ...] = ()

    @property
    def x(self) -> Operand:
        """The operand that is not weights."""
        return self.reads[0]

    def dispatch(
        self,
        shader: str,
        reads: tuple[Operand, ...],
        grid: Grid,
        defines: Mapping[str, Define],
        *,
        passes: int,
        unrolled: int,
    ) -> Dispatch:
        """A dispatch that computes it; see `Dispatch`."""
        return Dispatch(
            self.node, shader, reads, self.output, grid, defines, self.epilogue, flops=self.flops,
            fused=self.fused, passes=passes, unrolled=unrolled,
        )  # fmt: skip

    def __str__(self) -> str:
        reads = ", ".join(map(str, self.reads))
        calls = "".join(f" | {call}" for call in self.epilogue)
        return f"{self.output} = {type(self).__name__}({reads}){calls}, node {self.node}"


@dataclass(frozen=True, kw_only=True)
class WeightedProduct(Product):
    """A product with weights. Those that a run computes, and biases, follow `x` in `reads`."""

    weights: Weights

    @property
    def read_count(self) -> int:
        return super().read_count - len(self.reads) + 2  # weights and biases are packed as one


@dataclass(frozen=True, kw_only=True)
class Convolution(WeightedProduct):
    """A dense convolution of an image, or the product of each pixel and weights.

    Attributes:
        window: None if each output pixel reads only its own input pixel.
        groups: The groups, and how many neighboring ones together read and write whole slices.
    """

    window: Window | None = None
    groups: Groups = (1, 1)

    @property
    def divisions(self) -> int:
        """Divisions of the input's slices; each output slice reads one of them."""
        return self.groups[0] // self.groups[1]

    @property
    def in_slices(self) -> int:
        """Input slices that an output slice reads."""
        return self.x.slices // self.divisions

    @property
    def taps(self) -> int:
        """Taps of the window; 0 without one."""
        return self.window.taps if self.window else 0


@dataclass(frozen=True, kw_only=True)
class Depthwise(WeightedProduct):
    """A depthwise convolution.

    Attributes:
        multiplier: Output channels of each input channel.
    """

    window: Window
    multiplier: int


@dataclass(frozen=True, kw_only=True)
class DepthwisePointwise(Product):
    """A depthwise convolution, and one of single pixels that alone reads its result.

    `reads` are those of the first; the weights of the second are constants.
    """

    first: Depthwise
    second: Convolution

    @property
    def read_count(self) -> int:
        return self.first.read_count + self.second.read_count - 1


@dataclass(frozen=True, kw_only=True)
class TransposedConvolution(WeightedProduct):
    """The gradient of a convolution, from its output `x` to its input.

    Attributes:
        window: The convolution's; it may leave rows and columns of `x` out.
        image: Height and width of `x`.
    """

    window: Window
    image: tuple[int, int]
    batch: int


@dataclass(frozen=True, kw_only=True)
class Convolution3D(WeightedProduct):
    """A convolution of volumes, or the gradient of one.

    Attributes:
        in_sizes: Depth, height and width of `x`, as the next ones are along these.
        padding: In front of each axis.
    """

    batch: int
    in_sizes: Shape
    out_sizes: Shape
    strides: Shape
    padding: Shape
    dilations: Shape
    transposed: bool


@dataclass(frozen=True, kw_only=True)
class MatrixProduct(Product):
    """Products of the matrices of two tensors.

    Attributes:
        defines: How glsl/batch_matmul.glsl finds the matrices.
        count: The number of results.
        rows: Rows of each.
        depth: Products in each sum.
    """

    defines: Mapping[str, Define]
    count: int
    rows: int
    depth: int


def product(
    node: NodeView,
    x: Operand,
    output: Value,
    window: Window | None = None,
    epilogue: tuple[Call, ...] = (),
    groups: int = 1,
    inputs: tuple[int, int] = (1, 2),
) -> Convolution:
    """A dense convolution; without a `window`, each output pixel reads one input pixel.

    Args:
        inputs: Positions of the weights and of the biases, which may be absent.
    """
    weights, operands = Weights.of(node, inputs, output.channels)
    # The fewest neighboring groups that together read and write whole slices, or all groups.
    channels = (x.channels, output.channels)
    divisors = (n for n in range(1, groups) if groups % n == 0)
    whole = (n for n in divisors if all(n * count // groups % 4 == 0 for count in channels))
    merged = next(whole, groups)
    if merged > 1 and operands:
        raise Unsupported("grouped convolution with weights computed at run time")
    return Convolution(
        node=node.index,
        reads=(x, *operands),
        output=output,
        epilogue=epilogue,
        flops=2 * output.elements * prod(weights.shape[1:]),
        weights=weights,
        window=None if window is not None and window.is_pointwise else window,
        groups=(groups, merged),
    )
