"""Plans of random graphs, without GL."""

from __future__ import annotations

import random
from math import prod

from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.shaders.dispatch import Alias
from tests.support.fuzz import drawn_graph, fuzz
from tests.unit.test_plan import FLOOR, check, plan_of


@fuzz(examples=40)
def test_plans_are_sound(choose: random.Random) -> None:
    sketch, outputs = drawn_graph(choose, 25)
    check(sketch.build(outputs))


@fuzz(examples=60)
def test_plans_of_copies_are_sound(choose: random.Random) -> None:
    sketch, outputs = drawn_graph(choose, 20, "copies")
    check(sketch.build(outputs))


@fuzz(examples=20)
def test_an_alias_keeps_pixels_and_channels(choose: random.Random) -> None:
    """Fusion and the shaders look at the shape of the value that stands for the others."""
    sketch, outputs = drawn_graph(choose, 25)
    content = sketch.build(outputs)
    plan = plan_of(content)
    lowered = lower_graph(read_model(content), FLOOR)
    for steps in lowered.steps.values():
        for step in steps:
            if isinstance(step, Alias):
                layouts = [(v.pixels, v.channels) for v in (step.source, step.output)]
                assert layouts[0] == layouts[1]
    for tensor, host in (plan.inputs | plan.outputs).items():
        shape = lowered.shapes[tensor]
        if shape[-1] == 4 or prod(shape[:-1]) == 1:
            assert (host.pixels, host.channels) == (prod(shape[:-1]), shape[-1])
        else:
            assert host.channels == 4
