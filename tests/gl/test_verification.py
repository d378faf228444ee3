"""A device is compared with LiteRT's stored results, and its wrong ops run on the CPU."""

import json
import re
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.cli import report, verify
from gles_delegate.device import profiles
from gles_delegate.device.limits import Limits
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.pool import ObjectPool
from gles_delegate.model.reader import read_model
from gles_delegate.verification import verdict
from gles_delegate.verification.cases import VerificationCase, load_cases
from gles_delegate.verification.check import CaseResult, every_form, forms_of, verified
from tests.gl.test_delegate import desktop_app, es_app, stir
from tests.support import sampling
from tests.support.command import call, call_json
from tests.support.example import EXAMPLES
from tests.support.force import TILED, force_profile
from tests.support.lies import (
    RSQRT_INPUT,
    RSQRT_RESULT,
    WRONG_RSQRT,
    ending_early,
    loops_of,
    lying_driver,
    rsqrt_model,
    watched_driver,
)
from tests.support.lowered import lowered_dispatches
from tests.support.process import run_python
from tests.support.sampling import choose, drawn
from tests.support.state import State

CASES = load_cases()
NAMES = [case.name for case in CASES]
NAMES = choose("verified", NAMES, drawn(NAMES, len(NAMES) // 12))
QUICK = {
    op: [case for case in cases if case.quick]
    for op, cases in groupby(CASES, key=lambda case: case.op)
    if op != "GRAPH"
}
FEW = ("ADD", "CONV_2D", "FULLY_CONNECTED", "RSQRT", "SOFTMAX", "(lstm)")
"""Ops whose kernels bind every kind of object: buffers, buffer textures of constants, images."""
ONE_PASS = {
    # An index is one number.
    **dict.fromkeys(("EMBEDDING_LOOKUP", "GATHER", "SLICE", "TOPK_V2"), "DEPTH"),
    "STABLEHLO_GATHER": "DEPTH PER_LANE lane",
    "STRIDED_SLICE": "DEPTH PER_LANE",
    # Few boxes of one class.
    **dict.fromkeys(
        ("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "TFLite_Detection_PostProcess"),
        "CLASSES LARGEST_OF BLOCKS blocks",
    ),
    **dict.fromkeys(("REDUCE_ALL", "REDUCE_MIN"), "REDUCED"),  # along channels alone
    **dict.fromkeys(("RNN", "(gru)", "(lstm)"), "REDUCTION_LANES"),  # a lane for each slice
    **dict.fromkeys(("GREATER_EQUAL", "ZEROS_LIKE"), "lane"),  # zeros give the same
}
"""Words of loops that take one pass in the quick cases of an op, or whose results do not count."""
CONVERSIONS = "pack_integers.glsl", "unpack_integers.glsl"
"""Shaders for integers that enter and leave, of which an op runs a part."""


@pytest.fixture(autouse=True)
def unknown_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "_found", {})


@pytest.fixture
def few_cases(monkeypatch: pytest.MonkeyPatch) -> list[VerificationCase]:
    """Verification has the quick cases of a few ops alone; the command finds them, too."""
    few = [case for op in FEW for case in QUICK[op]]
    for module in (verdict, verify):
        monkeypatch.setattr(module, "load_cases", lambda quick=False: few)
    return few


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The storage of each verification that runs."""
    storages: list[str] = []

    def counted(gpu: GpuContext, cases: Any, forms: Any) -> Iterator[Any]:
        storages.extend({form.storage for form in forms})
        return verified(gpu, [case for case in cases if case.op in ("RSQRT", "ADD")], forms)

    monkeypatch.setattr(verdict, "verified", counted)
    return storages


def has_tiles(case: VerificationCase) -> bool:
    """Whether a kernel of the case depends on the profile."""
    return any(d.shader in TILED for d in lowered_dispatches(read_model(case.model), Limits()))


def words(text: str) -> set[str]:
    return {*re.findall(r"\w+", text)}


def start(folder: Path | None, **options: Any) -> tuple[gd.DelegationReport, Any]:
    chosen = gd.GpuDelegateOptions(
        serialization_dir=folder, max_delegated_partitions=2, verify=True, **options
    )
    with gd.GpuDelegate(chosen) as delegate:
        interpreter = gd.Interpreter(model_content=rsqrt_model(), experimental_delegates=[delegate])
        (result,) = interpreter.run({0: RSQRT_INPUT}).values()
        return delegate.report, result


@pytest.mark.parametrize(("number", "name"), [*enumerate(["", *profiles.NAMED])])
def test_every_form_of_every_profile_is_right(
    number: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All cases with the device's own profile; with each other one a sixth of those whose kernels
    have tiles, and an eighteenth of the rest. A sample has a quarter in each.
    """
    if name:
        force_profile(monkeypatch, profiles.NAMED[name])
    gpu = GpuContext()
    try:
        with gpu.guard():
            chosen = [case for case in CASES if case.name in NAMES]
            if not sampling.everything:
                chosen = chosen[number % 4 :: 4]
            elif name:
                tiled = [case for case in chosen if has_tiles(case)]
                others = [case for case in chosen if not has_tiles(case)]
                chosen = [*tiled[number % 6 :: 6], *others[number::18]]
            results = [*verified(gpu, chosen, every_form(gpu.limits))]
    finally:
        gpu.release()
    assert len(results) >= len(chosen)
    assert [result for result in results if not result.passed] == []


def test_nothing_of_a_case_is_left_in_the_context(egl: gd.EglContext) -> None:
    gpu = GpuContext(egl)
    case = next(case for case in CASES if case.op == "CONV_2D")
    with gpu.guard():
        results = [*verified(gpu, [case], [*every_form(gpu.limits)][:1])]
    assert all(result.passed for result in results)
    assert not ObjectPool.of(egl)._entries
    gpu.release()


@pytest.mark.parametrize("name", ["UNKNOWN", "INTEL"])
def test_every_case_is_right_in_float16(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With constants of float16, and of float32. A sample has a quarter."""
    force_profile(monkeypatch, profiles.NAMED[name])
    gpu = GpuContext()
    try:
        with gpu.guard():
            forms = [form for form in every_form(gpu.limits) if form.half and not form.choice]
            cases = CASES if sampling.everything else drawn(CASES, len(CASES) // 4)
            wrong = [result for result in verified(gpu, cases, forms) if not result.passed]
    finally:
        gpu.release()
    assert len(forms) == 1
    assert wrong == []


@pytest.mark.parametrize("op", QUICK)
def test_loops_that_end_early_show(op: str, gpu: GpuContext) -> None:
    """The quick cases of each op show whether a loop of a shader ends after its first pass."""
    forms = forms_of(gpu.limits, half=False, tuned=False)

    def run(cases: list[VerificationCase]) -> list[CaseResult]:
        return [*verified(gpu, cases, forms)]

    with gpu.guard():
        with watched_driver() as sources:
            run(QUICK[op])
        loops = {
            (source.name, loop)
            for source in sources
            if source.name not in CONVERSIONS
            for loop in loops_of(source)
        }
        hidden = []
        for name, loop in sorted(loops):
            with lying_driver(loop, "#error", name=name):  # parts that #if leaves out
                cases = [case for case in QUICK[op] if run([case])[0].failure]
            with lying_driver(loop, ending_early(loop), name=name):
                if cases and all(run([case])[0].passed for case in cases):
                    hidden.append(loop)
    shown_by_none = [loop for loop in hidden if not words(ONE_PASS.get(op, "")) & words(loop)]
    assert not shown_by_none


def test_the_command_finds_nothing_wrong_here() -> None:
    state = call_json("verify", "--quick")
    assert state["wrong"] == []
    assert state["runs"] >= state["cases"] > 150
    assert {row["op"] for row in state["ops"]} >= {"CONV_2D", "RSQRT", "TransformLandmarks"}
    assert all(row["right"] == row["runs"] for row in state["ops"])


def test_the_command_needs_no_litert() -> None:
    code = (
        "import sys\n"
        "sys.modules['ai_edge_litert'] = None\n"
        "sys.argv[1:] = ['verify', '--quick', '--json']\n"
        "from gles_delegate.cli import main\n"
        "main()\n"
    )
    assert run_python(code).returncode == 0


@pytest.mark.usefixtures("few_cases")
def test_the_command_names_what_a_driver_computes_wrong() -> None:
    with lying_driver(*WRONG_RSQRT):
        output = call("verify", "--quick", status=1, errors_at="stdout")
        assert "WRONG: RSQRT" in output
        assert "(float32, choice 0): off by " in output
        lines = [line for line in output.splitlines() if line.startswith("WRONG: ")]
        assert all(line.startswith("WRONG: RSQRT") for line in lines)


def test_a_wrong_op_runs_on_the_cpu(
    tmp_path: Path, runs: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with lying_driver(*WRONG_RSQRT):
        for ending in ("RSQRT wrong by 3e-02", "RSQRT wrong by 3e-02"):
            caplog.clear()
            delegation, result = start(tmp_path)
            ((_, op, reason),) = delegation.not_delegated
            assert (op, reason) == ("RSQRT", f"the driver computes {ending}")
            assert reason in caplog.text
            np.testing.assert_allclose(result, RSQRT_RESULT, rtol=1e-5)
            verdict._found.clear()
    assert runs == ["float32"]  # the second start has the first one's verdict


def test_the_lie_is_believed_without_verification() -> None:
    with lying_driver(*WRONG_RSQRT), gd.GpuDelegate() as delegate:
        interpreter = gd.Interpreter(model_content=rsqrt_model(), experimental_delegates=[delegate])
        (result,) = interpreter.run({0: RSQRT_INPUT}).values()
    assert np.abs(result - RSQRT_RESULT).max() > 1e-3


def test_a_wrong_op_inside_litert(runs: list[str]) -> None:
    from tests.support.oracle import delegated_interpreter, run

    options = gd.GpuDelegateOptions(verify=True)
    with (
        lying_driver(*WRONG_RSQRT),
        delegated_interpreter(rsqrt_model(), options=options) as interpreter,
    ):
        (result,) = run(interpreter, [RSQRT_INPUT])
    np.testing.assert_allclose(result, RSQRT_RESULT, rtol=1e-5)


def test_an_honest_driver_runs_everything(tmp_path: Path, runs: list[str]) -> None:
    for _ in range(2):
        delegation, result = start(tmp_path)
        assert delegation.fully_delegated
        np.testing.assert_allclose(result, RSQRT_RESULT, rtol=1e-5)
    assert runs == ["float32"]
    assert len([*tmp_path.glob("verdict-*.gles")]) == 1


def test_a_process_verifies_once_without_a_folder(runs: list[str]) -> None:
    start(None)
    start(None)
    assert runs == ["float32"]


def test_what_the_driver_cannot_compile_runs_on_the_cpu(runs: list[str]) -> None:
    with lying_driver("vec4 RSQRT(vec4 x) { return inversesqrt(x); }", ""):
        delegation, result = start(None)
    ((_, op, reason),) = delegation.not_delegated
    assert op == "RSQRT"
    assert reason.startswith("the driver fails to run RSQRT: ")
    np.testing.assert_allclose(result, RSQRT_RESULT, rtol=1e-5)


def test_float16_has_another_verdict(
    tmp_path: Path, runs: list[str], monkeypatch: pytest.MonkeyPatch, floor: None
) -> None:
    force_profile(monkeypatch, profiles.UNKNOWN)
    with lying_driver(*WRONG_RSQRT, having=" uvec2\n"):
        delegation, _ = start(tmp_path)
        assert delegation.fully_delegated
        delegation, result = start(tmp_path, precision_loss_allowed=True)
    ((_, op, reason),) = delegation.not_delegated
    assert (op, reason.endswith(" with float16 storage")) == ("RSQRT", True)
    np.testing.assert_allclose(result, RSQRT_RESULT, rtol=2e-2)
    assert runs == ["float32", "float16"]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"RSQRT": 1}', b"1", b"[" * 100_000])
def test_a_forged_verdict_is_not_used(
    data: bytes, tmp_path: Path, runs: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    start(tmp_path)
    (path,) = tmp_path.glob("verdict-*.gles")
    name = path.stem.removeprefix("verdict-")
    store = verdict.Store(tmp_path, path.stem, name)
    store.add("float32", data)
    store.save()
    verdict._found.clear()
    delegation, _ = start(tmp_path)
    assert delegation.fully_delegated
    assert runs == ["float32", "float32"]
    assert "is not used: it contradicts itself" in caplog.text
    verdict._found.clear()
    caplog.clear()
    start(tmp_path)
    assert len(runs) == 2
    assert "is not used" not in caplog.text


@pytest.mark.usefixtures("few_cases")
def test_a_report_has_no_path_and_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, home = Path.home(), tmp_path / "home of jo"
    here = home / "secret project"
    here.mkdir(parents=True)
    for name, text in (("HOME", str(home)), ("LOGNAME", "jo_doe"), ("USER", "jo_doe")):
        monkeypatch.setenv(name, text)
    monkeypatch.chdir(here)

    def fail(*_: Any) -> None:
        raise gd.GLError(f"jo_doe has no {here}/libEGL.so")

    monkeypatch.setattr(report, "measured", fail)
    monkeypatch.setattr(report, "find_spec", lambda _: None)  # networks here alone
    output = call("report", "--quick")
    for name in (str(tmp_path), str(home), "jo_doe", "secret", sys.prefix, str(before)):
        assert name not in output
    state = json.loads(output)
    assert state["bench"] == {"error": "user has no libEGL.so"}
    assert state["verify"]["wrong"] == []
    assert state["device"]["renderer"]
    own = {path.name for path in (EXAMPLES / "models").glob("*.tflite")}
    assert set(state["networks"]) == own
    assert len(own) == 4
    for speed in state["networks"].values():
        assert speed["runs"]["p50"] > 0
        assert speed["starts"]["warm"] > 0
        assert speed["starts"]["cold"] > 0
        assert "agreement" not in speed
    assert state["texture_to_texture"]["seconds"] > 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mesa/X.org", "Mesa/X.org"),
        ("cannot load /usr/lib/x y/libEGL.so.1", "cannot load libEGL.so.1"),
        ("tried: device (/dev/dri/renderD128: no); GBM", "tried: device (renderD128: no); GBM"),
        ("'/a b/c d/e.so'", "'e.so'"),
        ("/home/jo_doe/x of jo_doe", "x of user"),
    ],
)
def test_paths_and_names_are_left_out(
    text: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "jo_doe")
    assert report._without_names({"a": [text]}) == {"a": [expected]}


@pytest.mark.mesa
@pytest.mark.usefixtures("few_cases")
@pytest.mark.parametrize("make_app", [es_app, desktop_app])
def test_the_app_s_state_is_untouched(make_app: Any) -> None:
    glcontext, ctx = make_app()
    with glcontext:
        state = State(glcontext.load)
        alive = stir(ctx, Functions(glcontext.load))
        before, objects = state.read(), state.objects()
        with gd.GpuDelegate(gd.GpuDelegateOptions(verify=True), context=ctx) as delegate:
            gd.Interpreter(model_content=rsqrt_model(), experimental_delegates=[delegate])
            assert delegate.report.fully_delegated
            now = state.objects()
            mark = now["Sampler"] - objects["Sampler"]  # by which the context is recognized
            assert (len(mark), state.read()) == (1, before)
            assert {**now, "Sampler": now["Sampler"] - mark} == objects
        assert state.objects() == objects
        assert alive
    ctx.release()


def test_a_lost_context_is_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any) -> Iterator[Any]:
        raise gd.ContextLostError("the driver reset the context")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(verdict, "verified", lost)
        with pytest.raises(gd.ContextLostError):
            start(tmp_path)
    assert not [*tmp_path.glob("*.gles")]
