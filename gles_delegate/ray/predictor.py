"""Ray Data: a model on the batches of a dataset."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ray

from gles_delegate.batch import predictor
from gles_delegate.batch.predictor import ModelSource
from gles_delegate.options import GpuDelegateOptions
from gles_delegate.ray.actors import device_of_actor, take_processors_of_actor


class Predictor(predictor.Predictor):
    """A `gles_delegate.batch.Predictor` for Ray actors::

        dataset.map_batches(
            Predictor, fn_constructor_args=(path,), concurrency=(1, 8), batch_size=32
        )

    On llvmpipe, an actor uses the processors that Ray assigns to it (`num_cpus`), separate from
    other actors' processors. With `num_gpus`, it uses the GPU that Ray assigns to it. Programs
    are compiled once per node.

    Args:
        model: The path of a model on each node; or its bytes; or a reference, such as
            ``ray.put(path.read_bytes())``, which Ray sends once to each node.
        options: See `GpuDelegateOptions`.
        **arguments: See `gles_delegate.batch.Predictor`.

    Raises:
        ModelError, UnsupportedModelError, ContextError, ValueError: See the base class.
    """

    def __init__(
        self, model: ModelSource, *, options: GpuDelegateOptions | None = None, **arguments: Any
    ) -> None:
        take_processors_of_actor()
        options = options or GpuDelegateOptions()
        if options.device_index is None:
            options = replace(options, device_index=device_of_actor())
        model = ray.get(model) if isinstance(model, ray.ObjectRef) else model
        super().__init__(model, options=options, **arguments)
