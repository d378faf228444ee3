"""A real TfLiteDelegate, which makes LiteRT's own interpreter run nodes on the GPU.

If a callback raises, it stores the exception in `NativeDelegate.failure`, reports the message,
which LiteRT quotes in its interpreter's RuntimeError, and returns kTfLiteError.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from ctypes import addressof
from itertools import count
from typing import Any, Protocol
from weakref import WeakValueDictionary

from gles_delegate.litert.abi import (
    ALLOW_DYNAMIC_TENSORS,
    ERROR,
    OK,
    FreeCallback,
    InitCallback,
    KernelCallback,
    PrepareCallback,
    TfLiteDelegate,
    TfLiteRegistration,
    ints,
)
from gles_delegate.litert.native_graph import NativeGraph
from gles_delegate.model.graph import Array, Graph
from gles_delegate.model.schema import BUILTIN_OPERATORS

log = logging.getLogger("gles_delegate")

NAME = b"GlesDelegate"


class Kernel(Protocol):
    """A kernel in LiteRT's plan that runs some nodes on the GPU.

    Attributes:
        shape_inputs: Indices of the model's inputs whose values decide sizes of tensors.
        sized_by: Indices of other tensors whose shapes decide what it computes.
    """

    @property
    def shape_inputs(self) -> Collection[int]: ...
    @property
    def sized_by(self) -> Collection[int]: ...

    def prepare(
        self, shapes: Mapping[int, tuple[int, ...]], values: Mapping[int, Array] | None = None
    ) -> Mapping[int, tuple[int, ...]]: ...
    def is_planned_for(self, values: Mapping[int, Array]) -> bool: ...
    def invoke_on(
        self, array: Callable[[int], Array], allocated: Collection[int], reads_bound: bool
    ) -> None: ...


class Model(Protocol):
    """A subgraph, and its nodes that the GPU runs."""

    @property
    def delegated(self) -> Sequence[int]: ...

    def warn_of_split(self) -> None: ...
    def segment(self, nodes: Sequence[int]) -> Kernel: ...
    def drop(self, segment: Any) -> None: ...


class FixedModel:
    """A model that is its own kernel, with tensors whose shapes never change."""

    shape_inputs: Collection[int] = ()
    sized_by: Collection[int] = ()

    def __init__(self, delegated: Sequence[int], shapes: Mapping[int, tuple[int, ...]]) -> None:
        self.delegated = delegated
        self.shapes = shapes

    def warn_of_split(self) -> None: ...

    def segment(self, nodes: Sequence[int]) -> FixedModel:
        return self

    def drop(self, segment: FixedModel) -> None: ...

    def prepare(
        self, shapes: Mapping[int, tuple[int, ...]], values: Mapping[int, Array] | None = None
    ) -> Mapping[int, tuple[int, ...]]:
        return self.shapes

    def is_planned_for(self, values: Mapping[int, Array]) -> bool:
        return True

    def invoke_on(
        self, array: Callable[[int], Array], allocated: Collection[int], reads_bound: bool
    ) -> None:
        raise NotImplementedError


class NativeDelegate:
    """A TfLiteDelegate that LiteRT's interpreter accepts.

    Args:
        graph: The model's first subgraph.
        models: The subgraphs that it takes nodes from, by index.
        reads_back: Also copy bound outputs into LiteRT's tensors, after every run.

    Attributes:
        failure: The exception of the last failed callback, without tracebacks: their frames would
            keep LiteRT's interpreter alive, and the interpreter its kernels.
    """

    def __init__(self, graph: Graph, models: Mapping[int, Model], reads_back: bool = True) -> None:
        self.reads_back = reads_back
        self.failure: BaseException | None = None
        self._graph = graph
        self._models = models
        self._subgraphs: dict[int, int] = {}
        self._weights: list[list[Array]] = []
        self._claimed: set[int] = set()
        key = next(_keys)
        _delegates[key] = self
        self._struct = TfLiteDelegate(data=key, prepare=_PREPARE, flags=ALLOW_DYNAMIC_TENSORS)

    def _get_native_delegate_pointer(self) -> int:
        """The address of the structure; this object and its kernels keep it alive."""
        return addressof(self._struct)

    def claim(self, context: Any, pointer: Any) -> None:
        """Take the nodes of a subgraph that the GPU runs; raises LiteRtError for another model."""
        graph = NativeGraph(context)
        if not self._subgraphs or self._subgraphs.get(graph.address) == 0:
            self._identify(graph)
        if not self._subgraphs:  # LiteRT starts with the first subgraph
            subgraphs = graph.subgraphs(len(self._graph.subgraphs))
            self._subgraphs = {subgraph.address: index for index, subgraph in enumerate(subgraphs)}
            if self._graph.weights:
                both = zip(subgraphs, self._graph.subgraphs, strict=True)
                self._weights = [subgraph.set_weights(read) for subgraph, read in both]
        index = self._subgraphs.get(graph.address, -1)
        model = self._models.get(index)
        if model is None:
            return
        nodes = model.delegated
        graph.require_nodes(nodes)
        if index not in self._claimed:
            model.warn_of_split()
        self._claimed.add(index)
        if nodes:
            graph.replace(nodes, _REGISTRATION, pointer)

    def _identify(self, graph: NativeGraph) -> None:
        """Check that LiteRT's first subgraph is the model's."""
        graph.require_same(self._graph)

    def model(self, context: Any) -> Model:
        """The subgraph of a context that was claimed."""
        return self._models[self._subgraphs[addressof(context.contents)]]

    def status_of(self, context: Any, function: Callable[[], None]) -> int:
        """Call a function, and return the status for LiteRT."""
        try:
            function()
        except BaseException as error:  # LiteRT only understands statuses
            log.debug("a callback of LiteRT's failed", exc_info=error)
            self.failure = error
            chain: BaseException | None = error
            while chain is not None:
                chain.__traceback__ = None
                chain = chain.__cause__ or chain.__context__
            NativeGraph(context).report(f"{type(error).__name__}: {error}\n")
            return ERROR
        return OK


class LateDelegate(NativeDelegate):
    """A delegate that finds the model's bytes in LiteRT's memory.

    Args:
        address: Of the bytes, if LiteRT has told it.
        bind: Takes the first subgraph, and returns the subgraphs that the GPU takes nodes from.
    """

    def __init__(self, address: int | None, bind: Callable[[Graph], Mapping[int, Model]]) -> None:
        super().__init__(Graph((), (), (), ()), {})
        self._address = address
        self._bind = bind

    def _identify(self, graph: NativeGraph) -> None:
        if not self._models:
            self._graph = graph.read(self._address or graph.address_of_model())
            self._models = self._bind(self._graph)


class _NativeKernel:
    """A kernel as LiteRT calls it."""

    def __init__(self, owner: NativeDelegate, model: Model, nodes: Sequence[int]) -> None:
        self.owner = owner
        self._model = model
        self._kernel: Kernel = model.segment(nodes)
        self._shapes: dict[int, tuple[int, ...]] | None = None

    def prepare(self, graph: NativeGraph, node: Any) -> None:
        shapes = {i: graph.shape(i) for i in (*ints(node.inputs), *self._kernel.sized_by)}
        if shapes != self._shapes:
            self._shapes = None  # after an error it is prepared again
            self._prepared = self._kernel.prepare(shapes)
            self._shapes = shapes
        self._outputs = ints(node.outputs)
        for index in self._outputs:
            if self._kernel.shape_inputs:
                graph.make_dynamic(index)
            elif graph.shape(index) != self._prepared[index]:
                graph.resize(index, self._prepared[index])
        self._allocated = {*ints(node.inputs), *self._outputs}  # by LiteRT

    def invoke(self, graph: NativeGraph) -> None:
        kernel = self._kernel
        if kernel.shape_inputs:
            values = {index: graph.array(index).copy() for index in kernel.shape_inputs}
            if not kernel.is_planned_for(values):
                self._prepared = kernel.prepare(self._shapes or {}, values)
            for index in self._outputs:
                graph.resize(index, self._prepared[index])
        kernel.invoke_on(graph.array, self._allocated, self.owner.reads_back)

    def close(self) -> None:
        self._model.drop(self._kernel)


# Keyed by the number in `data` and `user_data`: an address could outlive its object.
_keys = count(1)
_delegates: WeakValueDictionary[int, NativeDelegate] = WeakValueDictionary()
_kernels: dict[int, _NativeKernel] = {}


def _prepare(context: Any, pointer: Any) -> int:
    delegate = _delegates[pointer.contents.data]
    return delegate.status_of(context, lambda: delegate.claim(context, pointer))


def _kernel_init(context: Any, params: Any, length: int) -> int | None:
    owner = _delegates[params.contents.delegate.contents.data]
    key = next(_keys)

    def init() -> None:
        _kernels[key] = _NativeKernel(owner, owner.model(context), ints(params.contents.nodes))

    return None if owner.status_of(context, init) else key


def _kernel_free(context: Any, key: int | None) -> None:
    kernel = _kernels.pop(key or 0, None)
    if kernel is not None:
        # On the wrong thread, its GL objects stay until the delegate is closed.
        with suppress(Exception):
            kernel.close()


def _kernel_prepare(context: Any, node: Any) -> int:
    kernel = _kernels.get(node.contents.user_data or 0)
    if kernel is None:
        return ERROR
    graph = NativeGraph(context)
    contents = node.contents
    return kernel.owner.status_of(context, lambda: kernel.prepare(graph, contents))


def _kernel_invoke(context: Any, node: Any) -> int:
    kernel = _kernels[node.contents.user_data]
    return kernel.owner.status_of(context, lambda: kernel.invoke(NativeGraph(context)))


# Never freed: LiteRT may call them as long as an interpreter lives.
_PREPARE = PrepareCallback(_prepare)
_REGISTRATION = TfLiteRegistration(
    init=InitCallback(_kernel_init),
    free=FreeCallback(_kernel_free),
    prepare=KernelCallback(_kernel_prepare),
    invoke=KernelCallback(_kernel_invoke),
    builtin_code=BUILTIN_OPERATORS.index("DELEGATE"),
    custom_name=NAME,
    version=1,
)
