"""The GL objects and files that the sessions of a model share."""

from __future__ import annotations

from dataclasses import dataclass

from gles_delegate.gl.context import GpuContext
from gles_delegate.runtime.constants import Constants
from gles_delegate.runtime.programs import Programs, Progress
from gles_delegate.runtime.store import Store


@dataclass
class Shared:
    """The resources that the sessions of a model share.

    Attributes:
        progress: Called as shaders compile.
    """

    gpu: GpuContext
    constants: Constants
    programs: Programs
    store: Store | None = None
    progress: Progress | None = None

    @staticmethod
    def by_one(gpu: GpuContext, progress: Progress | None = None) -> Shared:
        """Resources of a single session, freed with it."""
        return Shared(gpu, Constants(gpu), Programs(gpu, unused=0), progress=progress)
