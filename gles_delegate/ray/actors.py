"""The processors and the GPU of a Ray actor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ray

from gles_delegate.batch.machine import take_processors
from gles_delegate.gl.egl import list_devices


def _is_actor() -> bool:
    return ray.is_initialized() and ray.get_runtime_context().get_actor_id() is not None


def device_of_actor() -> int | None:
    """The index of the device that Ray assigns to the actor; None: the best device.

    Ray's GPU numbers index EGL's hardware devices. An actor without a GPU uses the CPU.
    """
    if not _is_actor():
        return None
    gpus = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
    nodes = (*Path("/dev").glob("dri/renderD*"), *Path("/dev").glob("nvidia[0-9]*"))
    if not gpus and not nodes:  # the machine has no GPU
        return None
    devices = [device for device in list_devices() if device.software != bool(gpus)]
    number = int(gpus[0]) if gpus else 0
    return devices[number].index if number < len(devices) else None


def take_processors_of_actor() -> None:
    """Limit llvmpipe to the number of processors that Ray assigns to the actor."""
    if _is_actor():
        context: Any = ray.get_runtime_context()
        take_processors(max(int(context.get_assigned_resources().get("CPU", 1)), 1))
