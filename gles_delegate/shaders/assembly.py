"""Assembly of shaders: files and compile-time constants to GLSL text, and errors back to files."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass

from gles_delegate.device.limits import Limits
from gles_delegate.shaders.dispatch import (
    Call,
    Define,
    Dispatch,
    Kind,
    NumberKey,
    Value,
    every_call,
)
from gles_delegate.shaders.files import read_body, unrolled

ES_HEADER = """#version 310 es
#extension GL_EXT_texture_buffer : enable
#extension GL_OES_texture_buffer : enable
precision highp float;
precision highp int;
"""
_EXTERNAL = "#extension GL_OES_EGL_image_external_essl3 : require\n"

TYPES: dict[Kind, dict[str, Define]] = {
    "float": {"VEC": "vec4", "ELEMENT": "vec4", "FORMAT": "rgba32f", "IMAGE": "imageBuffer"},
    "int": {"VEC": "ivec4", "ELEMENT": "ivec4", "FORMAT": "rgba32i", "IMAGE": "iimageBuffer"},
    "half": {"VEC": "vec4", "ELEMENT": "uvec2"},  # read through storage blocks only
}

QUOTIENT_TEXELS = 1 << 18
"""A quarter of the limit of DIVIDED in glsl/lib/index.glsl, as a texel has four elements."""

SIZES = 0
"""The location of the uniform with a dispatch's sizes."""
DESKTOP_HEADER = "#version 430\n"
_LOG_LINE = re.compile(r"\b0:(\d+)(?=[(:])|\b0\((\d+)\)")


@dataclass(frozen=True)
class ShaderSource:
    """A complete shader.

    Attributes:
        name: The name of its main file.
        text: The GLSL.
        lines: File and line number of each line of the text.
        image_reads: Whether it reads its inputs through buffer textures.
        image_writes: Whether it writes its output through a buffer texture.
        sizes: Values of its uniform `SIZES`; the text does not depend on them.
    """

    name: str
    text: str
    lines: tuple[tuple[str, int], ...]
    image_reads: bool
    image_writes: bool
    sizes: tuple[int, ...] = ()

    def explain(self, log: str) -> str:
        """The compiler's log with our file names, and the lines of code that it quotes.

        Drivers differ in how they treat the file number of ``#line``, so the text has none.
        """
        explained = []
        for line in log.strip().splitlines():
            match = _LOG_LINE.search(line)
            number = int(match[1] or match[2]) if match else 0
            if not match or not 0 < number <= len(self.lines):
                explained.append(line)
                continue
            file, at = self.lines[number - 1]
            explained.append(f"{line[: match.start()]}{file}:{at}{line[match.end() :]}")
            code = self.text.splitlines()
            for i in range(max(number - 3, 0), min(number + 2, len(code))):
                mark = ">" if i == number - 1 else " "
                explained.append(f"  {mark} {self.lines[i][1]:4} {code[i]}")
        return "\n".join(explained)


def assemble(dispatch: Dispatch, limits: Limits, header: str = ES_HEADER) -> ShaderSource:
    """The shader of a dispatch; raises `ValueError` if its code does not use one of the defines."""
    # All operands are read through buffer textures, or all from storage blocks.
    large = any(limits.is_large(operand.nbytes) for operand in dispatch.operands)
    most = limits.large_texels if large else limits.buffer_texels
    fits = all(x.texels <= most and x.kind != "half" for x in dispatch.operands)
    image_reads = most > 0 and fits
    image_writes = limits.is_large(dispatch.output.nbytes)
    numbers: list[int] = []
    if dispatch.defines.get("EXTERNAL"):
        header = header.replace("\n", f"\n{_EXTERNAL}", 1)
    top, code, lines = top_and_code(dispatch, limits, numbers, image_reads, image_writes)
    if numbers:
        header += f"layout(location = {SIZES}) uniform int size_uniforms[{len(numbers)}];\n"
    top = header + top
    lines = (*(("defines", i + 1) for i in range(top.count("\n"))), *lines)
    name = f"{dispatch.shader}.glsl"
    return ShaderSource(name, top + code, lines, image_reads, image_writes, tuple(numbers))


def top_and_code(
    dispatch: Dispatch,
    limits: Limits,
    values: list[int],
    image_reads: bool = False,
    image_writes: bool = False,
    chained: bool = False,
) -> tuple[str, str, tuple[tuple[str, int], ...]]:
    """The defines of a dispatch, its code, and file and line number of each line of the code.

    Args:
        values: Gets the elements of the uniform `SIZES`.
    """
    of_halves = all(read.kind == "half" for read in dispatch.reads)
    is_pointwise = bool(dispatch.defines.get("POINTWISE"))
    in_half = limits.profile.half_products and is_pointwise and of_halves
    common: dict[str, Define] = {
        "CHAINED": int(chained),
        "PIXEL_LANES": dispatch.grid.pixel_lanes,
        "SLICE_LANES": dispatch.grid.slice_lanes,
        "SLICES_IN_X": int(dispatch.grid.slices_in_x),
        "REDUCTION_LANES": dispatch.grid.reduction_lanes,
        "PIXEL_ROWS": dispatch.grid.pixel_rows,
        "SLICE_ROWS": dispatch.grid.slice_rows,
        "OUT_WHOLE": int(dispatch.output.channels % 4 == 0 and not dispatch.general),
        "IMAGE_READS": int(image_reads),
        "IMAGE_WRITES": int(image_writes),
        "PARTIAL": int(dispatch.partial or (dispatch.general and not image_writes)),
        "ROLLED": int(limits.profile.tiles_unrolled),
        "SLICE_SUMS": int(in_half or limits.profile.slice_sums),
        "PRODUCT_PRECISION": "mediump" if in_half else "highp",
        # Without it, Mesa's shader cache would return machine code for another width.
        "SIMD_LANES": limits.simd_lanes,
        **_type_defines(dispatch, image_writes),
    }
    body = read_body(f"{dispatch.shader}.glsl")
    unused = {*dispatch.defines, *dispatch.sizes} - body.words
    if unused:
        raise ValueError(f"{dispatch.shader}.glsl does not use the defines {sorted(unused)}")
    with_sizes = bool(dispatch.sizes) and limits.size_uniforms and not chained
    numbers = _Numbers(with_sizes or bool(dispatch.uniforms), values)
    uniforms = set(dispatch.uniforms)
    if with_sizes:
        uniforms |= {(size, 0) for size in (*dispatch.sizes, "OUT_CHANNELS", "OUT_PIXELS")}
    with_quotients = dispatch.most_texels < QUOTIENT_TEXELS
    defines = {**common, "SIZE_UNIFORMS": int(with_sizes), "FLOAT_QUOTIENTS": int(with_quotients)}
    for key, value in dispatch.numbers.items():
        defines[key] = _define(key, value, uniforms, numbers)
    tiles_only = limits.profile.tiles_unrolled
    bounds = body.tile_bounds if tiles_only else body.bounds
    constants = tuple((bound, str(defines[bound])) for bound in bounds if bound in defines)
    top = "".join(f"#define {key} {_literal(value)}\n" for key, value in defines.items())
    top += _epilogue(dispatch, numbers)
    text = body.text if chained else body.called_by(top)
    return top, unrolled(text, constants, tiles_only), body.lines


def _type_defines(dispatch: Dispatch, image_writes: bool) -> dict[str, Define]:
    types, last = TYPES[dispatch.output.kind], len(dispatch.operands)
    defines: dict[str, Define] = {
        f"{key}{i}": value
        for i, operand in enumerate(dispatch.operands)
        for key, value in TYPES[operand.kind].items()
    }
    defines["HALF_READS"] = int(any(operand.kind == "half" for operand in dispatch.operands))
    defines |= {"OUT_VEC": types["VEC"], "OUT_ELEMENT": types["ELEMENT"]}
    if image_writes:
        defines |= {"OUT_FORMAT": types["FORMAT"], "OUT_IMAGE": types["IMAGE"]}
        defines |= {"OUT_UNIT": last, "BEFORE_UNIT": last + 1}
    return {**defines, "OUT_HALF": int(dispatch.output.kind == "half")}


@dataclass(frozen=True)
class _Numbers:
    """Numbers of a shader, as constants or as elements of its uniform array ``size_uniforms``.

    `values` gets the elements; floats are stored as their bits.
    """

    as_uniforms: bool
    values: list[int]

    def text(self, number: float) -> str:
        if not self.as_uniforms:
            return _literal(number)
        element = f"size_uniforms[{len(self.values)}]"
        if isinstance(number, float):
            self.values.extend(struct.unpack("<i", struct.pack("<f", number)))
            return f"intBitsToFloat({element})"
        self.values.append(number)
        return element


def _define(name: str, value: Define, uniforms: Set[NumberKey], numbers: _Numbers) -> Define:
    """The value of a define, with its numbers among `uniforms` replaced."""
    match value:
        case str():
            return value
        case tuple():
            elements = enumerate(value)
            texts = (numbers.text(n) if (name, i) in uniforms else str(n) for i, n in elements)
            return f"int[{len(value)}]({', '.join(texts)})"
    return numbers.text(value) if (name, 0) in uniforms else value


def _literal(value: Define) -> str:
    if isinstance(value, float):
        return repr(value) if value >= 0 else f"({value!r})"
    return str(value)


def _epilogue(dispatch: Dispatch, numbers: _Numbers) -> str:
    """The macros that glsl/lib/tensor.glsl applies to final and to inner results."""
    calls = [call for call in every_call(dispatch.epilogue) if call.operand is not None]
    first = len(dispatch.reads)
    inputs = " ".join(f"INPUT{first + i}(FUSED{i})" for i in range(len(calls)))
    loads = (_load(f"FUSED{i}", call, dispatch.output, numbers) for i, call in enumerate(calls))
    functions: list[str] = []
    last = _applied(dispatch.epilogue, loads, numbers, functions)
    inner = _applied(dispatch.inner, iter(()), numbers, functions, "0, 0")
    return (
        f"#define EPILOGUE_INPUTS {' '.join((inputs, *functions))}\n"
        f"#define EPILOGUE(v, slice, pixel) {last}\n"
        f"#define INNER_EPILOGUE(v) {inner}\n"
    )


def _applied(
    calls: Iterable[Call],
    loads: Iterator[str],
    numbers: _Numbers,
    functions: list[str],
    place: str = "slice, pixel",
) -> str:
    """The calls on v, in order; `functions` gets one for each that uses its result repeatedly."""
    result = "(v)"
    for call in calls:
        if call.branches:
            branches = (_applied(b, loads, numbers, functions) for b in call.branches)
            body = f"{call.function}({', '.join(branches)})"
            name = f"JOINED{len(functions)}"
            vec = TYPES[call.kind]["VEC"]
            functions.append(f"{vec} {name}(vec4 v, int slice, int pixel) {{ return {body}; }}")
            result = f"{name}({result}, {place})"
            continue
        arguments = [result, *map(numbers.text, call.args)]
        other = None if call.number is None else f"vec4({numbers.text(call.number)})"
        if call.operand is not None:
            other = next(loads)
        if other is not None:
            arguments.insert(0 if call.operand_first else 1, other)
        result = f"{call.function}({', '.join(arguments)})"
    return result


def _load(name: str, call: Call, output: Value, numbers: _Numbers) -> str:
    """The load of the operand's texel for a texel of the output."""
    operand = call.operand
    assert operand is not None
    load, index = "LOAD", "(slice) * OUT_PIXELS + (pixel)"
    if call.spread:
        a, b, c = map(numbers.text, call.spread)
        place = f"DIVIDED(pixel, {a}) * {b} + (pixel) - DIVIDED(pixel, {c}) * {c}"
        if operand.channels < output.channels:
            return f"LOAD({name}, {place}).xxxx"
        return f"LOAD({name}, (slice) * {numbers.text(operand.pixels)} + {place})"
    if call.rows:
        # Pixel x of row y lies at 2 x of row 2 y, where rows are twice as long.
        width = numbers.text(call.rows)
        rows = f"QUOTIENT(pixel, {width}) * (2 * {width})"
        index = f"(slice) * {numbers.text(operand.pixels)} + 2 * (pixel) + {rows}"
    elif operand.pixels != output.pixels or min(operand.channels, 2) < min(output.channels, 2):
        same_channels = operand.channels == output.channels
        return f"LOAD({name}, slice)" if same_channels else f"LOAD({name}, 0).xxxx"
    if operand.slices < output.slices or numbers.as_uniforms:  # one program for both
        outside = f"int((slice) >= {numbers.text(operand.slices)}) * OUTSIDE"
        load, index = "LOAD_OR_ZERO", f"{index} + {outside}"
    if call.rows:
        return f"LARGEST_OF_4({load}, {name}, {index}, 2 * {width})"
    return f"{load}({name}, {index})"
