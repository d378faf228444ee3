"""Shader texts: one for equal work, complete, and traceable to the files."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import gles_delegate as gd
from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import LLVMPIPE, UNKNOWN, Profile
from gles_delegate.kernels import convolution
from gles_delegate.model.reader import read_model
from gles_delegate.ops.lib.grid import WORK_GROUP
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.planning.plan import make_plan
from gles_delegate.shaders.assembly import DESKTOP_HEADER, ES_HEADER, assemble
from gles_delegate.shaders.dispatch import Call, Dispatch
from gles_delegate.shaders.files import read_body, unrolled
from tests.op_table.graphs import GRAPHS
from tests.unit.test_fusion import POOL, Net
from tests.unit.test_plan import ROOMY, plan_of, sketched

LIMITS = Limits()
GLSL = Path(gd.__file__).parent / "glsl"


@pytest.fixture
def conv() -> Dispatch:
    net = Net()
    (dispatch,) = net.plan(net.conv()).dispatches
    return dispatch


def test_equal_work_has_equal_text() -> None:
    net = Net()
    y = net.x
    for _ in range(3):
        y = net.op("MAX_POOL_2D", [net.conv(y)], padding="SAME", **POOL)
    dispatches = net.plan(y).dispatches
    assert len(dispatches) == 6
    assert len({assemble(dispatch, LIMITS).text for dispatch in dispatches}) == 2


def test_other_work_has_another_text(conv: Dispatch) -> None:
    text = assemble(conv, LIMITS).text
    assert assemble(replace(conv, defines={**conv.defines, "PIXELS": 3}), LIMITS).text != text
    assert assemble(replace(conv, grid=replace(conv.grid, slice_lanes=3)), LIMITS).text != text
    assert assemble(conv, ROOMY).text != text


def test_other_sizes_are_the_same_program(conv: Dispatch) -> None:
    deeper = replace(conv, sizes={**conv.sizes, "IN_SLICES": 7})
    larger = replace(conv, output=replace(conv.output, shape=(1, 6, 9, 8)))
    actual = [assemble(dispatch, LIMITS) for dispatch in (conv, deeper, larger)]
    assert len({source.text for source in actual}) == 1
    assert len({source.sizes for source in actual}) == 3
    odd = replace(conv, output=replace(conv.output, shape=(1, 6, 9, 7)))
    assert assemble(odd, LIMITS).text != actual[0].text


@pytest.mark.parametrize("name", GRAPHS)
def test_every_define_is_used(name: str) -> None:
    for limits in (LIMITS, ROOMY):
        for dispatch in plan_of(sketched(name), limits).dispatches:
            assert assemble(dispatch, limits).image_reads == (limits is ROOMY)


@pytest.mark.parametrize(
    ("half_products", "half", "size", "precision"),
    [
        (True, True, 1, "mediump"),
        (False, True, 1, "highp"),
        (True, False, 1, "highp"),
        (True, True, 3, "highp"),
    ],
)
def test_products_of_half_tensors_have_medium_precision(
    half_products: bool, half: bool, size: int, precision: str
) -> None:
    net = Net()
    limits = replace(LIMITS, profile=Profile(half_products=half_products))
    lowered = lower_graph(read_model(net.build([net.conv(size=size)])), limits)
    convs = [
        assemble(dispatch, limits).text
        for dispatch in make_plan(lowered, lowered.steps, limits, half).dispatches
        if dispatch.shader == "conv_2d"
    ]
    assert len(convs) == 1
    assert f"#define PRODUCT_PRECISION {precision}\n" in convs[0]


def test_a_define_that_no_code_uses_is_an_error(conv: Dispatch) -> None:
    with pytest.raises(ValueError, match=r"conv_2d\.glsl.*'TYPO'"):
        assemble(replace(conv, defines={**conv.defines, "TYPO": 1}), LIMITS)


def test_a_define_that_only_a_comment_names_is_an_error(conv: Dispatch) -> None:
    with pytest.raises(ValueError, match="'PHWC4'"):
        assemble(replace(conv, defines={**conv.defines, "PHWC4": 1}), LIMITS)


@cache
def examples(name: str) -> set[str]:
    """The macros that a shader file declares with an example for tools."""
    actual, depth = set(), 0
    for line in Path(GLSL, name).read_text().splitlines():
        if depth or line == "#ifndef ASSEMBLED":
            depth += line.startswith("#if") - line.startswith("#endif")
            actual |= set(re.findall(r"^#(?:define|undef) (\w+)", line))
    return actual


@cache
def declared(name: str) -> set[str]:
    """The macros that it or a file that it includes declares so."""
    includes = re.findall(r'^#include "(.+)"', Path(GLSL, name).read_text(), re.MULTILINE)
    return examples(name).union(*map(declared, includes))


@pytest.mark.parametrize("name", GRAPHS)
def test_every_define_is_declared_with_an_example(name: str) -> None:
    for limits in (LIMITS, ROOMY):
        for dispatch in plan_of(sketched(name), limits).dispatches:
            source = assemble(dispatch, limits)
            count = [file for file, _ in source.lines].count("defines")
            defines = "\n".join(source.text.splitlines()[:count])
            given = set(re.findall(r"^#define (\w+)", defines, re.MULTILINE))
            assert given <= declared(f"{dispatch.shader}.glsl")


@pytest.mark.parametrize("name", sorted(file.name for file in GLSL.glob("*.glsl")))
def test_every_example_is_of_a_macro_in_use(name: str) -> None:
    assert declared(name) - examples("lib/defaults.glsl") <= read_body(name).words


def test_what_serves_tools_is_left_out(conv: Dispatch) -> None:
    """Nothing takes the place of a define that a dispatch lacks."""
    text = assemble(replace(conv, defines={}), LIMITS).text
    assert text.count("#version") == text.startswith("#version") == 1
    assert "include" not in text
    assert "ASSEMBLED" not in text
    for define in conv.defines:
        assert f"#define {define} " not in text


def test_functions_that_nothing_calls_are_left_out(conv: Dispatch) -> None:
    plain = assemble(replace(conv, epilogue=()), LIMITS).text
    gelu = assemble(replace(conv, epilogue=(Call("GELU"),)), LIMITS).text
    assert "vec4 GELU(" not in plain
    assert "vec4 erfc_of(" not in plain
    assert "vec4 GELU(" in gelu
    assert "vec4 erfc_of(" in gelu
    assert plain.count("\n") == gelu.count("\n")


def test_sizes_are_uniforms_as_far_as_they_can_be_divided(
    conv: Dispatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invocations beyond the output divide, too, up to a work group of them."""
    last = conv.grid.pixels + WORK_GROUP
    assert last > conv.output.pixels
    for limit in (last, last + 1):
        monkeypatch.setattr(convolution, "MAX_DIVIDED", limit)
        net = Net()
        (again,) = net.plan(net.conv()).dispatches
        assert ("IN_SLICES" in again.sizes) == (limit > last)


def test_every_function_is_called() -> None:
    """Those of lib/elementwise.glsl have the names of ops, by which lowerings call them."""
    bodies = [read_body(file.relative_to(GLSL).as_posix()) for file in GLSL.rglob("*.glsl")]
    called = set().union(*(names - {name} for body in bodies for name, _, names in body.pieces))
    functions = {name for body in bodies for name, _, _ in body.pieces if name}
    of_ops = {name for name, _, _ in read_body("lib/elementwise.glsl").pieces}
    assert functions - of_ops - {"main"} <= called


@pytest.mark.parametrize("name", sorted(file.name for file in GLSL.glob("*.glsl")))
def test_the_pieces_of_a_file_are_whole_functions(name: str) -> None:
    body = read_body(name)
    assert "".join(text for _, text, _ in body.pieces) == body.text
    for function, text, _ in body.pieces:
        if function:
            assert text.endswith("}")
            assert text.count("#if") == text.count("#endif")


def test_an_apps_functions_all_stay(tmp_path: Path) -> None:
    """It may have two of them on one line."""
    file = tmp_path / "own.glsl"
    code = (
        "vec4 a(vec4 x) { return x; } vec4 b(vec4 x) { return x; }\nvoid main() { b(vec4(0)); }\n"
    )
    file.write_text(code)
    assert read_body(str(file)).called_by("") == code


def test_every_line_is_known_by_file_and_number(conv: Dispatch) -> None:
    source = assemble(conv, LIMITS)
    lines = source.text.splitlines()
    assert len(lines) == len(source.lines)
    assert {file for file, _ in source.lines} >= {"defines", "conv_2d.glsl", "lib/tensor.glsl"}
    main = next(i for i, line in enumerate(lines) if line.startswith("void main()"))
    assert source.lines[main][0] == "conv_2d.glsl"
    defines = [number for file, number in source.lines if file == "defines"]
    assert defines == [*range(1, len(defines) + 1)]


@pytest.mark.parametrize(
    "form", ["0:{}(7): error: 'X' undeclared", "ERROR: 0:{}: 'X' undeclared", "0({}) : error C0: X"]
)
def test_each_drivers_log_is_explained(conv: Dispatch, form: str) -> None:
    """Mesa's form, ANGLE's and ARM's, and NVIDIA's."""
    source = assemble(conv, LIMITS)
    at = next(i for i, line in enumerate(source.text.splitlines(), 1) if "void main" in line)
    file, number = source.lines[at - 1]
    explained = source.explain(form.format(at) + "\nand a remark")
    assert f"{file}:{number}" in explained
    assert f"> {number:4} void main() {{" in explained
    assert explained.endswith("and a remark")


def test_a_log_that_names_no_line_of_ours_stays_as_it_is(conv: Dispatch) -> None:
    source = assemble(conv, LIMITS)
    for log in ("internal error", "0:99999(1): error", "0:0(1): error", ""):
        assert source.explain(log) == log


def test_the_header_is_the_contexts(conv: Dispatch) -> None:
    assert assemble(conv, LIMITS).text.startswith(ES_HEADER)
    assert assemble(conv, LIMITS, DESKTOP_HEADER).text.startswith("#version 430\n")


def test_sizes_are_uniforms_where_a_device_allows_it() -> None:
    graph = sketched("pointwise_of_two_sizes_twice_each")
    dispatches = [d for d in plan_of(graph).dispatches if d.sizes]
    shared = {assemble(d, LIMITS).text for d in dispatches}
    assert len(shared) < len({assemble(d, LIMITS).sizes for d in dispatches})
    for dispatch in dispatches:
        source = assemble(dispatch, replace(LIMITS, size_uniforms=False))
        assert "uniform int size_uniforms" not in source.text
        assert source.sizes == ()


@pytest.mark.parametrize("loops", [False, True])
def test_rows_of_a_depthwise_window_are_a_loop_where_registers_are_few(loops: bool) -> None:
    dispatch = depthwise(Profile(row_loops=loops))
    assert ("KERNEL_H" in dispatch.sizes) == loops
    assert dispatch.defines["KERNEL_W"] == 3


def test_a_wide_depthwise_window_goes_tap_by_tap() -> None:
    assert not depthwise(Profile(columns=3)).defines["BY_TAPS"]
    dispatch = depthwise(Profile(columns=2))
    assert dispatch.defines["BY_TAPS"]
    assert dispatch.sizes["KERNEL_H"] == dispatch.sizes["KERNEL_W"] == 3


def depthwise(profile: Profile) -> Dispatch:
    net = Net()
    graph = read_model(net.build([net.depthwise()]))
    limits = Limits(profile=profile)
    lowered = lower_graph(graph, limits)
    return next(
        dispatch
        for dispatch in make_plan(lowered, lowered.steps, limits).dispatches
        if dispatch.shader == "depthwise_conv_2d"
    )


def test_windows_of_all_sizes_share_a_program_on_a_gpu() -> None:
    texts = set()
    for size in (2, 3, 5):
        net = Net()
        lowered = lower_graph(read_model(net.build([net.conv(size=size)])), Limits())
        plan = make_plan(lowered, lowered.steps, Limits())
        texts |= {assemble(d, Limits()).text for d in plan.dispatches if d.shader == "conv_2d"}
    assert len(texts) == 1


@pytest.mark.parametrize("llvmpipe", [False, True], ids=["gpu", "llvmpipe"])
def test_loops_over_a_tile_are_unrolled(conv: Dispatch, llvmpipe: bool) -> None:
    limits = replace(LIMITS, profile=LLVMPIPE if llvmpipe else UNKNOWN)
    plain = assemble(conv, limits)
    assert "p < PIXELS" not in plain.text
    assert "k < IN_SLICES" in plain.text
    assert len(plain.lines) == len(plain.text.splitlines())
    large = replace(conv, defines={**conv.defines, "PIXELS": 26, "SLICES": 4})
    assert ("p < PIXELS" in assemble(large, limits).text) == (not llvmpipe)


def test_llvmpipe_never_unrolls_the_loop_over_inputs(conv: Dispatch) -> None:
    limits = replace(LIMITS, profile=LLVMPIPE, size_uniforms=False)
    assert "k < IN_SLICES" in assemble(conv, limits).text


@pytest.mark.parametrize("llvmpipe", [False, True], ids=["gpu", "llvmpipe"])
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("for (int i = 0; i < N; ++i) a[i] += i_0 * i;",
         "{ { a[0] += i_0 * 0; } { a[1] += i_0 * 1; } }"),
        ("for (int i = 0; i < 1; ++i) f(i);", "{ { f(0); } }"),
        ("for (int s = 1; s < THREE; ++s) v.s += w.ts[s];",
         "{ { v.s += w.ts[1]; } { v.s += w.ts[2]; } }"),
        ("for (int i = 0; i < ONE; ++i) {\n  f(i);\n}\ng();",
         "{ { { f(0); } } }\n\n\ng();"),
        ("for (int i = 0; i < ONE; ++i)\n  if (i < 2) { f(i); g(i); }\nh();",
         "{ { if (0 < 2) { f(0); g(0); } } }\n\nh();"),
        ("for (int i = 0; i < N; ++i)\n#pragma unroll\nfor (int j = 0; j < ONE; ++j) f(i, j);",
         "{ { { { f(0, 0); } } } { { { f(1, 0); } } } }\n\n"),
    ],
)  # fmt: skip
def test_a_marked_loop_is_unrolled(code: str, expected: str, llvmpipe: bool) -> None:
    bounds = (("ONE", "1"), ("N", "2"), ("THREE", "3"))
    result = unrolled(f"#pragma unroll\n{code}", bounds, llvmpipe)
    assert result.replace(" ", "") == f"\n{expected}".replace(" ", "")
    assert unrolled(code, bounds, llvmpipe).startswith("for (int")


@pytest.mark.parametrize("llvmpipe", [False, True], ids=["gpu", "llvmpipe"])
@pytest.mark.parametrize(
    "loop",
    [
        "for (int i = 0; i < UNKNOWN; ++i) f(i);",
        "for (int i = 0; i < SIZE; ++i) f(i);",
        "for (int i = 0; i < N; ++i) if (f(i)) break;",
        "for (int i = 0; i < N; ++i) { if (f(i)) continue; g(i); }",
        "for (int i = 0; i < N; ++i) {\n#if A\n f(i);\n#endif\n}",
    ],
)
def test_a_marked_loop_that_stays(loop: str, llvmpipe: bool) -> None:
    bounds = (("N", "2"), ("SIZE", "sizes[0]"))
    assert unrolled(f"#pragma unroll\n{loop}", bounds, llvmpipe) == f"\n{loop}"


def test_long_loops_are_unrolled_on_llvmpipe_only() -> None:
    loop = "#pragma unroll\nfor (int i = 0; i < N; ++i) f(i);"
    assert "for" in unrolled(loop, (("N", "5000"),), False)
    assert "for" not in unrolled(loop, (("N", "5000"),), True)


def test_loops_marked_for_gpus_stay_on_llvmpipe() -> None:
    loop = "#pragma unroll(gpu)\nfor (int i = 0; i < N; ++i) f(i);"
    assert unrolled(loop, (("N", "2"),), False) == "\n{ { f(0); } { f(1); } }"
    assert unrolled(loop, (("N", "2"),), True) == "\nfor (int i = 0; i < N; ++i) f(i);"


@pytest.mark.parametrize(
    "loop", ["for (int i = 0; i < 2 * N; ++i) f(i);", "for (int i = N; i > 0; --i) f(i);", "f();"]
)
def test_a_mark_before_anything_else_is_an_error(conv: Dispatch, tmp_path: Path, loop: str) -> None:
    Path(tmp_path, "own.glsl").write_text(f"void main() {{\n#pragma unroll\n  {loop}\n}}\n")
    with pytest.raises(ValueError, match=r"own\.glsl.*#pragma unroll"):
        assemble(replace(conv, shader=str(tmp_path / "own")), LIMITS)


def test_a_graph_of_random_numbers_makes_finite_literals() -> None:
    text = "".join(
        assemble(d, LIMITS).text for name in GRAPHS for d in plan_of(sketched(name)).dispatches
    )
    words = set(text.replace("(", " ").replace(")", " ").replace(",", " ").split())
    assert not words & {"nan", "inf", "-inf", "None", "True", "False"}
