"""Ray Data: a model on the batches of a dataset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import ray

from gles_apps.batch import predictor, tasks
from gles_apps.batch.machine import take_processors
from gles_apps.batch.predictor import ModelSource
from gles_apps.tasks.vision.opening import TaskSettings
from gles_delegate import GpuDelegateOptions, list_devices

ActorSource: TypeAlias = Any
"""A `ModelSource`, or the reference that ``ray.put`` returns for one."""


class Predictor(predictor.Predictor):
    """A `gles_apps.batch.Predictor` for Ray actors.

    ```python
    dataset.map_batches(
        Predictor, fn_constructor_args=(path,), concurrency=(1, 8), batch_size=32
    )
    ```

    On llvmpipe, an actor uses the processors that Ray assigns to it (`num_cpus`), separate from
    other actors' processors. With `num_gpus`, it uses the GPU that Ray assigns to it. Programs
    are compiled once per node.

    Args:
        model: The path of a model on each node; or its bytes; or a reference, such as
            ``ray.put(path.read_bytes())``, which Ray sends once to each node.
        options: See `GpuDelegateOptions`.
        **arguments: See `gles_apps.batch.Predictor`, which also lists the errors.
    """

    def __init__(
        self, model: ActorSource, *, options: GpuDelegateOptions | None = None, **arguments: Any
    ) -> None:
        model, options = for_actor(model, options)
        super().__init__(model, options=options, **arguments)


class TaskPredictor(tasks.TaskPredictor):
    """A `gles_apps.batch.TaskPredictor` for Ray actors; see `Predictor`.

    Args:
        model: See `Predictor`.
        settings: See `gles_apps.batch.TaskPredictor`, which also lists the errors.
        options: See `GpuDelegateOptions`.
        **arguments: See `gles_apps.batch.TaskPredictor`.
    """

    def __init__(
        self,
        model: ActorSource,
        settings: TaskSettings | None = None,
        *,
        options: GpuDelegateOptions | None = None,
        **arguments: Any,
    ) -> None:
        model, options = for_actor(model, options)
        super().__init__(model, settings, options=options, **arguments)


def for_actor(
    model: ActorSource, options: GpuDelegateOptions | None
) -> tuple[ModelSource, GpuDelegateOptions]:
    """The model and the options in the actor that runs this, which gets its processors."""
    options = options or GpuDelegateOptions()
    if ray.is_initialized() and ray.get_runtime_context().get_actor_id() is not None:
        resources: Any = ray.get_runtime_context().get_assigned_resources()
        take_processors(max(int(resources.get("CPU", 1)), 1))
        if options.device_index is None:
            options = replace(options, device_index=_device_of_actor())
    return ray.get(model) if isinstance(model, ray.ObjectRef) else model, options


def _device_of_actor() -> int | None:
    """The index of the device that Ray assigns to the actor; None: the best device.

    Ray's GPU numbers index EGL's hardware devices. An actor without a GPU uses the CPU.
    """
    gpus = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
    nodes = (*Path("/dev").glob("dri/renderD*"), *Path("/dev").glob("nvidia[0-9]*"))
    if not gpus and not nodes:  # without a GPU
        return None
    devices = [device for device in list_devices() if device.software != bool(gpus)]
    number = int(gpus[0]) if gpus else 0
    return devices[number].index if number < len(devices) else None
