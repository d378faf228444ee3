"""The kernel of each product: the first that suits it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from gles_delegate.kernels.convolution import by_blocks, by_runs
from gles_delegate.kernels.depthwise import AT_ONCE, apart, depthwise
from gles_delegate.kernels.matrices import matrices
from gles_delegate.kernels.setting import Setting
from gles_delegate.kernels.transposed import transposed
from gles_delegate.kernels.volumes import volumes
from gles_delegate.kernels.weights import with_small_weights
from gles_delegate.kernels.winograd import by_winograd
from gles_delegate.ops.lib.product import (
    Convolution,
    Convolution3D,
    Depthwise,
    DepthwisePointwise,
    MatrixProduct,
    Product,
    TransposedConvolution,
)
from gles_delegate.shaders.dispatch import Dispatch, Step

Kernel: TypeAlias = Callable[[Any, Setting], list[Dispatch] | None]
"""Returns the dispatches of a product, or None if it does not suit the product or the device."""
KERNELS: Mapping[type[Product], Sequence[Kernel]] = {
    Convolution: (by_winograd, by_blocks, by_runs),
    Depthwise: (depthwise,),
    DepthwisePointwise: (*AT_ONCE, apart),
    TransposedConvolution: (transposed,),
    Convolution3D: (volumes,),
    MatrixProduct: (matrices,),
}
"""The kernels of each kind of product. The last suits all."""


def steps_dispatches(steps: Iterable[Step], setting: Setting) -> Iterator[Dispatch]:
    """The dispatches of the steps of a node, before planning rewrites them."""
    for step in steps:
        match step:
            case Product(is_empty=False):
                yield from dispatches_of(step, setting)
            case Dispatch():
                yield step


def dispatches_of(product: Product, setting: Setting) -> list[Dispatch]:
    """The dispatches that compute a product; the last one computes its output."""
    made = (kernel(product, setting) for kernel in KERNELS[type(product)])
    dispatches = next(each for each in made if each is not None)
    most = setting.limits.loop_passes
    if setting.choice and any(dispatch.passes > most for dispatch in dispatches):
        return dispatches_of(product, replace(setting, choice=0))
    return [with_small_weights(dispatch, setting) for dispatch in dispatches]
