"""``gles-delegate library``: the delegate as a library, for programs that want its path."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import click

from gles_delegate.cli import common
from gles_delegate.litert.plugin import MARK, plugin_library


@common.command
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--machine",
    type=click.Choice(["x86_64", "aarch64"]),
    default=platform.machine(),
    help="The processor of the machine that loads it.",
)
@common.json_option
def library(file: Path, machine: str, as_json: bool) -> None:
    """Write a library for load_delegate and --ext_delegate.

    LiteRT and TFLite load FILE as an external delegate. The program must be one in Python, in whose
    environment gles_delegate is installed. The delegate's options are those of GpuDelegateOptions,
    as text.
    """
    content = plugin_library(machine)
    if file.exists() and MARK not in file.read_bytes():
        raise ValueError(f"expected a new file or a library of gles_delegate, found {file}")
    # A process may have mapped the file, so it is replaced and not written.
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        partial.write_bytes(content)
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    if as_json:
        common.print_json({"file": str(file), "machine": machine})
    else:
        print(
            f"{file}: load_delegate({str(file.absolute())!r}) in Python, or --ext_delegate {file}"
        )
