"""Assembly of chains: the code of each member becomes a function."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from math import ceil

from gles_delegate.device.limits import Limits
from gles_delegate.shaders.assembly import ES_HEADER, TYPES, ShaderSource, top_and_code
from gles_delegate.shaders.dispatch import Dispatch, DispatchChain, Operand
from gles_delegate.shaders.files import read_body

_SHARED_FILE = "lib/elementwise.glsl"
"""The members share its functions and macros, which depend on no define."""
_DEFINE = re.compile(r"^\s*#define (\w+)", re.MULTILINE)
_GLOBAL = re.compile(
    r"^(?:const |shared )?\w+(?:\[\w*\])? (\w+)(?=[(\[;]| [={])"
    r"|^LOADER\(\w+, (\w+)"  # a macro of glsl/elementwise.glsl
    r"|\b(JOINED\d+)\(",  # of the epilogue
    re.MULTILINE,
)
"""Functions, structures, constants and variables: they begin a line, or come from macros."""
_INPUT = re.compile(r"\b(?:INPUT(\d)|(D|WEIGHT)_INPUT)\((\w+)\)")
_OTHER_INPUT = re.compile(r"#define (D|WEIGHT)_INPUT(?:\(name\))? INPUT(\d)")
_IN_GROUPS = re.compile(r"\b(FIRST_PIXEL|(PIXEL|SLICE)_(LANE|GROUP))\b")
# An input's name stands for (READ_BLOCK or READ_IMAGE, the block's or image's name, an offset).
_MACROS = """\
#define READ_BLOCK(name, index) name[index]
#define READ_IMAGE(name, index) imageLoad(name, index)
#define FIRST_OF(a, b, c) a
#define SECOND_OF(a, b, c) b
#define THIRD_OF(a, b, c) c
#define TEXEL(name, index) FIRST_OF name(SECOND_OF name, THIRD_OF name + (index))
int chain_pixel = 0, chain_slice = 0;
"""


def assemble_chain(chain: DispatchChain, limits: Limits, header: str = ES_HEADER) -> ShaderSource:
    """The shader of a chain, whose work group is one SIMD vector of `Limits.simd_lanes`."""
    parts = [header, f"layout(local_size_x = {limits.simd_lanes}) in;\n"]
    for i, (_, kind) in enumerate(chain.blocks):
        block = f"coherent buffer Block{i} {{ {TYPES[kind]['ELEMENT']} block{i}[]; }};"
        parts.append(f"layout(std430, binding = {i}) {block}\n")
    for i, const in enumerate(chain.images):
        types = TYPES[const.kind]
        image = f"readonly uniform highp {types['IMAGE']} image{i};"
        parts.append(f"layout({types['FORMAT']}, binding = {i}) {image}\n")
    parts.append(_MACROS)
    lines = list(_lines("chain", "".join(parts)))
    for number, member in enumerate(chain.members):
        before, code, after, code_lines = _member(chain, number, member, limits)
        parts += before, code, after
        lines += [*_lines("defines", before), *code_lines, *_lines("chain", after)]
    parts.append(_main(chain, limits))
    return ShaderSource(
        "chain", "".join(parts), (*lines, *_lines("chain", parts[-1])), False, False
    )


def _lines(name: str, text: str) -> Iterator[tuple[str, int]]:
    return ((name, i + 1) for i in range(text.count("\n")))


def _member(
    chain: DispatchChain, number: int, member: Dispatch, limits: Limits
) -> tuple[str, str, str, tuple[tuple[str, int], ...]]:
    """Macros, code, the ends of the macros, and file and line number of each line of the code.

    Its functions get its number, so that no two members have one of the same name.
    """
    top, code, lines = top_and_code(member, limits, [], chained=True)
    rows = list(zip(code.splitlines(), lines, strict=True))
    own_rows = [(row, line) for row, line in rows if line[0] != _SHARED_FILE]
    own = top + "".join(f"{row}\n" for row, _ in own_rows)
    if number:  # the first member has brought the shared file
        code, lines = own.removeprefix(top), tuple(line for _, line in own_rows)
    macros = dict.fromkeys(_DEFINE.findall(own))
    found = (name for names in _GLOBAL.findall(own) for name in names)
    renamed = {name: f"{name}_{number}" for name in found if name and name not in macros}
    places = {name: _place(chain, operand) for name, operand in _inputs(member, own).items()}
    added = {**renamed, **places, "OUT": _place(chain, member.output)}
    top += "".join(f"#define {name} {value}\n" for name, value in added.items())
    return top, code, "".join(f"#undef {name}\n" for name in {**macros, **added}), lines


def _inputs(member: Dispatch, code: str) -> dict[str, Operand]:
    """The operands by their names in the code."""
    numbers = {"D": "1", **dict(_OTHER_INPUT.findall(code))}
    found = ((name, int(i or numbers[other])) for i, other, name in _INPUT.findall(code))
    operands = member.operands
    return {name: operands[i] for name, i in found if name != "name" and i < len(operands)}


def _place(chain: DispatchChain, operand: Operand) -> str:
    place = chain.places[operand]
    kind = "IMAGE" if place.is_image else "BLOCK"
    return f"(READ_{kind}, {kind.lower()}{place.number}, {place.offset})"


def _main(chain: DispatchChain, limits: Limits) -> str:
    """The members in sequence, each in a loop over its invocations.

    The invocations of a SIMD vector run in step, so what one member writes is there for the next
    without a barrier of execution.
    """
    text = "void main() {\n"
    for number, member in enumerate(chain.members):
        pixels, slices = invocations(member)
        pixel, slice_ = f"i % {pixels}", f"i / {pixels}"
        if member.grid.slices_in_x:
            pixel, slice_ = f"i / {slices}", f"i % {slices}"
        end, step = pixels * slices, limits.simd_lanes
        text += (
            f"  for (int i = int(gl_LocalInvocationIndex); i < {end}; i += {step}) {{\n"
            f"    chain_pixel = {pixel};\n"
            f"    chain_slice = {slice_};\n"
            f"    main_{number}();\n"
            "  }\n"
            "  memoryBarrierBuffer();\n"
        )
    return text + "}\n"


def invocations(dispatch: Dispatch) -> tuple[int, int]:
    """The invocations of a member along the pixels and the slices.

    In whole work groups, if its code refers to them.
    """
    grid = dispatch.grid
    if not _has_groups(dispatch.shader):
        return grid.pixels, grid.slices
    pixels, slices = ceil(grid.pixels / grid.pixel_lanes), ceil(grid.slices / grid.slice_lanes)
    return pixels * grid.pixel_lanes, slices * grid.slice_lanes


@cache
def _has_groups(shader: str) -> bool:
    body = read_body(f"{shader}.glsl")
    rows = zip(body.text.splitlines(), body.lines, strict=True)
    code = "\n".join(row for row, (file, _) in rows if file != "lib/tensor.glsl")
    return bool(_IN_GROUPS.search(code))
