"""The figures that tools/gpu-lab makes of what drivers say."""

import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

LAB = Path(__file__).parents[2] / "tools" / "gpu-lab"
lab: Any = SimpleNamespace(**runpy.run_path(str(LAB / "measure")))

V3D = (
    "MESA_SHADER_COMPUTE shader: 356 inst, 2 threads, 1 loops, 56 uniforms, 57 max-temps, "
    "3:9 spills:fills, 0 sfu-stalls, 360 inst-and-stalls, 22 nops"
)
MIDGARD = (
    "MESA_SHADER_COMPUTE shader: 324 inst, 166 bundles, 197 quadwords, 16 registers, 1 threads, "
    "1 loops, 14:39 spills:fills"
)
BIFROST = (
    "MESA_SHADER_COMPUTE shader: 620 inst, 476 tuples, 71 clauses, 22.000000 cycles, "
    "18.916666 arith, 3.000000 texture, 0.000000 vary, 22.000000 ldst, 383 quadwords, 1 threads, "
    "0 preloads, 1 loops, 0:0 spills:fills"
)
VALHALL = (
    "MESA_SHADER_COMPUTE shader: 486 inst, 25.500000 cycles, 1.906250 fma, 4.421875 cvt, "
    "3.500000 sfu, 0.000000 v, 2.000000 t, 25.500000 ls, 248 quadwords, 1 threads, 1 loops, "
    "0:0 spills:fills"
)
ADRENO = (
    "CL shader: 832 inst, 145 nops, 670 non-nops, 56 mov, 12 cov, 1320 dwords, 0 last-baryf, "
    "0 last-helper, 5 half, 24 full, 8 constlen, 156 cat0, 68 cat1, 329 cat2, 238 cat3, 2 cat4, "
    "0 cat5, 22 cat6, 0 cat7, 7 stp, 5 ldp, 0 sstall, 14 (ss), 88 systall, 2 (sy), 4 waves, "
    "1 loops, 0 preamble inst, 0 early-preamble\n"
)
INTEL = (
    "CS SIMD8 shader: 468 inst, 1 loops, 10386 cycles, 0:0 spills:fills, 19 sends, scheduled with "
    "mode top-down, Promoted 0 constants, compacted 7488 to 5824 bytes.\n"
)
AMD = (
    "Shader Stats: SGPRS: 80 VGPRS: 64 Code Size: 2804 LDS: 0 Scratch: 0 Max Waves: 4 Spilled "
    "SGPRs: 2 Spilled VGPRs: 3 PrivMem VGPRs: 0 LSOutputs: 0 HSOutputs: 0 InlineUniforms: 3 "
    "DivergentLoop: 0 (CS, W64)"
)
NVIDIA = "type: 5, local: 8, shared: 0, gpr: 57, inst: 463, bytes: 4944, cached: 10756"
NOISE = [
    "0:2(12): warning: extension `GL_EXT_texture_buffer' unsupported in compute shader",
    "SIMD16 shader failed to compile: SIMD16 CS compile failed: Failure to register allocate.",
]

QPU = [
    "add rf42, rf41, rf27          ; nop                         ; thrsw",
    "min.pushc -, 3, rf44          ; add.ifa tmuau, rf0, rf43 (0xfffffffc / -nan)",
    "nop                           ; nop                         ; ldtmu.rf45",
    "nop                           ; mov rf50, rf46              ; ldtmu.rf47",
    *["nop                           ; nop                         ; thrsw"] * 3,
]
ALU = {"fma": 1.90625, "cvt": 4.421875, "sfu": 3.5}


def of_v3d(**counts: int) -> dict[str, float]:
    return {unit: count / 16 for unit, count in counts.items()}


def printed(messages: list[str], *code: str) -> dict[str, list[str]]:
    """A program as `compile` describes it."""
    return {"messages": messages, "code": [*code]}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (V3D, (356, 2, 3, 9, {**of_v3d(loads=1, words=2, waits=4 - 3), "issue": 360 / 16})),
        (MIDGARD, (324, 1, 14, 39, {"issue": 166, "loads": len(QPU)})),
        (BIFROST, (620, 1, 0, 0, {"arith": 18.916666, "vary": 0, "ldst": 22, "texture": 6})),
        (VALHALL, (486, 1, 0, 0, {**ALU, "v": 0, "ls": 25.5, "t": 4})),
        (ADRENO, (832, 4, 7, 5, {"issue": 13, "loads": 22 / 64})),
        (INTEL, (468, 8, 0, 0, {"issue": 468 / 8, "loads": 19 / 8})),
        (AMD, (701, 4, 5, 0, {"issue": 701 / 64, "loads": len(QPU) / 64})),
        (NVIDIA, (463, 32, 2, 0, {"issue": 463 / 32})),
    ],
)
def test_the_statistics_of_each_driver_are_read(message: str, expected: tuple[Any, ...]) -> None:
    after = ["Flushing everything due to: Launch grid post-barrier"]
    compiled = {"messages": [*NOISE, message, *after], "code": QPU}
    assert lab.statistics(compiled) == lab.Statistics(*expected)


def test_of_several_widths_the_last_counts() -> None:
    """An instruction of 16 lanes takes two clocks of an execution unit with 8, but for Xe2."""
    wider = {"messages": [INTEL, INTEL.replace("SIMD8", "SIMD16")], "code": []}
    assert lab.statistics(wider).threads == 16
    assert lab.statistics(wider).units["issue"] == 468 / 8
    assert lab.statistics(wider, "intel-lnl").units["issue"] == 468 / 16


def test_graphics_programs_do_not_count() -> None:
    others = [ADRENO.replace("CL", "VERT"), ADRENO.replace("CL", "FRAG"), INTEL.replace("CS", "FS")]
    others += [AMD.replace("CS", "PS"), NVIDIA.replace("type: 5", "type: 4")]
    assert lab.statistics(printed([VALHALL, *others])).instructions == 486


def test_a_driver_that_says_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected the driver's statistics"):
        lab.statistics(printed(NOISE))


@pytest.mark.parametrize(("twice", "body"), [(30, 8), (60, 12)])
def test_a_loop_counts_as_often_as_it_runs(twice: int, body: int) -> None:
    versions = [printed([BIFROST.replace("22.0", f"{cycles}.0")]) for cycles in (10, twice)]
    program = {
        "whole": printed([BIFROST]),
        "loops": [versions],
        "runs": [(1000, [4], 7, 500), (3000, [0], 8, 300)],
    }
    figures = lab.figures(program, "mali-g52")
    assert figures.loads == pytest.approx((1000 * (22 + 4 * body) + 3000 * 22) / 1e6)
    assert figures.issue == pytest.approx(4000 * 18.916666 / 1e6)
    assert figures.words == pytest.approx(4000 * 6 / 1e6)
    assert (figures.work, figures.bytes) == pytest.approx((15e-6, 800e-6))


CODE = [
    "bu.allnap  768, r:unif (0x00000028 / 0.000000)",
    "shl rf41, rf6, 4              ; add rf6, rf6, rf39",
    "fadd rf47, rf30, rf42         ; fmul rf34, rf55.l, rf43     ; ldtmu.rf59; ldunif (ssbo[1])",
    "bu.anyap  -40, r:unif (0x00000028 / 0.000000)",
    *["nop                           ; nop"] * 3,
    "b  -80, r:unif (0xffffffd4 / -nan)",
    *["nop                           ; nop"] * 3,
]

INTEL_CODE = [
    "mov(8)          g61<1>UD        g0.1<0,1,0>UD",
    "LABEL1:",
    "cmp.ge.f0.0(16) null<1>D        g77<8,8,1>D     g104.1<0,1,0>D",
    "(+f0.0) break(16) JIP:  LABEL0        UIP:  LABEL0",
    "send(16)        g1UD            g9UD            nullUD",
    "sync nop(1)                     null<0,1,0>UB",
    "mad(16)         g1<1>F          g1<8,8,1>F      g2<8,8,1>F",
    "LABEL0:",
    "while(16)       JIP:  LABEL1",
    "send(16)        nullUD          g126UD          nullUD",
]
ADRENO_CODE = [
    "mov.f32f32 r3.w, c5.x",
    "l264:",
    "br p0.y, #l432",
    "(sy)(rpt1)mad.f32 r0.x, r1.x, r2.x, r0.x",
    "(nop2) add.u r0.w, c4.w, 3",
    "isam (f32)(xyzw)r4.x, r5.x, s#0, t#1",
    "jump #l264",
    "l432:",
    "stib.b.untyped.1d.u32.1.imm r0.x, r1.x, 0",
]


def test_loops_of_intel_and_adreno_end_with_a_jump_back() -> None:
    (loop,) = lab.loops_in(INTEL_CODE)
    assert lab.of_intel(loop, 8) == {"issue": 5 / 8, "loads": 1 / 8}
    (loop,) = lab.loops_in(ADRENO_CODE)
    assert lab.of_adreno(loop) == {"issue": (5 + 1 + 2) / 64, "loads": 1 / 64}


def test_lookups_of_textures_count_on_v3d() -> None:
    code = ["mov tmua, rf1", "add tmus, rf2, rf3", "nop ; mov tmud, rf4", "mov tmuau, rf1"]
    assert lab.of_v3d(code)["loads"] == 3 / 16


def test_loops_of_v3d_are_counted_in_its_code() -> None:
    first, second = lab.loops_in(CODE)
    assert [len(first), len(second)] == [10, 5]
    without = V3D.replace("360 inst", "200 inst")
    loop = [printed([without]), printed([V3D.replace("360 inst", "900 inst")])]
    dropped = [printed([V3D]), printed([V3D])]
    program = {
        "whole": printed([V3D], *CODE),
        "loops": [loop, dropped, loop],
        "runs": [(1000, [4, 9, 7], 1, 1)],
    }
    figures = lab.figures(program, "v3d-7.1")
    assert figures.issue == pytest.approx(1000 * (360 + 4 * 10 + 7 * 5) / 16 / 1e6)
    assert figures.words == pytest.approx(1000 * (1 + 4 * 1 + 7 * 1) / 16 / 1e6)


COSTS = {"issue": 10.0, "loads": 5.0, "words": 0.0, "waits": 0.0, "bytes": 9.0, "work": 7.0}
ROW = lab.Figures(2, spilling=1, instructions=900, threads=2, spills=3, fills=9, **COSTS)
POINTWISE, POOL = ("v3d-7.1", "m", "conv_2d pointwise"), ("v3d-7.1", "m", "pool_2d")
TABLE = {POINTWISE: ROW, POOL: ROW}


@pytest.mark.parametrize(
    ("changes", "worse", "better"),
    [
        ({}, [], []),
        ({"fills": 10}, ["spills and fills 25, in the table 24"], []),
        ({"fills": 8}, [], ["spills and fills 23, in the table 24"]),
        ({"issue": 10.9}, [], []),  # the sum counts: 20.9 for 20
        ({"issue": 11.1}, ["issue 21.1, in the table 20"], []),
        ({"issue": 9.0}, [], ["issue 19, in the table 20"]),
        ({"loads": 6.0}, ["loads 11, in the table 10"], []),
        ({"bytes": 11.0}, ["bytes 20, in the table 18"], []),
    ],
)
def test_more_spills_or_5_percent_more_costs_are_worse(
    changes: dict[str, float], worse: list[str], better: list[str]
) -> None:
    actual = lab.compare(TABLE, {**TABLE, POOL: replace(ROW, **changes)})
    assert actual == (
        {f"v3d-7.1, m: {line}": [POOL] for line in worse},
        [f"v3d-7.1, m: {line}" for line in better],
    )


def test_a_model_that_is_not_in_the_table_is_an_error() -> None:
    assert list(lab.compare({}, TABLE)[0]) == ["v3d-7.1, m: not in the table"]


def test_the_page_shows_the_table() -> None:
    table = lab.read()
    assert lab.page(table) == lab.PAGE.read_text("utf-8"), "make docs"
