"""Numbers that differ between shapes of the inputs become uniforms."""

from dataclasses import replace

import pytest

from gles_delegate.device.limits import Limits
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.planning.plan import Plan, make_plan
from gles_delegate.planning.resizing import Resizing, numbers_of
from gles_delegate.shaders.assembly import assemble
from gles_delegate.shaders.dispatch import Call, Dispatch
from gles_delegate.shaders.files import read_body
from tests.unit.test_fusion import Net

LIMITS = Limits()
PROFILE = LIMITS.profile


def plan_for(height: int, width: int) -> Plan:
    """DEPTH_TO_SPACE of an image of that size."""
    net = Net()
    content = net.build([net.op("DEPTH_TO_SPACE", [net.x], block_size=2)])
    lowered = lower_graph(read_model(content), LIMITS, {net.x: (1, height, width, 4)})
    return make_plan(lowered, lowered.steps, LIMITS)


def texts(plan: Plan) -> list[str]:
    return [assemble(dispatch, LIMITS).text for dispatch in plan.dispatches]


def test_the_first_plan_stays_as_it_is() -> None:
    plan, resizing = plan_for(60, 80), Resizing()
    for _ in range(2):
        assert resizing.generalized(plan, PROFILE) == plan


def test_later_sizes_share_programs() -> None:
    resizing, plans = Resizing(), [plan_for(60, 80), plan_for(70, 88), plan_for(61, 64)]
    first, *others = (texts(resizing.generalized(plan, PROFILE)) for plan in plans)
    assert others[0] == others[1]
    assert all(text != other for text, other in zip(first, others[0], strict=True))
    assert texts(resizing.generalized(plans[0], PROFILE)) == others[0]


def test_what_does_not_change_stays_a_constant() -> None:
    resizing = Resizing()
    resizing.generalized(plan_for(60, 80), PROFILE)
    dispatch = resizing.generalized(plan_for(70, 80), PROFILE).dispatches[0]
    assert dispatch.defines["SIZES"] == (70, 2, 80, 2, 1)
    assert ("SIZES", 0) in dispatch.uniforms
    assert not dispatch.uniforms & {("SIZES", i) for i in range(1, 5)}
    source = assemble(dispatch, LIMITS)
    assert "#define SIZES int[5](size_uniforms[" in source.text
    assert "], 2, 80, 2, 1)" in source.text
    assert 70 in source.sizes


@pytest.mark.parametrize(
    ("shader", "constants", "others"),
    [
        ("view", {"MIRROR", "DIMS", "WHOLE_TEXELS"}, {"SIZES", "LOWER", "IN_PIXELS", "OUT_PIXELS"}),
        ("conv_2d", {"PIXELS", "COLUMNS", "KERNEL_W", "IN_LANES"}, {"IN_W", "IN_SLICES"}),
        ("softmax", {"LOGARITHM", "EVEN"}, {"OUT_PIXELS", "OUT_CHANNELS", "BETA"}),
    ],
)
def test_what_glsl_needs_as_constants(shader: str, constants: set[str], others: set[str]) -> None:
    actual = read_body(f"{shader}.glsl").constants
    assert actual >= constants
    assert not actual & others


def test_shaders_of_an_app_keep_their_constants() -> None:
    (dispatch, *_) = plan_for(60, 80).dispatches
    assert numbers_of(dispatch)
    assert not numbers_of(replace(dispatch, shader="/an/app's/shader"))


def with_parts(plan: Plan, *starts: int, **defines: int) -> Plan:
    """Dispatches that write parts of one tensor."""

    def part(dispatch: Dispatch, start: int) -> Dispatch:
        own = {**dispatch.defines, **defines, "OUT_PIXEL": start}
        return replace(dispatch, defines=own, partial=True)

    return replace(plan, dispatches=tuple(part(plan.dispatches[0], start) for start in starts))


def test_dispatches_of_a_plan_share_a_program() -> None:
    parts = Resizing().generalized(with_parts(plan_for(20, 30), 0, 5, 9), PROFILE)
    assert len(set(texts(parts))) == 1
    assert {d.uniforms for d in parts.dispatches} == {frozenset({("OUT_PIXEL", 0)})}


def test_equal_dispatches_keep_constants() -> None:
    plan = with_parts(plan_for(20, 30), 5, 5)
    assert Resizing().generalized(plan, PROFILE) == plan


def test_dispatches_on_large_tensors_keep_constants() -> None:
    plan = with_parts(plan_for(60, 80), 0, 5)
    assert Resizing().generalized(plan, PROFILE) == plan
    most = plan.dispatches[0].most_texels
    assert Resizing().generalized(plan, replace(PROFILE, shared_texels=most - 1)) == plan
    assert len(set(texts(Resizing().generalized(plan, replace(PROFILE, shared_texels=most))))) == 1


def test_numbers_of_an_epilogue_are_shared() -> None:
    plan = with_parts(plan_for(20, 30), 0, 0)
    one, other = (
        replace(d, epilogue=(Call("QUANTIZED", (scale, -128.0, 127.0)),))
        for d, scale in zip(plan.dispatches, (0.5, 0.25), strict=True)
    )
    shared = Resizing().generalized(replace(plan, dispatches=(one, other)), PROFILE)
    assert len(set(texts(shared))) == 1
    assert (
        assemble(shared.dispatches[0], LIMITS).sizes != assemble(shared.dispatches[1], LIMITS).sizes
    )


def test_later_plans_share_the_same_programs() -> None:
    """The numbers of one dispatch that differ from the first plan are uniforms in all."""
    resizing = Resizing()
    resizing.generalized(with_parts(plan_for(20, 30), 0, 5), PROFILE)
    later = resizing.generalized(with_parts(plan_for(24, 30), 0, 7), PROFILE)
    assert len(set(texts(later))) == 1
    assert texts(resizing.generalized(with_parts(plan_for(22, 30), 3, 9), PROFILE)) == texts(later)


def test_parts_and_whole_tensors_share_a_general_program() -> None:
    parts = with_parts(plan_for(20, 30), 0, 5).dispatches
    whole = replace(parts[0], partial=False)
    plan = replace(plan_for(20, 30), dispatches=(*parts, whole))
    assert len(set(texts(Resizing().generalized(plan, PROFILE)))) == 2
    general = replace(PROFILE, general=True)
    assert len(set(texts(Resizing().generalized(plan, general)))) == 1
    alike = Resizing().generalized(replace(plan, dispatches=(whole, whole)), general)
    assert not any(dispatch.general for dispatch in alike.dispatches)
