"""Shared libraries of the least content that a dynamic linker takes; see the System V ABI."""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from gles_delegate.errors import LiteRtError


@dataclass(frozen=True)
class _Machine:
    """A processor's number in ELF files, and its relocation that is a symbol's address."""

    number: int
    glob_dat: int


_MACHINES = {"x86_64": _Machine(62, 6), "aarch64": _Machine(183, 1025)}
_PAGE = 0x10000  # the largest; older dynamic linkers reject segments with smaller alignment
_HEADER, _ENTRY, _SYMBOL, _RELOCATION = 64, 56, 24, 24  # sizes in bytes
_LOAD, _DYNAMIC, _GNU_STACK = 1, 2, 0x6474E551
_EXECUTE, _WRITE, _READ = 1, 2, 4
_FUNCTION, _OBJECT, _WEAK = 0x12, 0x11, 0x20
DATA_AFTER_CODE = _PAGE
"""From the code's first byte to the data's."""


@dataclass(frozen=True)
class Code:
    """A library's machine code.

    Attributes:
        content: The code and its constants; it reaches the data `DATA_AFTER_CODE` bytes further.
        functions: Name and offset of each function.
        imports: Functions of the process whose addresses the data begins with, 8 bytes each; 0 if
            the process does not have one.
    """

    content: bytes
    functions: Sequence[tuple[str, int]]
    imports: Sequence[str]


def require_machine(machine: str) -> None:
    """Raise LiteRtError for an unknown processor, or in a 32-bit Python."""
    bits = 64 if sys.maxsize >= 1 << 32 else 32
    if machine not in _MACHINES or bits == 32:
        raise LiteRtError(
            f"libraries for LiteRT need {' or '.join(_MACHINES)} and a 64-bit Python; found "
            f"{machine} with a {bits}-bit Python"
        )


def data_library(machine: str, symbol: str, size: int, soname: str = "") -> bytes:
    """A library with `size` writable bytes at a symbol, and a DT_SONAME if it is given.

    Raises:
        LiteRtError: See `require_machine`.
    """
    return _library(machine, None, symbol, size, soname)


def code_library(machine: str, code: Code) -> bytes:
    """A library with functions.

    Raises:
        LiteRtError: See `require_machine`.
    """
    return _library(machine, code, "", 8 * len(code.imports), "")


def _library(machine: str, code: Code | None, symbol: str, size: int, soname: str) -> bytes:
    require_machine(machine)
    functions = code.functions if code else ()
    imports = code.imports if code else ()
    names = [*imports, *(name for name, _ in functions), *([symbol] if symbol else [])]
    strings = "\0".join(["", *names, soname, ""]).encode()
    # What is only read comes first, then the code, then what is written.
    at_symbols = _HEADER + (4 if code else 3) * _ENTRY
    at_strings = at_symbols + _SYMBOL * (1 + len(names))
    at_hash = _aligned(at_strings + len(strings), 8)
    at_relocations = _aligned(at_hash + 4 * (4 + len(names)), 8)
    at_code = _aligned(at_relocations + _RELOCATION * len(imports), 64)
    at_data = at_code + DATA_AFTER_CODE if code else at_code
    at_dynamic = _aligned(at_data + size, 16)

    # DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT; DT_RELA, DT_RELASZ, DT_RELAENT; DT_SONAME
    tags = [(4, at_hash), (5, at_strings), (6, at_symbols), (10, len(strings)), (11, _SYMBOL)]
    if imports:
        tags += [(7, at_relocations), (8, _RELOCATION * len(imports)), (9, _RELOCATION)]
    if soname:
        tags.append((14, strings.index(f"\0{soname}\0".encode()) + 1))
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in (*tags, (0, 0)))
    total = at_dynamic + len(dynamic)

    if code:
        at_written = _PAGE
        end_of_code = at_code + len(code.content)
        segments = [
            _segment(_LOAD, _READ | _EXECUTE, 0, end_of_code, _PAGE),
            _segment(_LOAD, _READ | _WRITE, at_written, total - at_written, _PAGE),
        ]
    else:
        segments = [_segment(_LOAD, _READ | _WRITE, 0, total, _PAGE)]
    segments.append(_segment(_DYNAMIC, _READ | _WRITE, at_dynamic, len(dynamic), 8))
    segments.append(_segment(_GNU_STACK, _READ | _WRITE, 0, 0, 16))

    def place(name: str) -> int:
        return strings.index(f"\0{name}\0".encode()) + 1

    symbols = [bytes(_SYMBOL)]
    symbols += [struct.pack("<IBBHQQ", place(name), _WEAK, 0, 0, 0, 0) for name in imports]
    for name, offset in functions:
        symbols.append(struct.pack("<IBBHQQ", place(name), _FUNCTION, 0, 1, at_code + offset, 0))
    if symbol:
        symbols.append(struct.pack("<IBBHQQ", place(symbol), _OBJECT, 0, 1, at_data, size))

    kind = _MACHINES[machine]
    relocations = [
        struct.pack("<QQq", at_data + 8 * i, (i + 1) << 32 | kind.glob_dat, 0)
        for i in range(len(imports))
    ]
    count = len(symbols)
    # One bucket: a chain of all symbols, which 0 ends.
    chain = struct.pack(f"<{count + 3}I", 1, count, 1, 0, *range(2, count), 0)
    identity = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    header = struct.pack(
        *("<HHIQQQIHHHHHH", 3, kind.number, 1, 0, _HEADER, 0, 0),
        *(_HEADER, _ENTRY, len(segments), 64, 0, 0),
    )
    sections = {
        0: identity + header,
        _HEADER: b"".join(segments),
        at_symbols: b"".join(symbols),
        at_strings: strings,
        at_hash: chain,
        at_relocations: b"".join(relocations),
        at_code: code.content if code else b"",
        at_dynamic: dynamic,
    }
    content = bytearray(total)
    for at, section in sections.items():
        content[at : at + len(section)] = section
    return bytes(content)


def _segment(kind: int, rights: int, at: int, size: int, alignment: int) -> bytes:
    """A program header; each byte's address is its place in the file."""
    return struct.pack("<IIQQQQQQ", kind, rights, at, at, at, size, size, alignment)


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
