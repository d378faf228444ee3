"""The command ``gles-delegate``."""

from __future__ import annotations

import csv as csv_module
import dataclasses
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gles_delegate import benchmark as timing
from gles_delegate import compare as comparison
from gles_delegate.compatibility import CompatibilityList
from gles_delegate.delegate import GpuDelegate
from gles_delegate.errors import ContextError, DelegateError
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.egl import list_devices
from gles_delegate.gl.libegl import libegl
from gles_delegate.graph import Array, Graph, Tensor
from gles_delegate.interpreter import Interpreter
from gles_delegate.limits import Limits
from gles_delegate.litert_check import require_known_layout
from gles_delegate.metadata import normalization
from gles_delegate.model import read_file, read_model
from gles_delegate.options import GpuDelegateOptions, InferencePreference
from gles_delegate.partition import choose_segments, lower_graph
from gles_delegate.plan import make_plan
from gles_delegate.report import DispatchTime
from gles_delegate.version import __version__

try:
    import click
    from PIL import Image
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table
except ImportError as _error:
    print(
        f"gles-delegate: {_error.name} is not installed: pip install 'gles_delegate[cli]'",
        file=sys.stderr,
    )
    sys.exit(2)

F = TypeVar("F", bound=Callable[..., Any])

_OVERRIDES = {
    "EGL_PLATFORM",
    "GLES_DELEGATE_EGL",
    "LIBGL_ALWAYS_SOFTWARE",
    "MESA_EXTENSION_OVERRIDE",
    "MESA_GLES_VERSION_OVERRIDE",
    "MESA_GL_VERSION_OVERRIDE",
    "MESA_LOADER_DRIVER_OVERRIDE",
}
"""Environment variables that can take OpenGL ES 3.1 away."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
cache_option = click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Keep packed weights and compiled shaders in FOLDER for the next start.",
)
device_option = click.option(
    "--device", type=click.IntRange(0), help="A device that doctor lists; default: the best."
)
model_argument = click.argument("model", type=click.Path(path_type=Path))
input_option = click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="[NAME=]FILE",
    help="An array (.npy) or a picture for an input, by its name or index, once for each input.",
)
mean_option = click.option("--mean", type=float)
std_option = click.option(
    "--std",
    type=click.FloatRange(0, min_open=True),
    help="A float input gets (pixel - mean) / std of a picture's pixels of 0 to 255; default: "
    "what the model's metadata says, or else 127.5 for both.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Run TensorFlow Lite models on the GPU, and see what runs there and why."""


def command(function: F) -> F:
    """A command whose errors of ours end in a sentence."""

    @wraps(function)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            function(*arguments, **options)
        except BrokenPipeError:  # the reader has seen enough: click's affair
            raise
        except (DelegateError, ValueError, OSError) as error:
            print(f"gles-delegate: {error}", file=sys.stderr)
            sys.exit(1)

    return main.command()(run)  # type: ignore[return-value]


def _print_json(data: Any) -> None:
    """Print it as JSON, which has no NaN and no infinity: they become null."""

    def finite(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: finite(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [finite(item) for item in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    print(json.dumps(finite(data), allow_nan=False))


@command
@device_option
@json_option
def doctor(device: int | None, as_json: bool) -> None:
    """Tell what of this machine the delegate can use, and what to do where something is missing."""
    found: dict[str, Any] = {"version": __version__, "egl": None, "devices": [], "device": None}
    found |= {"limits": None, "checks": []}
    advice: list[str] = []
    try:
        found["egl"] = libegl().name
        found["devices"] = [dataclasses.asdict(d) for d in list_devices()]
        tested = CompatibilityList(device)
        found["healthy"], found["reason"] = not tested.reason, tested.reason
        found["checks"] = [{**dataclasses.asdict(c), "passed": c.passed} for c in tested.checks]
        if tested.limits is not None:
            names = ("vendor", "renderer", "version")
            found["device"] = {name: getattr(tested, name) for name in names}
            found["limits"] = dataclasses.asdict(tested.limits)
            if "OpenGL ES" not in tested.version:
                advice.append(
                    f"There is no OpenGL ES 3.1 here; {tested.version!r} serves in its place."
                )
    except ContextError as error:
        found["healthy"], found["reason"] = False, str(error)
    if advice or not found["healthy"]:
        guilty = sorted(_OVERRIDES.intersection(os.environ))
        advice += [f"{name}={os.environ[name]} is set: try without it." for name in guilty]
    found["litert"], litert_advice = _litert()
    found["advice"] = [*advice, *litert_advice]
    if as_json:
        _print_json(found)
    else:
        _print_doctor(found)
    sys.exit(not found["healthy"])


def _litert() -> tuple[str | None, list[str]]:
    """The installed version of LiteRT, and what to do about it."""
    try:
        version = metadata.version("ai-edge-litert")
        require_known_layout()
    except metadata.PackageNotFoundError:
        return None, [
            "LiteRT is not installed: models of which the GPU does not take every node need it "
            "(pip install 'gles_delegate[litert]')."
        ]
    except DelegateError as error:
        return version, [f"{error}."]
    return version, []


def _print_doctor(found: dict[str, Any]) -> None:
    table = Table("", "", show_header=False, box=None, pad_edge=False)
    table.add_row("gles_delegate", found["version"])
    table.add_row("EGL", found["egl"] or "not found")
    for device in found["devices"]:
        kind = "software" if device["software"] else "hardware"
        text = f"{device['renderer']}, {device['version']} ({kind}, EGL {device['platform']})"
        table.add_row(f"device {device['index']}", text)
    if found["limits"]:
        table.add_row("in use", found["device"]["renderer"])
        for name, value in found["limits"].items():
            table.add_row(f"  {name}", str(value))
    for check in found["checks"]:
        verdict = "passed" if check["passed"] else "FAILED"
        detail = check["failure"] or f"off by {check['error']:.0e}, allowed {check['allowed']:.0e}"
        table.add_row(f"{check['name']}", f"{verdict}, {detail}")
    table.add_row("LiteRT", found["litert"] or "not installed")
    _console().print(table)
    for sentence in found["advice"]:
        print(sentence)
    print("The delegate works here." if found["healthy"] else f"Not usable: {found['reason']}")


@command
@model_argument
@click.option("--device", type=click.IntRange(0), help="Plan for a device that doctor lists.")
@click.option(
    "--partitions",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Segments that may run on the GPU.",
)
@click.option("--dispatches", is_flag=True, help="List what the GPU runs, one dispatch a line.")
@json_option
def inspect(
    model: Path, device: int | None, partitions: int, dispatches: bool, as_json: bool
) -> None:
    """Show what of MODEL runs on the GPU, what does not and why, and what memory it takes.

    Needs no GPU: without --device it plans for the limits that every OpenGL ES 3.1 has.
    """
    graph = read_model(read_file(model))
    limits, planned_for = Limits(), "any device with OpenGL ES 3.1"
    if device is not None:
        gpu = GpuContext(None, device)
        gpu.release()
        limits, planned_for = gpu.limits, gpu.renderer
    lowered = lower_graph(graph, limits)
    partition = choose_segments(lowered, partitions)
    report = partition.report(graph)
    segments: list[dict[str, Any]] = []
    for segment in partition.segments:
        plan = make_plan(lowered, segment, limits)
        segments.append(
            {
                "nodes": list(segment),
                "dispatches": [str(dispatch) for dispatch in plan.dispatches],
                "activation_bytes": sum(plan.buffers),
                "widest_bytes": plan.widest,
                "constant_bytes": sum(constant.nbytes for constant in plan.constants),
            }
        )
    if as_json:
        data = {"report": dataclasses.asdict(report), "planned_for": planned_for}
        _print_json({**data, "segments": segments})
        return
    print(f"{report}, planned for {planned_for}")
    for number, part in enumerate(segments):
        print(
            f"segment {number}: {len(part['nodes'])} nodes in {len(part['dispatches'])} "
            f"dispatches, {_megabytes(part['activation_bytes'])} of activations, of which "
            f"{_megabytes(part['widest_bytes'])} live at once, "
            f"{_megabytes(part['constant_bytes'])} of weights"
        )
        if dispatches:
            print(*(f"  {line}" for line in part["dispatches"]), sep="\n")


@command
@model_argument
@input_option
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="[NAME=]FILE",
    help="Where an output goes: an array (.npy) or, of bytes or numbers of 0 to 1, a picture.",
)
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for all other outputs, as INDEX_NAME.npy.",
)
@mean_option
@std_option
@cache_option
@device_option
@json_option
def run(
    model: Path,
    inputs: Sequence[str],
    outputs: Sequence[str],
    output_dir: Path | None,
    mean: float | None,
    std: float | None,
    cache: Path | None,
    device: int | None,
    as_json: bool,
) -> None:
    """Run MODEL once on arrays or pictures."""
    graph = read_model(content := read_file(model))
    feeds = _feeds(graph, inputs, mean, std)
    targets = _by_tensor(graph, graph.outputs, outputs, "output")
    if output_dir is not None:
        output_dir.mkdir(parents=True, exist_ok=True)
        for index in graph.outputs:
            name = re.sub(r"[^\w.-]+", "_", graph.tensors[index].name)
            targets.setdefault(index, output_dir / f"{index}_{name}.npy")
    results: list[dict[str, Any]] = []
    options = GpuDelegateOptions(device_index=device, serialization_dir=cache)
    with GpuDelegate(options) as delegate:
        interpreter = Interpreter(model_content=content, experimental_delegates=[delegate])
        with _naming_new_shapes(graph, feeds):
            comparison.prepare(interpreter, feeds)
        interpreter.invoke()
        for index in graph.outputs:
            array, tensor = interpreter.get_tensor(index), graph.tensors[index]
            if index in targets:
                _save(targets[index], array, tensor)
            results.append(
                {
                    "index": index,
                    "name": tensor.name,
                    "dtype": tensor.dtype,
                    "shape": list(array.shape),
                    "minimum": float(array.min()) if array.size else None,
                    "maximum": float(array.max()) if array.size else None,
                    "argmax": int(np.argmax(array)) if array.size else None,
                    "file": str(targets[index]) if index in targets else None,
                }
            )
    if as_json:
        _print_json({"outputs": results})
    else:
        _print_table(results)


@command
@model_argument
@input_option
@mean_option
@std_option
@click.option("--seed", default=0, show_default=True, help="Of the inputs, if none are given.")
@click.option("--per-op", is_flag=True, help="Each node by itself, on LiteRT's tensors.")
@click.option("--tolerance", type=float, help="Of scale; default 1e-4, with --per-op 1e-5.")
@click.option("--steps", default=1, show_default=True, help="Allowed in 8-bit tensors.")
@device_option
@json_option
def compare(
    model: Path,
    inputs: Sequence[str],
    mean: float | None,
    std: float | None,
    seed: int,
    per_op: bool,
    tolerance: float | None,
    steps: int,
    device: int | None,
    as_json: bool,
) -> None:
    """Compare the GPU's results for MODEL with those of LiteRT's CPU kernels.

    Ends with status 1 if a tensor differs by more than is allowed, and names the first.
    """
    content = read_file(model)
    graph = read_model(content)
    feeds = _feeds(graph, inputs, mean, std) if inputs else comparison.random_feeds(content, seed)
    how = comparison.compare_nodes if per_op else comparison.compare_outputs
    limit = tolerance if tolerance is not None else 1e-5 if per_op else 1e-4
    options = GpuDelegateOptions(device_index=device)
    with _naming_new_shapes(graph, feeds), _progress() as bar:
        tensors = how(content, feeds, options, limit, steps)
        differences = list(bar.track(tensors, description=model.name))
    failed = [d for d in differences if not d.passed]
    rows = [{**dataclasses.asdict(d), "passed": d.passed} for d in differences]
    if as_json:
        _print_json({"tensors": rows, "passed": not failed})
    else:
        columns = ("node", "op", "tensor", "name", "dtype", "error", "scale", "same_maximum")
        _print_table([{k: row[k] for k in (*columns, "passed")} for row in rows])
        if failed:
            first = failed[0]
            print(
                f"{len(failed)} of {len(rows)} tensors differ, the first is tensor {first.tensor} "
                f"{first.name!r} of node {first.node} {first.op}: off by {first.error:.2g}, "
                f"allowed {first.allowed * first.scale:.2g}"
            )
        else:
            print(f"all {len(rows)} tensors agree")
    sys.exit(bool(failed))


@command
@model_argument
@input_option
@mean_option
@std_option
@click.option("--runs", default=50, show_default=True)
@click.option("--warmup", default=5, show_default=True, help="Runs before those that count.")
@click.option(
    "--against",
    default="",
    metavar="PEER,...",
    help=f"Measure these as well, in turns, and print ratios: {', '.join(timing.PEERS)}.",
)
@click.option("--threads", default=2, show_default=True, help="Of the peers' CPU kernels.")
@click.option("--profile", is_flag=True, help="Measure each dispatch by itself as well.")
@click.option("--csv", type=click.Path(path_type=Path), help="Write the profile to this file.")
@click.option(
    "--picture", type=click.Path(path_type=Path), help="Draw the time of each node to this file."
)
@click.option("--half", is_flag=True, help="Allow loss of precision: float16 storage.")
@click.option(
    "--sustained-speed",
    is_flag=True,
    help="Measure tiles first, and take the fastest of each kernel.",
)
@click.option(
    "--vector-bits",
    type=click.Choice(["128", "256", "512"]),
    help="The width of llvmpipe's vectors; default: Mesa's choice, at most 256.",
)
@cache_option
@device_option
@json_option
def benchmark(
    model: Path,
    inputs: Sequence[str],
    mean: float | None,
    std: float | None,
    runs: int,
    warmup: int,
    against: str,
    threads: int,
    profile: bool,
    csv: Path | None,
    picture: Path | None,
    half: bool,
    sustained_speed: bool,
    vector_bits: str | None,
    cache: Path | None,
    device: int | None,
    as_json: bool,
) -> None:
    """Measure how fast MODEL runs, from arrays to arrays."""
    content = read_file(model)
    graph = read_model(content)
    feeds = _feeds(graph, inputs, mean, std) if inputs else comparison.random_feeds(content)
    options = GpuDelegateOptions(
        device_index=device,
        precision_loss_allowed=half or None,
        inference_preference=InferencePreference(sustained_speed),
        software_vector_bits=int(vector_bits) if vector_bits else None,
        serialization_dir=cache,
    )
    peers = [name for name in against.split(",") if name]
    profiles = 10 if profile or csv or picture else 0
    with _progress() as bar:
        task = bar.add_task(model.name, total=None)
        result = timing.benchmark(
            content, feeds, options, runs, warmup, peers, threads, profiles,
            lambda done, total: bar.update(task, completed=done, total=total),
        )  # fmt: skip
    if csv:
        _write_csv(csv, result.dispatches)
    if picture:
        _draw(picture, model.name, result.dispatches)
    if as_json:
        _print_json(_as_data(result))
    else:
        _print_benchmark(result, profile)


def _as_data(result: timing.Benchmark) -> dict[str, Any]:
    data = dataclasses.asdict(result)
    data["runs"] = result.runs.summary()
    data["peers"] = {
        name: {**times.summary(), "ratio": result.ratio(name)}
        for name, times in result.peers.items()
    }
    data["dispatches"] = [
        {**dataclasses.asdict(dispatch), "gflops": dispatch.gflops}
        for dispatch in result.dispatches
    ]
    return data


def _print_benchmark(result: timing.Benchmark, profile: bool) -> None:
    print(f"{result.device}: {result.report}")
    rows = [{"": "gles_delegate", **result.runs.summary(), "ours / its": ""}]
    for name, times in result.peers.items():
        rows.append({"": name, **times.summary(), "ours / its": f"{result.ratio(name):.2f}"})
    _print_table(rows)
    print(
        f"milliseconds. Start {result.init * 1e3:.0f} ms, first run {result.first * 1e3:.0f} ms; "
        f"the CPU's part of a run {result.cpu * 1e3:.3f} ms; activations "
        f"{_megabytes(result.activation_bytes)}, weights {_megabytes(result.constant_bytes)}, "
        f"process at most {_megabytes(result.peak_bytes)}"
    )
    if profile:
        total = sum(dispatch.seconds for dispatch in result.dispatches)
        _print_table(
            [
                {
                    "node": dispatch.node if dispatch.node >= 0 else "",
                    "op": dispatch.op,
                    "ms": f"{dispatch.seconds * 1e3:.3f}",
                    "%": f"{dispatch.seconds / total * 100:.1f}",
                    "GFLOP/s": f"{dispatch.gflops:.1f}" if dispatch.flops else "",
                    "dispatch": dispatch.text,
                }
                for dispatch in result.dispatches
            ]
        )
        print(f"{len(result.dispatches)} dispatches, {total * 1e3:.3f} ms one by one")


def _write_csv(path: Path, dispatches: Sequence[DispatchTime]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv_module.writer(file)
        writer.writerow(("node", "op", "shader", "seconds", "flops", "dispatch"))
        for d in dispatches:
            writer.writerow((d.node, d.op, d.shader, d.seconds, d.flops, d.text))


def _draw(path: Path, title: str, dispatches: Sequence[DispatchTime]) -> None:
    """A bar for each node, as long as its dispatches take, and coloured by its op."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError(
            "matplotlib, for --picture, is not installed: pip install 'gles_delegate[cli]'"
        ) from None
    nodes: dict[tuple[int, str], float] = {}
    totals: dict[str, float] = {}
    for dispatch in dispatches:
        op, milliseconds = dispatch.op or "layout", dispatch.seconds * 1e3
        nodes[dispatch.node, op] = nodes.get((dispatch.node, op), 0) + milliseconds
        totals[op] = totals.get(op, 0) + milliseconds
    figure = Figure(figsize=(8, max(2, 0.18 * len(nodes) + 1)), layout="constrained")
    axes = figure.add_subplot()
    for op in sorted(totals, key=lambda op: -totals[op]):
        rows = [(i, t) for i, ((_, other), t) in enumerate(nodes.items()) if other == op]
        axes.barh(*zip(*rows, strict=True), label=f"{op}: {totals[op]:.2f} ms")
    names = [str(node) if node >= 0 else "" for node, _ in nodes]
    axes.set_yticks(range(len(nodes)), names, fontsize=6)
    axes.invert_yaxis()
    axes.set(xlabel="ms", ylabel="node", title=title)
    axes.margins(y=0.01)
    figure.legend(loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=120)


def _feeds(
    graph: Graph, inputs: Iterable[str], mean: float | None, std: float | None
) -> dict[int, Array]:
    """An array for each input, from the files of ``--input``."""
    files = _by_tensor(graph, graph.inputs, inputs, "input")
    missing = [graph.tensors[index] for index in graph.inputs if index not in files]
    if missing:
        described = "; ".join(map(_described, missing))
        raise ValueError(f"give --input NAME=FILE for each input; missing: {described}")
    return {i: _load(path, graph, i, mean, std) for i, path in files.items()}


@contextmanager
def _naming_new_shapes(graph: Graph, feeds: Mapping[int, Array]) -> Iterator[None]:
    """Have an error say which inputs are not of the model's own shape, as it may be the reason."""
    try:
        yield
    except DelegateError as error:
        others = [
            f"{_described(graph.tensors[index])}, found {list(array.shape)}"
            for index, array in feeds.items()
            if array.shape != graph.tensors[index].shape
        ]
        if not others:
            raise
        raise ValueError(f"expected {'; '.join(others)}; with that shape, {error}") from error


def _by_tensor(
    graph: Graph, tensors: Sequence[int], arguments: Iterable[str], what: str
) -> dict[int, Path]:
    """Files by tensor index, from ``NAME=FILE``, ``INDEX=FILE`` or, of one tensor, ``FILE``."""
    names = {graph.tensors[i].name: i for i in tensors} | {str(i): i for i in tensors}
    files: dict[int, Path] = {}
    for argument in arguments:
        name = max((n for n in names if argument.startswith(f"{n}=")), key=len, default=None)
        if name is not None:
            index, file = names[name], argument[len(name) + 1 :]
        elif len(tensors) == 1 and "=" not in argument:
            index, file = tensors[0], argument
        else:
            described = "; ".join(_described(graph.tensors[i]) for i in tensors)
            raise ValueError(
                f"expected --{what} NAME=FILE, found {argument!r}; the model's {what}s are "
                + described
            )
        if index in files:
            raise ValueError(f"{what} {index} is given twice: {files[index]} and {file}")
        files[index] = Path(file)
    return files


def _described(tensor: Tensor) -> str:
    return f"{tensor.name!r} (index {tensor.index}), {tensor.dtype} {list(tensor.shape)}"


def _load(path: Path, graph: Graph, index: int, mean: float | None, std: float | None) -> Array:
    """An array from a file, checked against the input that it is for."""
    tensor = graph.tensors[index]
    if path.suffix == ".npy":
        array = _load_array(path)
        if array.dtype.name != tensor.dtype or array.ndim != len(tensor.shape):
            raise ValueError(
                f"expected an array for {_described(tensor)}, found {array.dtype} "
                f"{list(array.shape)} in {path}"
            )
        return array.astype(tensor.dtype)  # of this machine's byte order
    mode = _picture_mode(tensor.shape)
    if mode is None:
        raise ValueError(
            f"a picture suits an input {_PICTURES}; give {path} as .npy for {_described(tensor)}"
        )
    height, width = tensor.shape[1:3]
    try:
        with Image.open(path) as picture:
            pixels = picture.convert(mode).resize((width, height), Image.Resampling.BILINEAR)
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"cannot read the picture {path}: {error}") from error
    array = np.asarray(pixels).reshape(tensor.shape)
    if tensor.dtype == "uint8":
        return array
    means, stds = normalization(graph, index, mean, std)
    real = (array.astype(np.float32) - means) / stds
    if not tensor.is_quantized:
        return real.astype(tensor.dtype)
    scale, zero = tensor.quantization.pair
    bounds = np.iinfo(tensor.dtype)
    return (np.round(real / scale) + zero).clip(bounds.min, bounds.max).astype(tensor.dtype)


def _load_array(path: Path) -> Array:
    with path.open("rb") as file:
        try:
            array: Array = np.lib.format.read_array(file, allow_pickle=False)
        except ValueError as error:
            raise ValueError(f"cannot read the array {path}: {error}") from error
    return array


_PICTURES = "[1, height, width] or [1, height, width, 1, 3 or 4]"


def _picture_mode(shape: Sequence[int]) -> str | None:
    """Pillow's mode of a picture for a tensor of this shape; None if it cannot be one."""
    if len(shape) not in (3, 4) or shape[0] != 1:
        return None
    return {1: "L", 3: "RGB", 4: "RGBA"}.get(shape[3] if len(shape) == 4 else 1)


def _save(path: Path, array: Array, tensor: Tensor) -> None:
    """Write an output; as a picture, uint8 as it is and real numbers of 0 to 1."""
    if path.suffix == ".npy":
        np.save(path, array)
        return
    scales = tensor.quantization.scales
    mode = _picture_mode(array.shape)
    if mode is None or not (array.dtype == np.uint8 or array.dtype.kind in "fb" or scales):
        raise ValueError(
            f"cannot make the picture {path} of {_described(tensor)}: expected {_PICTURES} of "
            "bytes, or of numbers of 0 to 1; name a .npy file"
        )
    if array.dtype != np.uint8:
        zero = (*tensor.quantization.zero_points, 0)[0]
        real = (array.astype(np.float32) - zero) * scales[0] if scales else array
        array = (np.nan_to_num(real).clip(0, 1) * 255).round().astype(np.uint8)
    height, width = array.shape[1:3]
    sizes = (height, width) if mode == "L" else (height, width, len(mode))
    Image.fromarray(array.reshape(sizes)).save(path)


def _progress() -> Progress:
    """A bar on standard error, where that is a terminal."""
    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not console.is_terminal)


def _print_table(rows: Sequence[dict[str, Any]]) -> None:
    table = Table(*(rows[0] if rows else ()), box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()))
    _console().print(table)


def _console() -> Console:
    """As wide as the terminal; whole lines where the output goes into a file."""
    console = Console(highlight=False, markup=False)
    return console if console.is_terminal else Console(width=300, highlight=False, markup=False)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.2f} MB"
