"""The command ``gles-delegate``."""

from __future__ import annotations

from importlib.metadata import entry_points

import click

from gles_delegate.cli.benchmark import benchmark
from gles_delegate.cli.common import JsonErrors
from gles_delegate.cli.compare import compare
from gles_delegate.cli.doctor import doctor
from gles_delegate.cli.inspect import inspect
from gles_delegate.cli.library import library
from gles_delegate.cli.models import models
from gles_delegate.cli.report import report
from gles_delegate.cli.verify import verify
from gles_delegate.version import __version__

COMMANDS = "gles_delegate.commands"
"""The group of entry points by which packages add commands."""


_RUN = "run computes a model's results for a picture, watch for a video or a camera"
MEANT = {
    **dict.fromkeys(("classify", "detect", "predict", "segment", "pose"), _RUN),
    "track": "watch --track follows a detector's objects",
    "help": "gles-delegate --help lists them, and gles-delegate COMMAND --help has the options",
    **dict.fromkeys(("download", "get"), "models get NAME downloads a model"),
}
"""What people mean by names that other tools have for commands."""


class Commands(JsonErrors):
    """The delegate's commands, and apps' commands, which are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.commands, *entry_points(group=COMMANDS).names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for found in entry_points(group=COMMANDS):
            if found.name == cmd_name:
                command: click.Command = found.load()
                return command
        known = super().get_command(ctx, cmd_name)
        if known is None and cmd_name in MEANT:
            raise click.UsageError(f"No such command {cmd_name!r}; {MEANT[cmd_name]}.", ctx)
        return known


@click.group(
    cls=Commands,
    commands=[benchmark, compare, doctor, inspect, library, models, report, verify],
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__)
def gles_delegate() -> None:
    """Run TensorFlow Lite models on the GPU."""
