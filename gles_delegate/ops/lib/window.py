"""Sliding windows: padding, output sizes, and runs of pixels that share inputs."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

from gles_delegate.ops.lib.node import NodeView, UnfitSizes, Unsupported
from gles_delegate.shaders.dispatch import Define, Value

SAME, VALID = 0, 1
MAX_DILATED = (1 << 15) - 1
"""LiteRT refuses larger ones in DEPTHWISE_CONV_2D; a row has at least one run for each."""


def by_side(**pairs: tuple[Define, Define]) -> dict[str, Define]:
    """Defines of pairs: ``SIZE=(3, 4)`` gives ``SIZE_H`` and ``SIZE_W``."""
    sides = (0, "H"), (1, "W")
    return {f"{name}_{side}": pair[i] for name, pair in pairs.items() for i, side in sides}


@dataclass(frozen=True)
class Sliding:
    """Options of MediaPipe's custom ops, in the order of their C structs."""

    padding: int
    stride_w: int
    stride_h: int
    filter_w: int = 0
    filter_h: int = 0

    @classmethod
    def of(cls, node: NodeView, count: int = 5) -> Sliding:
        """Read the first `count` fields; raises `Unsupported` if they are absent or invalid."""
        stored = node.custom_options
        if stored is None or stored.size < 4 * count:
            raise Unsupported(f"no options; expected {count} integers")
        padding, *sizes = stored[: 4 * count].view("<i4").tolist()
        if padding not in (1, 2):
            raise Unsupported(f"padding {padding}; expected 1 (SAME) or 2 (VALID)")
        return cls(padding - 1, *sizes)


@dataclass(frozen=True)
class Window:
    """A window's geometry; `pad_*` counts the rows above and the columns to the left."""

    in_h: int
    in_w: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    out_h: int
    out_w: int
    pad_h: int
    pad_w: int

    @classmethod
    def of(
        cls, options: Any, image: tuple[int, int], kernel: tuple[int, int], may_exceed: bool = False
    ) -> Window:
        """Read and check ``padding``, ``stride_*`` and optional ``dilation_*`` from `options`.

        Args:
            may_exceed: A window larger than the image gives an empty output, not an error.
        """
        strides = (options.stride_h, options.stride_w)
        dilations = (getattr(options, "dilation_h", 1), getattr(options, "dilation_w", 1))
        if options.padding not in (SAME, VALID):
            raise Unsupported(f"padding {options.padding}; expected 0 (SAME) or 1 (VALID)")
        if min(*strides, *dilations, *kernel) < 1:
            raise Unsupported(
                f"strides {list(strides)}, dilations {list(dilations)} and window {list(kernel)}; "
                "expected positive numbers"
            )
        if max(dilations) > MAX_DILATED:
            raise Unsupported(f"dilations {list(dilations)}; expected at most {MAX_DILATED}")
        (out_h, pad_h), (out_w, pad_w) = (
            span(*sizes, options.padding == SAME, may_exceed)
            for sizes in zip(image, kernel, strides, dilations, strict=True)
        )
        # LiteRT's pools of a window far wider than the image are empty, too.
        out_h, out_w = max(out_h, 0) if out_w >= 0 else 0, max(out_w, 0)
        return cls(*image, *kernel, *strides, *dilations, out_h, out_w, pad_h, pad_w)

    @property
    def taps(self) -> int:
        return self.kernel_h * self.kernel_w

    def batch(self, output: Value) -> int:
        """The number of images whose results an output holds, in any shape."""
        return output.pixels // (self.out_h * self.out_w)

    def in_pixels(self, output: Value) -> int:
        """Pixels of these images."""
        return self.batch(output) * self.in_h * self.in_w

    @property
    def is_pointwise(self) -> bool:
        """Whether each output pixel reads only its own input pixel."""
        return (self.kernel_h, self.kernel_w, self.stride_h, self.stride_w) == (1, 1, 1, 1)

    @property
    def is_global(self) -> bool:
        """Whether the only output pixel reads the whole image."""
        rows, columns = self.kernel_h - self.pad_h, self.kernel_w - self.pad_w
        return self.out_h == self.out_w == 1 and rows >= self.in_h and columns >= self.in_w

    def defines(self, kernel: str) -> dict[str, Define]:
        """Compile-time constants; the window's size is called ``<kernel>_H`` and ``_W``."""
        return by_side(
            IN=(self.in_h, self.in_w),
            **{kernel: (self.kernel_h, self.kernel_w)},
            STRIDE=(self.stride_h, self.stride_w),
            OUT=(self.out_h, self.out_w),
            PAD=(self.pad_h, self.pad_w),
        )

    @property
    def _step(self) -> int:
        """Distance between neighboring pixels of a run."""
        return self.dilation_w if self.stride_w == 1 else 1

    def run_length(self, most: int) -> int:
        """Pixels of a row that one invocation computes: `most` or a little less."""
        if self.stride_w > 1 and self.dilation_w > 1:
            return 1  # neighbors share no inputs
        width = ceil(self.out_w / self._step) or 1
        return even_part(width, most)

    def runs(self, pixels: int) -> int:
        """Runs of that many pixels in a row."""
        return ceil(self.out_w / (pixels * self._step)) * self._step

    def columns(self, pixels: int) -> int:
        """Pixels of an input row that a run of `pixels` outputs reads."""
        return (pixels - 1) * self.stride_w + self.kernel_w

    def pixels_within(self, columns: int) -> int:
        """Longest run that reads at most `columns` of an input row; 0 if the window is wider."""
        return max((columns - self.kernel_w) // self.stride_w, -1) + 1

    def block_defines(self) -> dict[str, Define]:
        """Defines of glsl/block_product.glsl."""
        window = self.defines("KERNEL")
        del window["KERNEL_H"]
        return {**window, **by_side(DILATION=(self.dilation_h, self.dilation_w))}

    def run_defines(self, batch: int, pixels: int, by_taps: bool = False) -> dict[str, Define]:
        """Defines of glsl/lib/runs.glsl for runs of that many pixels.

        Args:
            by_taps: Go through the window tap by tap, not row by row.
        """
        return {
            **self.defines("KERNEL"),
            **by_side(DILATION=(self.dilation_h, self.dilation_w)),
            "BATCH": batch,
            "RUNS": self.runs(pixels),
            "COLUMNS": 1 if by_taps else self.columns(pixels),
            "BY_TAPS": int(by_taps),
        }


def even_part(total: int, most: int) -> int:
    """The size of parts, `most` or a little less, into which a total divides evenly."""
    return ceil(total / ceil(total / most))


def span(
    size: int, kernel: int, stride: int, dilation: int, same: bool, may_exceed: bool
) -> tuple[int, int]:
    """Output size and padding in front along one axis (ComputePaddingHeightWidth in LiteRT)."""
    extent = (kernel - 1) * dilation + 1
    # Without padding, LiteRT's division truncates, so a window slightly too large gives size 0.
    out = -(-size // stride) if same else int((size + stride - extent) / stride)
    if out < 0 and not may_exceed:
        raise UnfitSizes(f"a window of {extent} over {size} pixels without padding")
    return out, max((out - 1) * stride + extent - size, 0) // 2
