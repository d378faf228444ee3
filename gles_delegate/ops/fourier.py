"""Fourier transforms: RFFT2D and its complex results, and the sound ops AudioSpectrogram and Mfcc.

glsl/fft_stage.glsl transforms along the axes of matrices. Graphs of TensorFlow 1 start with the
sound ops.
"""

from __future__ import annotations

from math import ceil, prod, sqrt

import numpy as np

from gles_delegate.model.graph import Array
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.elementwise import elementwise
from gles_delegate.ops.lib.grid import by_texel, make_grid
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Bool, FlexOptions, Int32, Options
from gles_delegate.ops.lib.packing import phwc4
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import (
    Target,
    View,
    complex_input,
    complex_output,
    complex_part,
    viewed,
)
from gles_delegate.shaders.dispatch import Call, Const, Define, Operand, Step, Value


@op("RFFT2D", sized_by=(1,))
def rfft2d(node: NodeView, options: Options) -> list[Step]:
    """Transform the rows, and if the height is not 1, the columns of the result."""
    x = node.input(0)
    lengths = node.array(1).ravel().tolist()
    if node.dtype(0) != "float32" or len(x.shape) < 2 or len(lengths) != 2:
        raise Unsupported(
            f"an input of {node.dtype(0)} and shape {list(x.shape)} and the lengths {lengths}; "
            "expected float32, rank 2 or more and two lengths"
        )
    height, width = lengths
    if min(height, width - 1) < 1 or height & (height - 1) or width & (width - 1):
        raise Unsupported(f"the lengths {lengths}; expected powers of two, and a width above 1")
    if max(height, width) > MAX_POINTS:
        raise Unsupported(f"the lengths {lengths}; expected at most {MAX_POINTS}")
    *batches, rows, columns = x.shape
    batch, bins = prod(batches), width // 2 + 1
    steps: list[Step] = []
    if rows != height or columns < width:
        size = (batch, height, width)
        fitted = node.scratch(size, "fitted")
        layout = View(size, (rows * columns, columns, 1), 0, (0, 0, 0), (batch, rows, columns))
        steps.append(viewed(node, x, fitted, layout))
        x, columns = fitted, width
    output = complex_output(node, (*batches, height, bins))
    result = output if height == 1 else node.scratch((2, batch, height, bins), "of_rows")
    transform_rows(node, x, columns, width, result, steps)
    if height > 1:
        transform_columns(node, result, output, (batch, height, bins), steps)
    return steps


@op("REAL", "IMAG", rows=rows.elementwise)
def real_or_imaginary(node: NodeView, options: Options) -> list[Step]:
    return [complex_part(node, node.output(node.shape(0)), imaginary=node.op == "IMAG")]


@op("COMPLEX_ABS", rows=rows.elementwise)
def complex_abs(node: NodeView, options: Options) -> list[Step]:
    x = complex_input(node)
    output = node.output(node.shape(0))
    return [by_texel(node, "complex_abs", (x,), output, {})]


MAX_POINTS = 1 << 20


def transform_rows(
    node: NodeView, x: Operand, columns: int, width: int, result: Value, steps: list[Step]
) -> None:
    """Append the steps that transform the first `width` elements of each row of `columns`.

    Args:
        result: A complex value.
    """
    rows, points = result.pixels // 2, width // 2
    groups = ceil(rows / 4)
    work = node.scratch((groups, points, 8), "rows")
    # The even elements of a row are real parts, the odd ones imaginary parts.
    pairs = View((groups, points, 2, 4), (4 * columns, 2, 1, columns))
    steps.append(viewed(node, x, work, pairs))
    table = turns(width)
    work = _transform(node, work, table, width, steps)
    defines: dict[str, Define] = {"POINTS": points, "ROWS": rows, "GROUPS": groups}
    grid = make_grid(rows, result.slices, node.limits)
    steps.append(node.dispatch("fft_real", (work, table), result, grid, defines).sized(*defines))


def transform_columns(
    node: NodeView, rows: Value, output: Value, size: tuple[int, int, int], steps: list[Step]
) -> None:
    """Append the steps that transform the columns of a complex value of that size."""
    batch, height, bins = size
    slices = rows.slices
    work = node.scratch((batch * slices, height, 8), "columns")
    pixels = work.pixels
    for i in range(2):  # real and imaginary parts
        # Lanes past the last column are transformed, too.
        first = i * batch * height * bins
        lanes = View((batch, slices, height, 4), (height * bins, 4, bins, 1), first)
        target = Target(pixels, 4, pixels, pixels, out_channel=4 * i)
        steps.append(viewed(node, rows, work, lanes, target))
    work = _transform(node, work, turns(height), height, steps)
    wide = node.scratch((2, batch, height, 4 * slices), "wide")
    back = View((2, batch, height, slices, 4), (4, slices * height * 8, 8, height * 8, 1))
    steps.append(viewed(node, work, wide, back))
    cut = View((2 * batch * height, bins), (4 * slices, 1))
    steps.append(viewed(node, wide, output, cut))


def _transform(node: NodeView, work: Value, table: Const, angles: int, steps: list[Step]) -> Value:
    """Append the stages of glsl/fft_stage.glsl; return the output of the last."""
    groups, points, _ = work.shape
    span = 1
    while span < points:
        radix = 4 if points // span % 4 == 0 else 2
        result = node.scratch(work.shape, f"{work.name}{span}")
        defines: dict[str, Define] = {
            "RADIX": radix,
            "POINTS": points,
            "SPAN": span,
            "TWIDDLE": angles // (span * radix),
            "GROUPS": groups,
        }
        grid = make_grid(groups * points // radix, 1, node.limits)
        stage = node.dispatch("fft_stage", (work, table), result, grid, defines)
        steps.append(stage.sized("POINTS", "SPAN", "TWIDDLE", "GROUPS"))
        work, span = result, span * radix
    return work


def turns(count: int) -> Const:
    """The table of `count` equal angles of a full turn."""
    return Const(turn_table, (), (count, 4), (count,))


def turn_table(count: int) -> Array:
    """[count, 4]: cosine, sine, and zeros."""
    angles = 2 * np.pi / count * np.arange(count)
    zeros = np.zeros(count)
    return np.stack([np.cos(angles), np.sin(angles), zeros, zeros], 1)


class SpectrogramOptions(FlexOptions):
    window_size: Int32 = 0
    stride: Int32 = 0
    magnitude_squared: Bool = False


@op("AudioSpectrogram", options=SpectrogramOptions)
def audio_spectrogram(node: NodeView, options: SpectrogramOptions) -> list[Step]:
    """[samples, channels] -> [channels, windows, bins], of Hann windows."""
    x, size = node.input(0), options.window_size
    if len(x.shape) != 2 or node.dtype(0) != "float32":
        raise Unsupported(f"{node.dtype(0)} of shape {list(x.shape)}; expected float32 and rank 2")
    if not 2 <= size <= MAX_POINTS or options.stride < 1:
        raise Unsupported(
            f"windows of {size} samples, {options.stride} apart; expected 2 to {MAX_POINTS} "
            "samples and at least 1 apart"
        )
    samples, channels = x.shape
    windows = max((samples - size) // options.stride + 1, 0)
    width = 1 << (size - 1).bit_length()
    output = node.output((channels, windows, width // 2 + 1))
    frames = node.scratch((channels * windows, width), "frames")
    shape, strides = (channels, windows, width), (1, options.stride * channels, channels)
    layout = View(shape, strides, 0, (0, 0, 0), (channels, windows, size))
    steps: list[Step] = [viewed(node, x, frames, layout)]
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
        raise Unsupported(f"{node.dtype(0)} and {node.dtype(1)}; expected float32 and int32")
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
