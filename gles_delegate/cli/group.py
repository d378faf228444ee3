"""The command ``gles-delegate``."""

from __future__ import annotations

import click

from gles_delegate.cli.batch import batch
from gles_delegate.cli.benchmark import benchmark
from gles_delegate.cli.common import JsonErrors
from gles_delegate.cli.compare import compare
from gles_delegate.cli.doctor import doctor
from gles_delegate.cli.inspect import inspect
from gles_delegate.cli.models import models
from gles_delegate.cli.report import report
from gles_delegate.cli.run import run
from gles_delegate.cli.verify import verify
from gles_delegate.cli.watch import watch
from gles_delegate.version import __version__


@click.group(
    cls=JsonErrors,
    commands=[batch, benchmark, compare, doctor, inspect, models, report, run, verify, watch],
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__)
def gles_delegate() -> None:
    """Run TensorFlow Lite models on the GPU."""
