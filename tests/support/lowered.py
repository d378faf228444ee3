"""The dispatches of lowered nodes, before planning rewrites them."""

from itertools import chain

from gles_delegate.device.limits import Limits
from gles_delegate.kernels.choosing import steps_dispatches
from gles_delegate.kernels.setting import Setting
from gles_delegate.model.graph import Graph
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.shaders.dispatch import Dispatch


def lowered_dispatches(graph: Graph, limits: Limits) -> list[Dispatch]:
    """Those of every node, by the kernels that are chosen without measurement."""
    lowered = lower_graph(graph, limits)
    setting = Setting(limits, lowered.graph.tensors)
    return [*steps_dispatches(chain(*lowered.steps.values()), setting)]
