"""The processors and the GPU of an actor of Ray's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ray

from gles_delegate.batch.machine import take_processors
from gles_delegate.gl.egl import list_devices


def _is_actor() -> bool:
    return ray.is_initialized() and ray.get_runtime_context().get_actor_id() is not None


def device_of_actor() -> int | None:
    """The index of the device that Ray gives the actor; None: the best of any.

    GPUs are numbered as EGL lists hardware devices. An actor without a GPU takes the CPU.
    """
    if not _is_actor():
        return None
    gpus = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
    nodes = (*Path("/dev").glob("dri/renderD*"), *Path("/dev").glob("nvidia[0-9]*"))
    if not gpus and not nodes:  # there is the CPU alone
        return None
    devices = list_devices()
    wanted = [device for device in devices if device.software != bool(gpus)]
    if gpus and int(gpus[0]) < len(wanted):
        return wanted[int(gpus[0])].index
    return wanted[0].index if wanted and not gpus else None


def take_processors_of_actor() -> None:
    """Hold llvmpipe to the number of processors that Ray gives the actor."""
    if _is_actor():
        context: Any = ray.get_runtime_context()
        take_processors(max(int(context.get_assigned_resources().get("CPU", 1)), 1))
