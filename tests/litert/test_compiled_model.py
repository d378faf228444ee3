"""LiteRT 2's CompiledModel with our accelerator."""

import ctypes
import gc
import platform
import re
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.gl.mesa import processor_has
from gles_delegate.hosts import environment as environments
from gles_delegate.litert import accelerator
from gles_delegate.litert.elf import data_library
from tests.support.oracle import run_gles, run_litert
from tests.support.process import run_python
from tests.support.sketch import Sketch
from tests.support.small import with_a_detour
from tests.support.tflite_builder import ModelBuilder

if metadata.version("ai-edge-litert") < "2.2":
    pytest.skip("LiteRT 2.1 does not accept this kind of accelerator", allow_module_level=True)
compiled_model = pytest.importorskip("ai_edge_litert.compiled_model")
from ai_edge_litert.hardware_accelerator import HardwareAccelerator  # noqa: E402

Arrays = Sequence[NDArray[Any]]
GPU, CPU = HardwareAccelerator.GPU, HardwareAccelerator.CPU


@pytest.fixture
def environment() -> Iterator[Any]:
    with gd.litert_environment() as environment:
        yield environment


def compiled(environment: Any, content: bytes, hardware: Any = GPU) -> Any:
    return compiled_model.CompiledModel.from_buffer(
        content, hardware_accel=hardware, environment=environment
    )


def run(model: Any, feeds: Arrays, signature: int = 0) -> list[NDArray[Any]]:
    key = list(model.get_signature_list())[signature]
    details = model.get_output_tensor_details(key).values()
    inputs, outputs = model.create_input_buffers(signature), model.create_output_buffers(signature)
    for buffer, feed in zip(inputs, feeds, strict=True):
        buffer.write(feed)
    model.run_by_index(signature, inputs, outputs)
    return [
        buffer.read(int(np.prod(detail["shape"])), np.dtype(detail["dtype"])).reshape(
            detail["shape"]
        )
        for buffer, detail in zip(outputs, details, strict=True)
    ]


def layers(seed: int = 0, op: str = "TANH") -> tuple[bytes, Arrays]:
    s = Sketch(np.random.default_rng(seed))
    x = s.feed((2, 5))
    weights = [s.constant(s.normal((6, 5))), s.constant(s.normal((6,)))]
    y = s.op("FULLY_CONNECTED", [x, *weights], [(2, 6)])
    return s.build([s.op(op, [y], [(2, 6)])]), s.feeds


def check(model: Any, content: bytes, feeds: Arrays) -> None:
    for actual, expected in zip(run(model, feeds), run_litert(content, feeds), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)


def test_a_model_from_memory(environment: Any) -> None:
    content, feeds = layers()
    model = compiled(environment, content)
    assert model.is_fully_accelerated()
    assert environment.delegates[0].report.fully_delegated
    check(model, content, feeds)


def test_a_model_from_a_file(environment: Any, tmp_path: Path) -> None:
    content, feeds = layers()
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    model = compiled_model.CompiledModel.from_file(
        str(path), hardware_accel=GPU, environment=environment
    )
    check(model, content, feeds)


def test_a_model_without_constants(environment: Any) -> None:
    s = Sketch(np.random.default_rng(0))
    content = s.build([s.op("NEG", [s.op("ABS", [s.feed((3, 5))], [(3, 5)])], [(3, 5)])])
    check(compiled(environment, content), content, s.feeds)


def test_several_models_in_one_environment(environment: Any) -> None:
    made = [layers(seed) for seed in range(3)]
    models = [compiled(environment, content) for content, _ in made]
    for _ in range(2):
        for model, (content, feeds) in zip(models, made, strict=True):
            check(model, content, feeds)
    assert len(environment.delegates) == 3
    del model, models[1]
    gc.collect()
    assert len(environment.delegates) == 2
    check(models[1], *made[2])


def test_two_environments_have_options_of_their_own() -> None:
    content, feeds = layers()
    options = gd.GpuDelegateOptions(last_delegate_node_index=0)
    with gd.litert_environment(options) as one, gd.litert_environment() as other:
        part, whole = compiled(one, content, GPU | CPU), compiled(other, content, GPU | CPU)
        assert not one.delegates[0].report.fully_delegated
        assert other.delegates[0].report.fully_delegated
        check(part, content, feeds)
        check(whole, content, feeds)


def test_nodes_on_the_cpu(environment: Any, caplog: pytest.LogCaptureFixture) -> None:
    s, content = with_a_detour()
    model = compiled(environment, content, GPU | CPU)
    assert not model.is_fully_accelerated()
    assert "node 2 CAST" in caplog.text
    check(model, content, s.feeds)


def test_eight_bits(environment: Any, real_model: Any) -> None:
    content = real_model("mobilenet_v1_0.25_128_quant")
    model = compiled(environment, content)
    feeds = [np.random.default_rng(0).integers(0, 255, (1, 128, 128, 3)).astype(np.uint8)]
    (actual,), (expected,) = run(model, feeds), run_gles(content, feeds)
    np.testing.assert_array_equal(actual, expected)


def test_resized_inputs(environment: Any) -> None:
    content, _ = layers()
    model = compiled(environment, content)
    for rows in (4, 1, 2):
        model.resize_input_tensor(0, (rows, 5), strict=False)
        feeds = [np.random.default_rng(rows).standard_normal((rows, 5)).astype(np.float32)]
        inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
        inputs[0].write(feeds[0])
        model.run_by_index(0, inputs, outputs)
        actual = outputs[0].read(rows * 6, np.float32)
        with gd.GpuDelegate() as delegate:
            interpreter = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
            interpreter.resize_tensor_input(0, (rows, 5))
            interpreter.allocate_tensors()
            (expected,) = interpreter.run({"tensor_0": feeds[0]}).values()
        np.testing.assert_allclose(actual, expected.reshape(-1), rtol=0, atol=1e-6)


def signatures() -> bytes:
    """`plus` adds one to x, and `times` doubles it."""

    def body(op: str, constant: float) -> Any:
        def build(b: ModelBuilder) -> list[int]:
            x, by = b.input((2, 3), name="x"), b.constant(np.float32(constant))
            return [b.op("ABS", [b.op(op, [x, by], [(2, 3)])], [(2, 3)])]

        return build

    b = ModelBuilder()
    b.subgraph(body("MUL", 2))
    (y,) = body("ADD", 1)(b)
    named: Mapping[str, Any] = {"plus": ({"x": 0}, {"y": y}, 0), "times": ({"x": 0}, {"y": y}, 1)}
    return b.build([y], signatures=named)


def test_signatures_of_two_subgraphs(environment: Any) -> None:
    model = compiled(environment, signatures())
    assert list(model.get_signature_list()) == ["plus", "times"]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for index, expected in ((0, x + 1), (1, 2 * x), (0, x + 1)):
        np.testing.assert_array_equal(run(model, [x], index)[0], expected)


@pytest.mark.parametrize(
    "name", ["group_norm_2_groups_op", "multi_subgraphs_while", "multi_signature_model"]
)
def test_the_gpu_alone_runs_nodes_with_subgraphs(
    name: str, environment: Any, real_model: Any
) -> None:
    """LiteRT counts the nodes of subgraphs whose place others have taken; so does it here."""
    content = real_model(f"litert/{name}")
    model = compiled(environment, content)
    assert model.is_fully_accelerated()
    rng = np.random.default_rng(0)
    key = next(iter(model.get_signature_list()))
    feeds = [
        rng.random(detail["shape"]).astype(detail["dtype"])
        for detail in model.get_input_tensor_details(key).values()
    ]
    on_cpu = compiled_model.CompiledModel.from_buffer(content)
    for actual, expected in zip(run(model, feeds), run(on_cpu, feeds), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)


def test_compiled_run_and_released_by_different_threads(environment: Any) -> None:
    content, feeds = layers()
    models: list[Any] = []

    def in_thread(function: Any) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(function).result()

    in_thread(lambda: models.append(compiled(environment, content)))
    in_thread(lambda: check(models[0], content, feeds))
    check(models[0], content, feeds)
    in_thread(models.clear)
    gc.collect()
    assert not environment.delegates


def test_a_model_outlives_its_environment() -> None:
    content, feeds = layers()
    with gd.litert_environment() as environment:
        model = compiled(environment, content)
    delegates = environment.delegates
    del environment
    gc.collect()
    check(model, content, feeds)
    del model
    gc.collect()
    assert not delegates


def test_a_failure_of_the_delegate_has_its_reason() -> None:
    options = gd.GpuDelegateOptions(require_full_delegation=True)
    with (
        pytest.raises(gd.LiteRtError, match="require_full_delegation") as caught,
        gd.litert_environment(options) as environment,
    ):
        compiled(environment, with_a_detour()[1], GPU | CPU)
    assert isinstance(caught.value.__cause__, gd.UnsupportedModelError)
    assert not environment.delegates


def test_what_ends_a_program_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl+C while LiteRT waits for the accelerator is no error of LiteRT."""

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gles_delegate.hosts.environment._Compiled", interrupted)
    with pytest.raises(KeyboardInterrupt), gd.litert_environment() as environment:
        compiled(environment, layers()[0])


def test_litert_s_own_error_passes_where_the_gpu_alone_lacks_nodes() -> None:
    with pytest.raises(RuntimeError, match="ERROR") as caught, gd.litert_environment() as e:
        compiled(e, with_a_detour()[1])
    assert not isinstance(caught.value, gd.LiteRtError)
    assert not e.delegates


def test_inputs_and_outputs_in_gpu_buffers() -> None:
    """`delegate.bind_*` works beside CompiledModel, on buffers of a context to share with."""
    moderngl = pytest.importorskip("moderngl")
    content, feeds = layers()
    expected = run_gles(content, feeds)[0]
    with gd.EglContext() as context:
        app = moderngl.create_context(context=context, require=310)
        given, result = app.buffer(feeds[0].tobytes()), app.buffer(reserve=expected.nbytes)
        app.finish()
        with gd.litert_environment(share=context) as environment:
            model = compiled(environment, content)
            (delegate,) = environment.delegates
            graph = model.get_input_tensor_details(next(iter(model.get_signature_list())))
            (x,) = (detail["index"] for detail in graph.values())
            delegate.bind_buffer_to_tensor(x, given.glo)
            delegate.bind_buffer_to_tensor(delegate.bound.first.graph.outputs[0], result.glo)
            (read,) = run(model, [np.zeros_like(feeds[0])])
            del model
        gc.collect()
        actual = np.frombuffer(result.read(), np.float32).reshape(expected.shape)
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(read, expected)


@pytest.mark.parametrize("wanted", ["old", "new", "unknown machine"])
def test_what_is_not_known_is_refused(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environments.require_accelerator.cache_clear()
    try:
        if wanted == "unknown machine":
            monkeypatch.setattr("platform.machine", lambda: "riscv64")
            match = "found riscv64"
        elif wanted == "old":
            monkeypatch.setattr("importlib.metadata.version", lambda name: "2.1.0")
            match = "does not accept a GPU accelerator: install 2.2"
        else:
            monkeypatch.setattr("importlib.metadata.version", lambda name: "2.9.0")
            failed = subprocess.CompletedProcess([], 1, "the reason", "much else")
            monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
            monkeypatch.setattr(environments, "require_known_layout", lambda: None)
            match = r"does not run the accelerator .*\(the reason\)"
        with pytest.raises(gd.LiteRtError, match=match), gd.litert_environment():
            pass
    finally:
        environments.require_accelerator.cache_clear()


def test_a_newer_version_is_tried_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    environments.require_accelerator.cache_clear()
    monkeypatch.setattr(environments, "TESTED", ("2.1", "2.2"))
    monkeypatch.setattr("importlib.metadata.version", lambda name: "2.3.0")
    try:
        with gd.litert_environment() as environment:
            content, feeds = layers()
            check(compiled(environment, content), content, feeds)
    finally:
        environments.require_accelerator.cache_clear()


def test_a_library_of_data_alone() -> None:
    content = data_library(platform.machine(), "Some", 200)
    assert content[:4] == b"\x7fELF"
    assert len(content) < 1000
    (alignment,) = struct.unpack_from("<Q", content, 64 + 48)  # of its first segment
    assert alignment == 64 << 10


@pytest.mark.parametrize(
    ("status", "machine", "features", "reason"),
    [
        (-4, "aarch64", "fp asimd crc32", r"lacks ARMv8.1.s atomic instructions .* use Int"),
        (-4, "aarch64", "fp asimd atomics", "lacks an instruction that LiteRT was built with"),
        (-4, "x86_64", "sse2", "lacks an instruction that LiteRT was built with"),
        (-11, "x86_64", "sse2", "it ended with SIGSEGV"),
        (3, "x86_64", "sse2", "it ended with status 3"),
    ],
)
def test_why_the_trial_ended(
    status: int, machine: str, features: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = subprocess.CompletedProcess([], status, "", "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(Path, "read_text", lambda _: f"Features : {features}")
    assert re.search(reason, environments.tried_apart())


SCRIPT = """
import sys, threading
import gles_delegate as gd
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.hardware_accelerator import HardwareAccelerator
from tests.litert.test_compiled_model import layers

def compile_and_run(environment, hardware=HardwareAccelerator.GPU):
    model = CompiledModel.from_buffer(
        layers()[0], hardware_accel=hardware, environment=environment)
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    model.run_by_index(0, inputs, outputs)
    return model

"""


def run_apart(script: str) -> None:
    """Run a script after `SCRIPT`, in a process that may crash or hang, to "ran" and status 0."""
    done = run_python(SCRIPT + script)
    assert done.stdout.strip() == "ran", done.stderr
    assert done.returncode == 0, done.stderr


def test_a_process_ends_with_a_model_alive() -> None:
    """At the end of a process, LiteRT releases what is left after Python's threads stopped."""
    run_apart("""
with gd.litert_environment() as environment:
    model = compile_and_run(environment)
print("ran")
""")


def test_the_webgpu_library_of_litert_is_not_loaded() -> None:
    """It kills the process on processors before ARMv8.1."""
    run_apart("""
with gd.litert_environment() as environment:
    compile_and_run(environment)
assert "/ai_edge_litert/libLiteRtWebGpuAccelerator.so" not in open("/proc/self/maps").read()
print("ran")
""")


def test_litert_gets_the_name_without_the_gil() -> None:
    """It asks under a mutex for which another thread's run waits with the GIL."""
    definition = accelerator.Accelerator(lambda _: pytest.fail("no model"))._definition
    libc, thread = ctypes.PyDLL(None), ctypes.c_ulong()  # PyDLL's functions keep the GIL
    libc.pthread_create(ctypes.byref(thread), None, definition.get_name, None)
    assert libc.pthread_timedjoin_np(thread, None, (ctypes.c_long * 2)(int(time.time()) + 5)) == 0


def test_a_folder_that_litert_does_not_read(tmp_path: Path) -> None:
    own = accelerator.Accelerator(lambda _: pytest.fail("no model"))
    assert not accelerator.was_taken(own.install(tmp_path))


@pytest.mark.parametrize(
    "way",
    [
        "compile_and_run(shared)",
        pytest.param(
            "compile_and_run(None, HardwareAccelerator.CPU) if number else compile_and_run(shared)",
            marks=pytest.mark.skipif(
                platform.machine() == "aarch64" and not processor_has("atomics"),
                reason="LiteRT's own environment needs ARMv8.1",
            ),
        ),
        "with gd.litert_environment() as own: compile_and_run(own)",
    ],
    ids=["one environment", "one thread on the CPU", "an environment each"],
)
def test_threads_compile_at_the_same_time(way: str) -> None:
    run_apart(f"""
def work(number):
    for _ in range(5):
        {way}

sys.setswitchinterval(1e-6)
with gd.litert_environment() as shared:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("ran")
""")
