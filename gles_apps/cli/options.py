"""Options that the commands of apps share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click
from rich.progress import Progress

from gles_apps.tasks.vision.opening import TaskModel
from gles_apps.vision.classes import TASKS
from gles_apps.vision.yolo import YOLO_KINDS
from gles_delegate.cli.common import compilation
from gles_delegate.errors import ModelError
from gles_delegate.model.files import require_regular
from gles_delegate.model.reader import naming_file

labels_option = click.option(
    "--labels",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Class names, one per line; default: those in the model's metadata.",
)
task_option = click.option(
    "--task", type=click.Choice(TASKS), help="Default: by the metadata or the outputs."
)
threshold_option = click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    help="Minimum score; default: the model's own, or 0.5 for objects and 0.3 for points.",
)
antialias_option = click.option(
    "--antialias/--no-antialias",
    default=True,
    show_default=True,
    help="Average over the area of each pixel that the network sees; without, as MediaPipe.",
)
kind_option = click.option(
    "--kind",
    type=click.Choice(list(YOLO_KINDS)),
    help="The kind of a YOLO network, if its shapes and metadata do not show it. yolov8 is also "
    "YOLO11, and yolo26 is any network with suppression inside.",
)


@contextmanager
def naming_missing(path: Path) -> Iterator[None]:
    """Raise the error that other commands raise for a missing file, or for a folder."""
    try:
        yield
    except FileNotFoundError as error:
        if not isinstance(error, ModelError):
            with naming_file(path):
                require_regular(path)
        raise
    except IsADirectoryError as error:
        if error.filename == str(path):
            with naming_file(path):
                raise
        raise


def listing_best(model: TaskModel) -> TaskModel:
    """A model that lists a classifier's best class, unless its settings have a number."""
    if model.task != "classify" or model.settings.top is not None:
        return model
    return replace(model, settings=replace(model.settings, top=1))


def compilations(bar: Progress) -> Callable[[str, int, int], None]:
    """A task's `progress`: a bar for each network."""
    reports: dict[str, Callable[[int, int], None]] = {}

    def report(name: str, compiled: int, total: int) -> None:
        reports.setdefault(name, compilation(bar))(compiled, total)

    return report
