"""An interpreter with LiteRT's methods that needs LiteRT only for nodes on the CPU."""

from __future__ import annotations

import enum
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from weakref import WeakMethod, ref

import numpy as np

from gles_delegate.gl.sync import Fence
from gles_delegate.gl.thread import NotPickled, ThreadLock
from gles_delegate.hosts.delegate import GpuDelegate
from gles_delegate.hosts.shapes import naming_new_shapes
from gles_delegate.model.bundle import model_of
from gles_delegate.model.graph import Array, Graph, Signature
from gles_delegate.model.metadata import Metadata
from gles_delegate.model.reader import ModelFile, read_file
from gles_delegate.planning.outputs import read_metadata
from gles_delegate.report import html_table
from gles_delegate.runtime.delegation import Delegation
from gles_delegate.runtime.invocation import Invocation
from gles_delegate.runtime.litert_host import OP_RESOLVERS, LiteRt, LiteRtHost
from gles_delegate.runtime.model import BoundModel
from gles_delegate.runtime.standalone import StandAlone, describe
from gles_delegate.shaders.dispatch import Shape
from gles_delegate.support.arrays import Memory
from gles_delegate.support.closing import Closing, on_error

K = TypeVar("K")
T = TypeVar("T")
ByTensor: TypeAlias = Mapping[str, T] | Mapping[int, T] | Mapping[str | int, T]
"""What an app gives for inputs or outputs by name or index: the keys of a Mapping are invariant."""

Host: TypeAlias = StandAlone | LiteRtHost
"""The back end of `Interpreter`: the GPU alone, or LiteRT with the delegate."""


_inherited: list[object] = []
"""What a fork has left of the parent's delegates. It is never freed, since that would wait for
threads of LiteRT that do not exist here."""


class _Results(dict[K, Array]):
    """Outputs by name; a missing name names the others."""

    def __missing__(self, key: K) -> Array:
        raise KeyError(f"expected one of the outputs {', '.join(map(repr, self))}, found {key!r}")


class _OwnDelegate(GpuDelegate):
    """An interpreter's own, whose context nobody else sees: any thread may call it, as LiteRT's."""

    _any_thread = True


class Interpreter(NotPickled, Closing):
    """Runs a .tflite model on the GPU, with the methods of `ai_edge_litert.interpreter`.

    Nodes that the GPU does not support run on LiteRT's CPU kernels, if LiteRT is installed. A
    warning of the logger ``gles_delegate`` names them.

    Args:
        model_path: A .tflite file, a bundle such as MediaPipe's .task files, or a `ModelFile`.
        model_content: The bytes of one. Give either this or `model_path`.
        experimental_delegates: One `GpuDelegate`, whose rules of thread and context then hold. If
            omitted, the interpreter makes its own, and closes it in `close`. Any thread may then
            call the interpreter, as LiteRT's; calls wait for each other.
        num_threads: Threads of LiteRT's CPU kernels.
        experimental_op_resolver_type: The set of LiteRT's CPU kernels to use, a member of
            LiteRT's OpResolverType.
        experimental_preserve_all_tensors: Let `get_tensor` read the results of all nodes after a
            run, not only outputs. It takes more memory, and more time where the GPU would run
            several nodes as one.
        member: The name of the model in a bundle; needed if there are several.

    The other arguments go to LiteRT's interpreter if it runs nodes on the CPU. They do not affect
    nodes on the GPU. Calls raise the errors that `GpuDelegate` lists, and GLError if the driver
    refuses a GL call.

    Raises:
        ValueError: Not exactly one of `model_path` and `model_content` is given, or more than one
            delegate; or LiteRT does not know the value of an argument.
        TypeError: An argument has the wrong type.
        ModelError: The model cannot be read (also a ValueError).
        UnsupportedModelError: Some nodes do not run on the GPU, and LiteRT is not installed.
        LiteRtError: LiteRT refuses the model or the delegate.
        ContextError: There is no usable OpenGL ES context.

    Examples:
        >>> with gd.Interpreter("segmenter.tflite") as interpreter:
        ...     results = interpreter.run({"image": np.zeros((1, 144, 256, 3), np.float32)})
        >>> results["ball"].shape
        (1, 144, 256, 1)
    """

    def __init__(  # noqa: PLR0913 -- LiteRT's arguments
        self,
        model_path: str | bytes | os.PathLike[str] | ModelFile | None = None,
        model_content: bytes | bytearray | memoryview | None = None,
        experimental_delegates: Sequence[GpuDelegate] | None = None,
        num_threads: int | None = None,
        experimental_op_resolver_type: enum.Enum | None = None,
        experimental_preserve_all_tensors: bool = False,
        experimental_disable_delegate_clustering: bool = False,
        experimental_default_delegate_latest_features: bool = False,
        experimental_compress_quantization_zero_points: bool = False,
        experimental_disable_delegate_node_fusion: bool = False,
        experimental_force_delegate_node_profiling: bool = False,
        *,
        member: str | None = None,
    ) -> None:
        options = {
            name: value
            for name, value in locals().items()
            if name.startswith(("num_threads", "experimental_"))
        }
        del options["experimental_delegates"]
        if model_path is None and model_content is None:
            raise ValueError("`model_path` or `model_content` must be specified.")
        if model_path is not None and model_content is not None:
            raise ValueError("Can't both provide `model_path` and `model_content`")
        _require_types(model_content, experimental_delegates, num_threads, member)
        if model_path is not None:
            self._file = read_file(model_path, member)
        else:
            self._file = ModelFile(model_of(bytes(model_content or b""), member))
        self._graph: Graph = self._file.graph()
        self._keeps_all = bool(experimental_preserve_all_tensors)
        self.experimental_compress_quantization_zero_points = bool(
            experimental_compress_quantization_zero_points
        )
        resolver = _resolver_name(experimental_op_resolver_type)
        self._litert_options = {**options, "experimental_op_resolver_type": resolver}
        self._lock = ThreadLock()
        self._views: list[ref[Memory]] = []
        self._hosts: dict[int, Host] = {}
        self._bound: BoundModel | None = None
        self._litert: LiteRt | None = None
        delegates = list(experimental_delegates or ())
        if len(delegates) > 1:
            raise ValueError(f"expected one delegate, found {len(delegates)}")
        self._own = None if delegates else _OwnDelegate()
        if self._own is not None:
            self._lock = ThreadLock(WeakMethod(self._renew))
        with on_error(self.close):
            self.modify_graph_with_delegate(self._own or delegates[0])

    def modify_graph_with_delegate(self, delegate: GpuDelegate) -> None:
        """Bind the model to a delegate, and fix this thread and its context for further calls.

        It replaces a closed delegate, such as one that lost its context. Call `allocate_tensors`
        afterwards: inputs keep their shapes, not their values, and variables are zero. Bindings of
        the closed delegate are lost. The delegate stays the caller's. After an error, another
        delegate can be tried.

        Raises:
            TypeError: `delegate` is not a `GpuDelegate`.
            ValueError: The interpreter has a delegate that is open.
            UnsupportedModelError, LiteRtError, ContextError: See the class.
            DelegateError: `delegate` is closed, or runs another model.
        """
        if not isinstance(delegate, GpuDelegate):
            raise TypeError(f"expected a gles_delegate.GpuDelegate, found {delegate!r}")
        with self._lock:
            before = self._hosts.get(0)
            if before is not None and not before.delegation.thread.is_closed:
                raise ValueError("the interpreter has a delegate that is open: close it first")
            bound = delegate.bind(self._graph, self._keeps_all)
            litert, self._litert = self._litert, None
            try:
                host = self._new_host(bound.first, bound)
                for details in before.get_input_details() if before is not None else ():
                    host.resize_tensor_input(details["index"], details["shape"])
            except BaseException:
                self._litert = litert
                raise
            self._bound = bound
            self._hosts = {0: host}
            self._lock.thread = bound.thread
            self._views = []  # those that are left keep the memory of the host before

    def _renew(self) -> None:
        """In the child of a fork: replace the own delegate, whose GL objects are the parent's.

        Inputs and outputs keep shapes and values, and variables are zero.
        """
        hosts, inherited = self._hosts, (self._own, self._litert, self._hosts)
        own = _OwnDelegate()
        with on_error(own.close):
            bound = own.bind(self._graph, self._keeps_all)
            self._litert = None
            new = {index: self._new_host(bound.subgraphs[index], bound) for index in hosts}
        _inherited.append(inherited)
        self._own = own
        self._bound = bound
        self._hosts = new
        self._lock.thread = bound.thread
        for index, host in new.items():
            _copy_state(hosts[index], host)

    def _new_host(self, delegation: Delegation, bound: BoundModel) -> Host:
        """A new host of a subgraph; all hosts with nodes on the CPU share one LiteRT."""
        if delegation.report.fully_delegated:
            return StandAlone(delegation)
        if self._litert is None:
            mixed = [each for each in bound.subgraphs.values() if not each.report.fully_delegated]
            self._litert = LiteRt(mixed, self._file, self._litert_options)
        return LiteRtHost(delegation, self._litert)

    def _entry(self, index: int) -> Host:
        """The host of a subgraph; raises ValueError for one that no signature runs."""
        if index not in self._hosts:
            assert self._bound is not None
            if index not in self._bound.subgraphs:
                raise ValueError(
                    f"expected one of the subgraphs {list(self._graph.entries)}, found {index}: "
                    "signatures run no other"
                )
            self._hosts[index] = self._new_host(self._bound.subgraphs[index], self._bound)
        return self._hosts[index]

    def __repr__(self) -> str:
        return f"<{self._described(lambda path: repr(str(path)))}>"

    def _described(self, show: Callable[[Path], str]) -> str:
        """The model, whose path `show` formats, and where its nodes run."""
        name = show(self._file.path) if self._file.path else "a model from memory"
        state = "without a delegate"
        if self._bound is not None:
            is_closed = self._bound.thread.is_closed
            state = "closed" if is_closed else self._bound.report.summary
        return f"Interpreter of {name}, {state}"

    def _repr_html_(self) -> str:
        """For notebooks: the inputs and the outputs."""
        rows = [("", "index", "name", "dtype", "shape")]
        sides = {"input": self.get_input_details(), "output": self.get_output_details()}
        for side, tensors in sides.items():
            for each in tensors:
                shape = each["shape"].tolist()
                dtype = np.dtype(each["dtype"]).name
                rows.append((side, str(each["index"]), each["name"], dtype, str(shape)))
        return html_table(rows, self._described(lambda path: path.name))

    def close(self) -> None:
        """Close the delegate if the interpreter made it; one that was passed stays open."""
        if self._own is not None:
            self._own.close()

    def run(
        self, inputs: ByTensor[Any], *, out: ByTensor[Array] | None = None
    ) -> dict[str | int, Array]:
        """Run the model on arrays by the names of its inputs; safe to call from several threads.

        Inputs are resized to the arrays' shapes, and tensors are allocated if necessary. No other
        call comes between: see `exclusive`. After an error, inputs have their shapes before, and
        arrays of `out` any content.

        Args:
            inputs: A dict with an array for each input that is not bound to a buffer or texture, by
                name or index. Use the index of an input without a unique name.
            out: A dict of arrays for outputs, by name or index, of their types and shapes. The
                results are written there, which saves a loop new memory; other outputs get new
                arrays.

        Returns:
            The outputs that are not bound, by name; by index if the name is not unique. Those of
            `out` are the arrays given.

        Raises:
            TypeError: `inputs` or `out` is not a mapping, or a value of `out` is not an array.
            ValueError: Names are missing or unknown; a dtype is wrong; or an array of `out` has
                another shape, is read-only, or overlaps another one.
            UnsupportedModelError, LiteRtError: See `allocate_tensors` and `invoke`.

        Examples:
            >>> with gd.Interpreter("segmenter.tflite") as interpreter:
            ...     mask = np.empty((1, 144, 256, 1), np.float32)
            ...     results = interpreter.run({"image": image}, out={"ball": mask})
            >>> results["ball"] is mask
            True
        """
        graph = self._graph
        arrays: dict[int, Any] = self._by_index(inputs, graph.inputs, "input")
        targets = self._by_index(out, graph.outputs, "output") if out is not None else {}
        _require_targets(graph, targets)
        with self._lock:
            bindings = self._host.delegation.bindings
            missing = [i for i in graph.inputs if i not in arrays and i not in bindings]
            if missing:
                raise ValueError(
                    f"expected an array for each of the inputs {self._list(graph.inputs)}, found "
                    f"none for {self._list(missing)}"
                )
            bound = [i for i in targets if i in bindings]
            if bound:
                raise ValueError(
                    f"expected arrays for outputs that are not bound, found {self._list(bound)}: "
                    "read_tensor of the delegate reads a bound output"
                )
            outputs = unique_names([(i, graph.tensors[i].name) for i in graph.outputs])
            unbound = {k: i for k, i in outputs.items() if i not in bindings}
            return _Results(self._run(0, arrays, unbound, targets))

    def _by_index(self, given: ByTensor[T], indices: Sequence[int], kind: str) -> dict[int, T]:
        """What an app gives for inputs or outputs by name or index, by index."""
        if not isinstance(given, Mapping):
            raise TypeError(
                f"expected a dict of arrays by the names of the {kind}s, found "
                f"{type(given).__name__}"
            )
        tensors = self._graph.tensors
        named = unique_names([(i, tensors[i].name) for i in indices])
        named.update({index: index for index in indices})
        found: dict[int, T] = {}
        for key, value in given.items():
            index = named.get(key)
            if index is None:
                same = [i for i in indices if tensors[i].name == key]
                why = f"no {kind} has that name or index"
                if same:
                    why = f"several {kind}s have that name, so give one of the indices {same}"
                raise ValueError(
                    f"expected arrays for the {kind}s {self._list(indices)}, found one for "
                    f"{key!r}: {why}"
                )
            if index in found:
                raise ValueError(
                    f"expected one array for {kind} {index} {tensors[index].name!r}, found two: "
                    "give it by its name or by its index"
                )
            found[index] = value
        return found

    def exclusive(self) -> AbstractContextManager[None]:
        """A lock for a sequence of calls; other threads' calls wait.

        ```python
        with interpreter.exclusive():
            interpreter.set_tensor(...)
            interpreter.invoke()
            result = interpreter.get_tensor(...)
        ```

        It is for threads that share an interpreter, which makes its own delegate or has one with
        `GpuDelegateOptions(own_thread=True)`. The lock is reentrant. `run` and signature
        runners take it themselves.
        """
        return self._lock

    def _run(
        self,
        subgraph: int,
        arrays: Mapping[int, Any],
        outputs: Mapping[K, int],
        targets: Mapping[int, Array] | None = None,
    ) -> dict[K, Array]:
        """Run a subgraph on arrays by tensor index, in one locked call; return these outputs.

        Those of `targets` are written into its arrays.
        """
        targets = targets or {}
        values = {index: np.asarray(value) for index, value in arrays.items()}
        for index, array in values.items():
            tensor = self._graph.subgraphs[subgraph].tensors[index]
            if tensor.type.array and array.dtype != tensor.type.array:
                advice = "convert the array with astype"
                if array.dtype.kind not in "biuf":
                    advice = "expected an array of numbers"
                elif tensor.dtype == "float32" and array.dtype == np.uint8:
                    advice += ", and scale a picture as ImageTransform.for_input does"
                raise ValueError(
                    f"cannot set input {index} {tensor.name!r}: expected the dtype {tensor.dtype}, "
                    f"found {array.dtype}; {advice}"
                )
        with self._lock:
            self._ensure_safe()
            host = self._entry(subgraph)
            before = {index: host.shape_of(index) for index in values}
            was_ready = host.is_ready
            try:
                for index, array in values.items():
                    host.resize_tensor_input(index, array.shape)
                with naming_new_shapes(self._graph.subgraphs[subgraph], values):
                    host.allocate_tensors()
                for index, array in values.items():
                    host.set_tensor(index, array)
                host.invoke(targets)
                return {
                    key: targets[index] if index in targets else host.get_tensor(index)
                    for key, index in outputs.items()
                }
            except BaseException:
                with suppress(Exception):  # the first error says more
                    _resize_back(host, before, was_ready)
                raise

    def _list(self, indices: Iterable[int]) -> str:
        return ", ".join(f"{self._graph.tensors[i].name!r} (index {i})" for i in indices)

    @property
    def _host(self) -> Host:
        if not self._hosts:
            raise RuntimeError("the interpreter has no delegate")
        return self._hosts[0]

    def allocate_tensors(self) -> None:
        """Plan, compile and allocate for the current input shapes. Does nothing if unchanged.

        Raises:
            UnsupportedModelError: A node cannot run with these shapes.
            LiteRtError: A node on the CPU cannot run with them.
            RuntimeError: A view from `tensor` is held.
        """
        with self._lock:
            self._ensure_safe()
            self._host.delegation.thread.require()
            self._host.allocate_tensors()

    def invoke(self) -> None:
        """Run the model on its inputs.

        If an input's value determines sizes, the outputs have this run's sizes. The first run with
        a new value plans and compiles for it.

        Raises:
            RuntimeError: `allocate_tensors` was not called since the start or a resize, or a view
                from `tensor` is held.
            UnsupportedModelError: A node cannot run with the sizes that an input's value gives.
            LiteRtError: A node on the CPU failed.
        """
        with self._lock:
            self._ensure_safe()
            self._host.invoke()

    def invoke_async(self, wait_for: Fence | int | None = None) -> Invocation:
        """Start a run. Returns at once if the GPU runs every node, otherwise when it is done.

        Some drivers, such as llvmpipe, compute in the call that starts a run. With `own_thread`,
        that thread makes the call, so this returns at once on every driver; an error is then raised
        by the call that waits for the run. ``await interpreter.invoke_async()`` waits in a
        coroutine, and `Invocation.add_done_callback` registers a function.

        `Invocation.get_tensor` waits only for that run, so its results can be read during the next
        run; `get_tensor` waits for the last run. Runs never overlap on the GPU.

        Args:
            wait_for: A fence after the commands that fill the inputs: a `Fence`, or the address of
                a GLsync, of another context that shares objects with the delegate's.

        Raises:
            RuntimeError: As `invoke`.
            ValueError: `wait_for` is not a fence.
        """
        with self._lock:
            self._ensure_safe()
            return self._host.invoke_async(wait_for)

    def resize_tensor_input(
        self, input_index: int, tensor_size: Sequence[int], strict: bool = False
    ) -> None:
        """Resize an input. Call `allocate_tensors` afterwards.

        As in LiteRT, resizing an output has no effect: its size follows from the inputs'.

        Args:
            strict: Reject changes of sizes that are fixed in `shape_signature`.

        Raises:
            RuntimeError: As LiteRT: no such tensor, a constant, a negative size, a fixed size in
                strict mode, or a view from `tensor` is held.
        """
        with self._lock:
            self._ensure_safe()
            self._host.resize_tensor_input(input_index, tensor_size, strict)

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copy `value` into an input, a variable tensor, or an output, which the next run replaces.

        Raises:
            ValueError: There is no such tensor, it is bound, it has another dtype or shape, or
                `allocate_tensors` was not called.
        """
        with self._lock:
            self._host.set_tensor(tensor_index, value)

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> Array:
        """A copy of an input, an output, a constant or a variable.

        With `experimental_preserve_all_tensors`, also of any tensor that a node computes. After
        `invoke_async` it waits for that run. A bound output is read back now, and so is a result of
        1 MiB and more that was read before.

        Raises:
            ValueError: There is no such tensor, it is a bound input or stays on the GPU, or
                `allocate_tensors` was not called.
            DelegateError: It must be read from the GPU, and the delegate is closed.
        """
        with self._lock:
            return self._entry(subgraph_index).get_tensor(tensor_index)

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        """A function that returns a view of an input or output, without a copy.

        While a view or a slice of it exists, `invoke`, `allocate_tensors` and `resize_tensor_input`
        raise RuntimeError, as LiteRT's, and so do `run` and signature runners, which would move the
        memory under it: hold the function, not the view.
        """
        with self._lock:
            self._host.tensor(tensor_index)  # raises for a wrong index

        def view() -> Array:
            with self._lock:
                array = self._host.tensor(tensor_index)()
                memory = Memory(array)
                self._views = [*(each for each in self._views if each() is not None), ref(memory)]
            return memory.as_array(array.shape, array.dtype)

        return view

    def _safe_to_run(self) -> bool:
        return all(view() is None for view in self._views)

    def _ensure_safe(self) -> None:
        if not self._safe_to_run():
            raise RuntimeError(
                "There is at least 1 reference to internal data in the interpreter in the form of "
                "a numpy array or slice: hold the function that tensor() returned, not its views, "
                "or copy them"
            )

    def get_input_details(self) -> list[dict[str, Any]]:
        """The inputs, as LiteRT describes them."""
        with self._lock:
            return self._host.get_input_details()

    def get_output_details(self) -> list[dict[str, Any]]:
        """The outputs, as LiteRT describes them."""
        with self._lock:
            return self._host.get_output_details()

    def get_tensor_details(self, subgraph_index: int = 0) -> list[dict[str, Any]]:
        """Every tensor of a type that numpy knows, as LiteRT describes it."""
        with self._lock:
            if subgraph_index in self._graph.entries:
                return self._entry(subgraph_index).get_tensor_details()
        if not 0 <= subgraph_index < self.num_subgraphs():
            raise ValueError(
                f"subgraph_index is out of range: there are {self.num_subgraphs()} subgraphs, "
                f"found {subgraph_index}"
            )
        tensors = self._graph.subgraphs[subgraph_index].tensors
        return [describe(tensor, tensor.shape) for tensor in tensors if tensor.type.array]

    def num_subgraphs(self) -> int:
        """The number of the model's subgraphs."""
        return len(self._graph.subgraphs)

    def reset_all_variables(self) -> None:
        """Set the variable tensors to zero."""
        with self._lock:
            for host in self._hosts.values():
                host.reset_all_variables()

    def _get_ops_details(self) -> list[dict[str, Any]]:
        """The nodes of the first subgraph, as LiteRT describes them."""
        return [self._get_op_details(node.index) for node in self._graph.nodes]

    def _get_op_details(self, op_index: int) -> dict[str, Any]:
        tensors = self._graph.tensors
        nodes = self._graph.nodes
        if not 0 <= op_index < len(nodes):
            raise ValueError(f"Invalid node index {op_index}: there are {len(nodes)} nodes")
        node = nodes[op_index]

        def types(indices: Iterable[int]) -> list[Any]:
            return [tensors[index].type.array for index in indices if index >= 0]

        return {
            "index": node.index,
            "op_name": node.op,
            "inputs": np.array(node.inputs, np.int32),
            "outputs": np.array(node.outputs, np.int32),
            "operand_types": types(node.inputs),
            "result_types": types(node.outputs),
        }

    def _get_tensor_details(self, tensor_index: int, subgraph_index: int) -> dict[str, Any]:
        every = self.get_tensor_details(subgraph_index)
        for details in every:
            if details["index"] == tensor_index:
                return details
        raise ValueError(
            f"Invalid tensor index {tensor_index} exceeds max tensor index {len(every)}"
        )

    @property
    def metadata(self) -> Metadata:
        """The author's description of the model, such as its normalization and labels.

        Raises:
            ModelError: It is damaged.
        """
        return self._metadata

    @cached_property
    def _metadata(self) -> Metadata:
        return read_metadata(self._graph)

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """The names of the inputs and outputs of each signature, by its key."""
        return {
            s.key: {"inputs": list(s.inputs), "outputs": list(s.outputs)}
            for s in self._graph.signatures
        }

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """A function that takes and returns arrays by name.

        A signature may run another subgraph than the first. Each subgraph has separate shapes,
        tensors and indices; bindings apply to the first.

        Raises:
            ValueError: There is no such signature; or, without a key, not exactly one.
            UnsupportedModelError: Some nodes of its subgraph run on the CPU, and LiteRT is not
                installed.
        """
        signatures = {s.key: s for s in self._graph.signatures}
        if signature_key is None and len(signatures) != 1:
            raise ValueError(
                f"SignatureDef signature_key is None and model has {len(signatures)} Signatures. "
                "None is only allowed when the model has 1 SignatureDef: give one of "
                f"{sorted(signatures)}"
            )
        key = next(iter(signatures)) if signature_key is None else signature_key
        if key not in signatures:
            raise ValueError(
                f'Invalid signature_key provided: "{key}": the model has {sorted(signatures)}'
            )
        with self._lock:
            self._entry(signatures[key].subgraph)
        return SignatureRunner(self, signatures[key])


class SignatureRunner:
    """Calls a model by the names of its signature; from `Interpreter.get_signature_runner`.

    Examples:
        >>> with gd.Interpreter("segmenter.tflite") as interpreter:
        ...     runner = interpreter.get_signature_runner()
        ...     results = runner(image=np.zeros((1, 144, 256, 3), np.float32))
        >>> results["ball"].shape
        (1, 144, 256, 1)
    """

    def __init__(self, interpreter: Interpreter, signature: Signature) -> None:
        self._interpreter = interpreter
        self._signature = signature

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        """Run on named arrays; inputs are resized to the arrays' shapes.

        No other call of the interpreter comes between; see `Interpreter.exclusive`. After an error,
        inputs have their shapes before.

        Returns:
            The outputs by name, in the order of their names, as in LiteRT.

        Raises:
            ValueError: Names are missing or unknown, or a dtype is wrong.
        """
        wanted = self._signature.inputs
        if inputs.keys() != wanted.keys():
            raise ValueError(
                "Invalid number of inputs provided for running a SignatureDef, expected "
                f"{len(wanted)} vs provided {len(inputs)}: expected the inputs {sorted(wanted)}, "
                f"found {sorted(inputs)}"
                if len(inputs) != len(wanted)
                else f"Invalid Input name ({min(inputs.keys() - wanted.keys())}) for SignatureDef: "
                f"expected the inputs {sorted(wanted)}, found {sorted(inputs)}"
            )
        arrays = {index: inputs[name] for name, index in wanted.items()}
        subgraph = self._signature.subgraph
        return self._interpreter._run(subgraph, arrays, self._signature.outputs)

    def get_input_details(self) -> dict[str, dict[str, Any]]:
        """The signature's inputs by name, as LiteRT describes them."""
        return self._named(self._signature.inputs)

    def get_output_details(self) -> dict[str, dict[str, Any]]:
        """The signature's outputs by name, as LiteRT describes them."""
        return self._named(self._signature.outputs)

    def _named(self, names: Mapping[str, int]) -> dict[str, dict[str, Any]]:
        subgraph = self._signature.subgraph
        details = {d["index"]: d for d in self._interpreter.get_tensor_details(subgraph)}
        return {name: details[index] for name, index in names.items()}


def _copy_state(source: Host, target: Host) -> None:
    """Give a host of the same subgraph another one's shapes, and what it holds in CPU memory."""
    graph = source.delegation.graph
    for index in graph.inputs:
        target.resize_tensor_input(index, source.shape_of(index))
    if not source.is_ready:
        return
    target.allocate_tensors()
    for index in (*graph.inputs, *graph.outputs):
        value = source.held(index)
        if value is not None:
            with suppress(ValueError):  # an output whose size a run has decided
                target.set_tensor(index, value)


def _resize_back(host: Host, shapes: Mapping[int, Shape], is_allocated: bool) -> None:
    """Give inputs their shapes before a call that failed, and allocate if they were."""
    changed = {index: shape for index, shape in shapes.items() if host.shape_of(index) != shape}
    for index, shape in changed.items():
        host.resize_tensor_input(index, shape)
    if changed and is_allocated:
        host.allocate_tensors()


def _require_targets(graph: Graph, targets: Mapping[int, Array]) -> None:
    """Raise TypeError or ValueError for arrays that cannot take these outputs, whatever shapes."""
    for index, array in targets.items():
        tensor = graph.tensors[index]
        if not isinstance(array, np.ndarray):
            raise TypeError(
                f"expected a numpy array for output {index} {tensor.name!r}, found "
                f"{type(array).__name__}"
            )
        if array.dtype != tensor.type.array or not array.flags.writeable:
            state = "" if array.flags.writeable else ", read-only"
            raise ValueError(
                f"expected a writable array of {tensor.dtype} for output {index} {tensor.name!r}, "
                f"found {array.dtype}{state}"
            )
    for (one, first), (other, second) in combinations(targets.items(), 2):
        if np.may_share_memory(first, second):
            raise ValueError(
                f"expected arrays of their own for the outputs {one} and {other}, found two that "
                "overlap: one result would be lost"
            )


def _require_types(content: object, delegates: object, threads: object, member: object) -> None:
    if not isinstance(threads, int | None):
        raise ValueError(f"type of num_threads should be int, found {threads!r}")
    if threads is not None and threads < 1:
        raise ValueError(f"num_threads should >= 1, found {threads}")
    if isinstance(delegates, GpuDelegate):
        raise TypeError(
            "expected a list of one delegate, found a GpuDelegate: write "
            "experimental_delegates=[delegate]"
        )
    if not isinstance(content, bytes | bytearray | memoryview | None):
        raise TypeError(
            f"model_content must be the bytes of a .tflite file, not a {type(content).__name__}; a "
            "path is given as model_path"
        )
    if not isinstance(member, str | None):
        raise TypeError(f"member must be the name of a model, not a {type(member).__name__}")


def _resolver_name(resolver: enum.Enum | None) -> str:
    """The name of a member of LiteRT's OpResolverType; LiteRT may be missing."""
    name = getattr(resolver, "name", None) or "AUTO"
    if name not in OP_RESOLVERS or not isinstance(resolver, enum.Enum | None):
        raise ValueError(
            f"Unrecognized passed in op resolver type: {resolver}: expected a member of LiteRT's "
            f"OpResolverType, one of {', '.join(OP_RESOLVERS)}"
        )
    return name


def unique_names(tensors: Sequence[tuple[int, str]]) -> dict[str | int, int]:
    """Indices by name, or by index for tensors without a unique name.

    Args:
        tensors: Pairs of index and name.
    """
    counts = Counter(name for _, name in set(tensors))
    return {name if name and counts[name] == 1 else index: index for index, name in tensors}
