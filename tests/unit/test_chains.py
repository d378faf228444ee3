"""Chains: which dispatches one work group computes in sequence, and their shader."""

import re
from dataclasses import replace
from itertools import pairwise
from math import ceil

import numpy as np
import pytest

from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import AMD, LLVMPIPE
from gles_delegate.planning.plan import Plan
from gles_delegate.shaders.dispatch import Const
from tests.support.sketch import Sketch
from tests.unit.test_plan import plan_of

LIMITS = Limits(
    6,
    5,
    invocations=1024,
    buffer_texels=1 << 27,
    profile=LLVMPIPE,
    chain_blocks=16,
    chain_images=32,
)
SMALL, LARGE = (1, 6, 6, 4), (1, 400, 400, 4)


class Pools(Sketch):
    """Pools, which are never fused."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))

    def pools(self, x: int, count: int) -> int:
        for _ in range(count):
            x = self.op("MAX_POOL_2D", [x], filter_width=2, filter_height=2, stride_w=1, stride_h=1)
        return x

    def conv(self, x: int) -> int:
        weights, bias = self.constant(self.normal((8, 3, 3, 4))), self.constant(self.normal((8,)))
        return self.op("CONV_2D", [x, weights, bias], stride_h=1, stride_w=1)

    def plan(self, *outputs: int, limits: Limits = LIMITS) -> Plan:
        return plan_of(self.build(list(outputs)), limits).chained(limits)


@pytest.fixture
def net() -> Pools:
    return Pools()


def lengths(plan: Plan) -> list[int]:
    assert sum(plan.groups, ()) == plan.dispatches
    return [len(group) for group in plan.groups]


def test_large_dispatches_are_apart(net: Pools) -> None:
    large = net.pools(net.feed(LARGE), 2)
    small = net.pools(net.feed(SMALL), 3)
    assert lengths(net.plan(small, large)) == [1, 1, 3]


def test_constants_that_are_no_buffer_texture_are_apart(net: Pools) -> None:
    result = net.conv(net.pools(net.feed(SMALL), 2))
    plan = net.plan(result, limits=replace(LIMITS, buffer_texels=75))
    assert [len(g) for g in plan.groups if any(d.shader == "conv_2d" for d in g)] == [1]


def test_a_function_reads_one_texel_of_a_constant(net: Pools) -> None:
    """No loop goes over all of them, as in a product with weights."""
    x = net.feed((1, 14, 14, 16))
    mask = net.constant(net.normal((1, 14, 14, 16)) > 0)
    minus = net.constant(np.float32(-1e9))
    masked = net.op("SELECT_V2", [mask, net.pools(x, 1), minus], [net.tensor((1, 14, 14, 16))])
    plan = net.plan(net.pools(masked, 1))
    assert "elementwise" in [dispatch.shader for dispatch in plan.dispatches]
    assert lengths(plan) == [len(plan.dispatches)]


def test_tiles_are_apart_in_a_larger_network(net: Pools) -> None:
    """They would be compiled once more."""
    large = net.pools(net.feed(LARGE), 1)
    small = net.pools(net.conv(net.pools(net.feed((1, 14, 14, 4)), 2)), 2)
    plan = net.plan(small, large)
    assert [len(group) for group in plan.groups if group[0].shader == "conv_2d"] == [1]
    assert max(lengths(plan)) > 1


@pytest.mark.parametrize(
    "limits",
    [
        replace(LIMITS, profile=AMD),
        replace(LIMITS, chain_blocks=0),
        replace(LIMITS, block_bytes=600),
    ],
)
def test_some_devices_have_none(net: Pools, limits: Limits) -> None:
    plan = net.plan(net.pools(net.feed(SMALL), 4), limits=limits)
    assert set(lengths(plan)) == {1}


@pytest.mark.parametrize("blocks", [2, 3, 4])
def test_the_device_limits_their_blocks(net: Pools, blocks: int) -> None:
    results = [net.pools(net.feed(SMALL), 2) for _ in range(4)]
    limits = replace(LIMITS, chain_blocks=blocks)
    plan = net.plan(*results, limits=limits)
    chains = [plan.chain(group) for group in plan.groups if len(group) > 1]
    assert 1 < len(plan.groups) < len(plan.dispatches)
    assert max(len(chain.blocks) for chain in chains) <= blocks


def test_the_device_limits_their_passes(net: Pools) -> None:
    result = net.pools(net.feed(SMALL), 6)
    whole = lengths(net.plan(result))
    assert len(lengths(net.plan(result, limits=replace(LIMITS, loop_passes=100)))) > len(whole)


def test_their_code_is_limited(net: Pools) -> None:
    assert len(net.plan(net.pools(net.feed(SMALL), 200)).groups) == ceil(200 / 64)


def test_every_tensor_is_found_where_it_lies(net: Pools) -> None:
    plan = net.plan(net.conv(net.pools(net.feed(SMALL), 4)))
    chain = plan.chain(plan.dispatches)
    for operand, place in chain.places.items():
        if isinstance(operand, Const):
            assert chain.images[place.number] == operand
        else:
            allocation = plan.allocations[operand]
            assert chain.blocks[place.number] == (allocation.buffer, operand.kind)
            assert place.offset * operand.texel_bytes == allocation.offset


def test_a_small_network_is_one_chain_whose_members_run_in_order(net: Pools) -> None:
    plan = net.plan(net.conv(net.pools(net.feed(SMALL), 4)))
    (source,) = plan.sources(LIMITS)
    calls = [int(n) for n in re.findall(r"^    main_(\d+)\(\);", source.text, re.MULTILINE)]
    assert calls == [*range(len(plan.dispatches))]
    ends = [source.text.index(f"main_{n}();") for n in calls]
    assert all("memoryBarrierBuffer();" in source.text[a:b] for a, b in pairwise(ends))


def test_every_line_is_known(net: Pools) -> None:
    (source,) = net.plan(net.conv(net.pools(net.feed(SMALL), 2))).sources(LIMITS)
    assert len(source.lines) == source.text.count("\n")
    number = source.text.split("\n").index("#define LIB_PRODUCT") + 1
    assert source.lines[number - 1][0] == "lib/product.glsl"
    assert "lib/product.glsl" in source.explain(f"0:{number}(1): error: a test")


def test_no_macro_of_a_member_is_left(net: Pools) -> None:
    (source,) = net.plan(net.conv(net.pools(net.feed(SMALL), 2))).sources(LIMITS)
    code = source.text.split("// ", 1)[0]
    members = code[code.index("int chain_pixel") : code.index("void main() {\n  for")]
    defined = set(re.findall(r"^#define (\w+)", members, re.MULTILINE))
    ended = set(re.findall(r"^#undef (\w+)", members, re.MULTILINE))
    shared = {"LIB_ELEMENTWISE", "BOUNDED", "BELOW", "BELOW_0", "INFINITY", "NOT_A_NUMBER"}
    assert defined - ended == shared


def test_a_plan_shows_its_chains(net: Pools) -> None:
    lines = str(net.plan(net.pools(net.feed(SMALL), 3))).splitlines()
    assert lines[0] == "one work group computes 3 in sequence:"
    assert all(line.startswith("  ") for line in lines[1:4])
