"""Assembling of shaders: files and compile-time constants to GLSL text, errors back to files."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path

from gles_delegate.dispatch import Call, Define, Dispatch, Kind, Value
from gles_delegate.limits import Limits

_INCLUDE = re.compile(r'^\s*#include "(.+)"\s*$')
_FOR_TOOLS = re.compile(r"\s*#(version|extension GL_GOOGLE_include_directive)\b")
_EXAMPLES = re.compile(r"\s*#ifndef ASSEMBLED\b")
_IF, _ENDIF = re.compile(r"\s*#if"), re.compile(r"\s*#endif")
_WORD = re.compile(r"[A-Za-z_]\w*")
_COMMENT = re.compile(r"//[^\n]*")
_MARK = "#pragma unroll"
_MARKED_LOOP = re.compile(
    rf"^{_MARK}(?P<gpu>\(gpu\))?(?P<gap>\s+)"
    r"for \(int (?P<i>\w+) = (?P<first>\d+); (?P=i) < (?P<bound>\w+); \+\+(?P=i)\)",
    re.MULTILINE,
)
"""``#pragma unroll`` marks a loop over a register tile, ``#pragma unroll(gpu)`` one that llvmpipe
would compile for many seconds. Tools ignore both."""

_MOST_CHARACTERS = 1 << 11
"""Of an unrolled loop, except on llvmpipe: SwiftShader compiles long code slowly."""

_LOG_LINE = re.compile(r"\b0:(\d+)(?=[(:])|\b0\((\d+)\)")

ES_HEADER = """#version 310 es
#extension GL_EXT_texture_buffer : enable
#extension GL_OES_texture_buffer : enable
precision highp float;
precision highp int;
"""

_TYPES: dict[Kind, dict[str, Define]] = {
    "float": {"VEC": "vec4", "ELEMENT": "vec4", "FORMAT": "rgba32f", "IMAGE": "imageBuffer"},
    "int": {"VEC": "ivec4", "ELEMENT": "ivec4", "FORMAT": "rgba32i", "IMAGE": "iimageBuffer"},
    "half": {"VEC": "vec4", "ELEMENT": "uvec2"},  # read through storage blocks only
}

SIZES = 0
"""The location of the uniform with a dispatch's sizes."""

DESKTOP_HEADER = "#version 430\n"


@dataclass(frozen=True)
class Source:
    """A complete shader.

    Attributes:
        name: The file it was made of.
        text: The GLSL.
        lines: Of each line of the text, the file it stands in and its number there.
        image_reads: Whether it reads its inputs through buffer textures.
        sizes: What to set its uniform `SIZES` to; other sizes make no other text.
    """

    name: str
    text: str
    lines: tuple[tuple[str, int], ...]
    image_reads: bool
    sizes: tuple[int, ...] = ()

    def explain(self, log: str) -> str:
        """The compiler's log with our file names, and the lines of code it speaks of.

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


def assemble(dispatch: Dispatch, limits: Limits, header: str = ES_HEADER) -> Source:
    """The shader of a dispatch.

    Raises:
        ValueError: A define of the dispatch occurs nowhere in the code of the shader's files.
    """
    most = limits.buffer_texels
    image_reads = most > 0 and all(
        operand.texels <= most and operand.kind != "half" for operand in dispatch.operands
    )
    common: dict[str, Define] = {
        "PIXEL_LANES": dispatch.grid.pixel_lanes,
        "SLICE_LANES": dispatch.grid.slice_lanes,
        "SLICES_IN_X": int(dispatch.grid.slices_in_x),
        "OUT_WHOLE": int(dispatch.output.channels % 4 == 0),
        "IMAGE_READS": int(image_reads),
        "PARTIAL": int(dispatch.partial),
    }
    if limits.llvmpipe:
        # Mesa's shader cache would take the machine code of another width.
        common["SIMD_LANES"] = limits.simd_lanes
    for i, operand in enumerate(dispatch.operands):
        common |= {f"{key}{i}": value for key, value in _TYPES[operand.kind].items()}
    common |= {f"OUT_{key}": _TYPES[dispatch.output.kind][key] for key in ("VEC", "ELEMENT")}
    common["OUT_HALF"] = int(dispatch.output.kind == "half")
    name = f"{dispatch.shader}.glsl"
    body = _body(name)
    unused = {*dispatch.defines, *dispatch.sizes} - body.words
    if unused:
        raise ValueError(f"{name} does not use the defines {sorted(unused)}")
    output = dispatch.output
    sizes = {**dispatch.sizes, "OUT_CHANNELS": output.channels, "OUT_PIXELS": output.pixels}
    numbers = _Numbers(bool(dispatch.sizes) and limits.size_uniforms)
    defines: dict[str, Define] = {
        **common,
        **dispatch.defines,
        "SIZE_UNIFORMS": int(numbers.as_uniforms),
        **{size: numbers.text(value) for size, value in sizes.items()},
    }
    bounds = body.tile_bounds if limits.llvmpipe else body.bounds
    known = tuple((bound, str(defines[bound])) for bound in bounds if bound in defines)
    text = _unrolled(body.text, known, limits.llvmpipe)
    top = _defines(defines) + _epilogue(dispatch, numbers)
    if numbers.as_uniforms:
        header += f"layout(location = {SIZES}) uniform int sizes[{len(numbers.values)}];\n"
    top = header + top
    lines = (*(("defines", i + 1) for i in range(top.count("\n"))), *body.lines)
    return Source(name, top + text, lines, image_reads, tuple(numbers.values))


class _Numbers:
    """Numbers of a shader, as constants or as elements of its uniform array ``sizes``.

    Attributes:
        values: The elements so far; a float is there by its bits.
    """

    def __init__(self, as_uniforms: bool) -> None:
        self.as_uniforms = as_uniforms
        self.values: list[int] = []

    def text(self, number: float) -> str:
        """What stands for the number in GLSL."""
        if not self.as_uniforms:
            return _literal(number)
        element = f"sizes[{len(self.values)}]"
        if isinstance(number, float):
            self.values += struct.unpack("<i", struct.pack("<f", number))
            return f"intBitsToFloat({element})"
        self.values.append(number)
        return element


@lru_cache(1 << 8)  # some bounds are sizes of the input
def _unrolled(code: str, bounds: tuple[tuple[str, str], ...], llvmpipe: bool) -> str:
    """The code without its marked loops up to known bounds, in the same number of lines.

    Where a loop indexes an array, SwiftShader and llvmpipe of Mesa 25 keep it in memory instead of
    registers, which takes 5 times as long.
    """
    known = dict(bounds)
    for loop in reversed(list(_MARKED_LOOP.finditer(code))):  # inner ones before those around them
        end = _end_of_statement(code, loop.end())
        statement, body = code[loop.end("gap") : end], code[loop.end() : end]
        bound = loop["bound"]
        last = "" if llvmpipe and loop["gpu"] else known.get(bound, bound)
        if last.isdigit() and not ("#" in body or "break;" in body or "continue;" in body):
            line = f"{{ {' '.join(body.split())} }} "
            values = range(int(loop["first"]), int(last))
            if llvmpipe or len(line) * len(values) <= _MOST_CHARACTERS:
                use = re.compile(rf"(?<![.\w]){loop['i']}\b")  # and no swizzle
                copies = "".join(use.sub(str(value), line) for value in values)
                statement = f"{{ {copies}}}" + "\n" * body.count("\n")
        code = code[: loop.start()] + loop["gap"] + statement + code[end:]
    return code


def _end_of_statement(code: str, start: int) -> int:
    """Where a statement ends: behind its block, if it has one, or else its semicolon."""
    depth = 0
    for i in range(start, len(code)):
        depth += (code[i] in "({") - (code[i] in ")}")
        if not depth and code[i] in ";}":
            return i + 1
    return len(code)


def _defines(values: Mapping[str, Define]) -> str:
    return "".join(f"#define {name} {_literal(value)}\n" for name, value in values.items())


def _literal(value: Define) -> str:
    if isinstance(value, tuple):
        return f"int[{len(value)}]({', '.join(map(str, value))})"
    if isinstance(value, float):
        return repr(value) if value >= 0 else f"({value!r})"
    return str(value)


def _epilogue(dispatch: Dispatch, numbers: _Numbers) -> str:
    """The macros that glsl/lib/tensor.glsl applies to each result, and those for inner ones."""
    calls = [call for call in dispatch.epilogue if call.operand is not None]
    first = len(dispatch.reads)
    inputs = " ".join(f"INPUT{first + i}(FUSED{i})" for i in range(len(calls)))
    loads = (_load(f"FUSED{i}", call, dispatch.output, numbers) for i, call in enumerate(calls))
    return (
        f"#define EPILOGUE_INPUTS {inputs}\n"
        f"#define EPILOGUE(v, slice, pixel) {_applied(dispatch.epilogue, loads, numbers)}\n"
        f"#define INNER_EPILOGUE(v) {_applied(dispatch.inner, iter(()), numbers)}\n"
    )


def _applied(calls: Iterable[Call], loads: Iterator[str], numbers: _Numbers) -> str:
    """The calls, one after the other, of the macro's v; `loads` are of their operands."""
    result = "(v)"
    for call in calls:
        arguments = [result, *map(numbers.text, call.args)]
        if call.operand is not None:
            arguments.insert(0 if call.operand_first else 1, next(loads))
        result = f"{call.function}({', '.join(arguments)})"
    return result


def _load(name: str, call: Call, output: Value, numbers: _Numbers) -> str:
    """The texel of a call's operand that belongs to a texel of the output."""
    operand = call.operand
    assert operand is not None
    load, index = "LOAD", "(slice) * OUT_PIXELS + (pixel)"
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


@dataclass(frozen=True)
class _Body:
    """A file with its includes, without comments.

    Attributes:
        lines: Of each line of the text, the file it stands in and its number there.
        words: All identifiers.
        bounds: Those of the marked loops.
        tile_bounds: Those of the loops over a register tile.
    """

    text: str
    lines: tuple[tuple[str, int], ...]
    words: frozenset[str]
    bounds: tuple[str, ...]
    tile_bounds: tuple[str, ...]


@cache
def _body(name: str) -> _Body:
    """The file `name` with its includes.

    Raises:
        ValueError: A mark stands before something else than a loop that can be unrolled.
    """
    parts = list(_expand(name, set()))
    text = _COMMENT.sub("", "".join(f"{line}\n" for _, _, line in parts))
    loops = list(_MARKED_LOOP.finditer(text))
    if len(loops) != text.count(_MARK):
        raise ValueError(f"{name}: expected for (int i = 0; i < BOUND; ++i) after each {_MARK}")
    bounds = sorted({loop["bound"] for loop in loops})
    tile_bounds = sorted({loop["bound"] for loop in loops if not loop["gpu"]})
    lines = tuple(part[:2] for part in parts)
    words = frozenset(_WORD.findall(text))
    return _Body(text, lines, words, tuple(bounds), tuple(tile_bounds))


def _expand(name: str, seen: set[str]) -> Iterator[tuple[str, int, str]]:
    """File, number and text of each line of a file with its includes in place, each once.

    What serves tools that read the file by itself is left out: its version, the permission to
    include, and the examples of defines.
    """
    seen.add(name)
    depth = 0  # of conditions, inside the examples
    for number, line in enumerate(_read(name).splitlines(), 1):
        if depth or _EXAMPLES.match(line):
            depth += bool(_IF.match(line)) - bool(_ENDIF.match(line))
        elif include := _INCLUDE.match(line):
            if include[1] not in seen:
                yield from _expand(include[1], seen)
        elif not _FOR_TOOLS.match(line):
            yield name, number, line


@cache
def _read(name: str) -> str:
    """The text of a file of ours, by its name in glsl/, or of anyone's, by its absolute path."""
    file = Path(name) if Path(name).is_absolute() else files("gles_delegate.glsl").joinpath(name)
    return file.read_text(encoding="utf-8")
