"""Features of sound: AudioSpectrogram and Mfcc, which graphs of TensorFlow 1 start with."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from gles_delegate.dispatch import Call, Const, Define, Step
from gles_delegate.model.graph import Array
from gles_delegate.ops.lib.elementwise import elementwise
from gles_delegate.ops.lib.fourier import MOST_POINTS, transform_rows, turns
from gles_delegate.ops.lib.grid import by_texel
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Bool, FlexOptions, Int32
from gles_delegate.ops.lib.packing import phwc4
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import View, view


@dataclass(frozen=True)
class SpectrogramOptions(FlexOptions):
    window_size: Int32 = 0
    stride: Int32 = 0
    magnitude_squared: Bool = False


@op("AudioSpectrogram", options=SpectrogramOptions)
def audio_spectrogram(node: NodeView, options: SpectrogramOptions) -> list[Step]:
    """[samples, channels] -> [channels, windows, bins]: each window is faded in and out."""
    x, size = node.input(0), options.window_size
    if len(x.shape) != 2 or node.dtype(0) != "float32":
        raise Unsupported(f"{node.dtype(0)} of shape {list(x.shape)}; expected float32 and rank 2")
    if not 2 <= size <= MOST_POINTS or options.stride < 1:
        raise Unsupported(
            f"windows of {size} samples, {options.stride} apart; expected 2 to {MOST_POINTS} "
            "samples and at least 1 apart"
        )
    samples, channels = x.shape
    windows = max((samples - size) // options.stride + 1, 0)
    width = 1 << (size - 1).bit_length()
    output = node.output((channels, windows, width // 2 + 1))
    frames = node.scratch((channels * windows, width), "frames")
    shape, strides = (channels, windows, width), (1, options.stride * channels, channels)
    layout = View(shape, strides, 0, (0, 0, 0), (channels, windows, size))
    steps: list[Step] = [view(x, frames, layout, node.limits, node.index)]
    faded = node.scratch(frames.shape, "faded")
    fade = Const(hann_window, (), (width,), (size, width))
    spectrum = node.scratch((2, *output.shape), "spectrum")
    epilogue = (Call("SQUARE"),) if options.magnitude_squared else ()
    steps.append(elementwise(node, (frames, fade), faded, "MUL"))
    transform_rows(node, faded, width, width, spectrum, steps)
    steps.append(by_texel(node, "complex_abs", (spectrum,), output, {}, epilogue))
    return steps


def hann_window(size: int, width: int) -> Array:
    """The periodic window of `size` elements, then zeros up to `width`."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi / size * np.arange(size))
    return phwc4(np.pad(window, (0, width - size)))


@dataclass(frozen=True)
class MfccOptions(FlexOptions):
    """The limits are in hertz; LiteRT takes their integer parts."""

    upper_frequency_limit: Int32 = 0
    lower_frequency_limit: Int32 = 0
    filterbank_channel_count: Int32 = 0
    dct_coefficient_count: Int32 = 0


@op("Mfcc", options=MfccOptions)
def mfcc(node: NodeView, options: MfccOptions) -> list[Step]:
    """The cosine transform of the logarithms of energies in bands of equal width in mel."""
    x, rate = node.input(0), node.input(1, "int")
    if len(x.shape) != 3 or x.channels < 2 or rate.elements != 1:
        raise Unsupported(
            f"a spectrogram of shape {list(x.shape)} and {rate.elements} sample rates; expected "
            "rank 3, at least 2 bins, and one rate"
        )
    if (node.dtype(0), node.dtype(1)) != ("float32", "int32"):
        raise Unsupported(
            f"inputs of {node.dtype(0)} and {node.dtype(1)}; expected float32 and int32"
        )
    low, high = options.lower_frequency_limit, options.upper_frequency_limit
    bands, count = options.filterbank_channel_count, options.dct_coefficient_count
    if not 0 <= low < high or not 1 <= count <= bands:
        raise Unsupported(
            f"{count} coefficients of {bands} bands from {low} to {high} hertz; expected at least "
            "1, no more than bands, and a range above 0"
        )
    energies = node.scratch((*x.shape[:2], bands), "energies")
    output = node.output((*x.shape[:2], count))
    edges: dict[str, Define] = {
        "BINS": x.channels,
        "BANDS": bands,
        "LOW": float(low),
        "HIGH": float(high),
    }
    norm: dict[str, Define] = {"BANDS": bands, "NORM": sqrt(2 / bands)}
    return [
        by_texel(
            node, "mel_bands", (x, rate), energies, edges, passes=x.channels, flops=12 * x.elements
        ),
        by_texel(
            node, "cosine_transform", (energies, turns(4 * bands)), output, norm, passes=bands,
            flops=2 * output.elements * bands,
        ),
    ]  # fmt: skip
