"""Register tiles of a convolution's invocations."""

from dataclasses import replace
from math import ceil, prod

import pytest

from gles_delegate.bench.kernels import KernelCase
from gles_delegate.device import profiles
from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import SOFTWARE, profile_of
from gles_delegate.kernels.setting import option_of
from gles_delegate.kernels.tiles import Tile
from gles_delegate.ops.lib.grid import FEWEST_INPUTS, LONG_SUM, WORK_GROUP, with_reduction_lanes
from gles_delegate.ops.lib.window import Window
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.planning.plan import make_plan
from gles_delegate.shaders.dispatch import Grid, Value

LLVMPIPE = Limits(profile=profiles.LLVMPIPE)
GPUS = {
    name: Limits(profile=profile_of("", name))
    for name in ("unknown", "V3D 4.2", "Mali-T860", "Mali-G52", "Mali-G610", "FD630", "FD730",
        "Intel", "NVIDIA")
}  # fmt: skip
IMAGES = [(1, 4, 4), (7, 7, 256), (12544, 8, 16), (196, 128, 128), (1089, 20, 120), (9, 300, 2)]


def window(size: int, kernel: int, stride: int = 1) -> Window:
    options = dict(stride_h=stride, stride_w=stride, dilation_h=1, dilation_w=1)
    return Window(
        **options, kernel_h=kernel, kernel_w=kernel, in_h=size, in_w=size,
        out_h=ceil(size / stride), out_w=ceil(size / stride), pad_h=kernel // 2, pad_w=kernel // 2,
    )  # fmt: skip


@pytest.mark.parametrize("limits", [LLVMPIPE, *GPUS.values()], ids=["llvmpipe", *GPUS])
def test_tiles_fit_the_output_and_the_device(limits: Limits) -> None:
    profile, most = limits.profile, 32
    for choice in range(profile.choices):
        for pixels, _, slices in IMAGES:
            for tiles in (None, profile.others):
                tile = Tile.choose(pixels, slices, 9, limits, choice, tiles)
                assert tile.slices <= slices
                if not profile.searches:
                    most = option_of(tiles or profile.pointwise, choice)[0]
                assert tile.pixels <= most
                assert tile.pixel_lanes * tile.slice_lanes <= Limits().invocations
        for size, depth, slices in IMAGES:
            for kernel, stride in ((1, 2), (3, 1), (5, 2), (9, 1), (41, 1)):
                x = Value(0, (1, size % 300, size % 300, 4 * depth))
                tile = Tile.of_run(window(size % 300, kernel, stride), 1, x, slices, limits, choice)
                assert 1 <= tile.slices <= slices
                assert 1 <= tile.pixels <= 32
                assert tile.pixel_lanes * tile.slice_lanes <= Limits().invocations
                if not profile.searches:
                    assert tile.pixels <= option_of(profile.windows, choice)[0]


@pytest.mark.parametrize(("side", "choice", "pixels"), [(96, 0, 2), (95, 0, 4), (512, 2, 4)])
def test_windows_of_large_images_have_smaller_tiles_on_nvidia(
    side: int, choice: int, pixels: int
) -> None:
    x = Value(0, (1, side, side, 64))
    tile = Tile.of_run(window(side, 3), 1, x, 16, GPUS["NVIDIA"], choice)
    assert (tile.pixels, tile.pixel_lanes, tile.slice_lanes) == (pixels, 8, 8)


def test_few_pixels_have_small_work_groups_along_them() -> None:
    intel = GPUS["Intel"]
    assert {Tile.choose(pixels, 8, 8, intel).pixel_lanes for pixels in (9, 96, 400)} == {8}
    assert {Tile.choose(pixels, 16, 8, Limits()).pixel_lanes for pixels in (9, 96, 400)} == {8}


@pytest.mark.parametrize(
    ("slices", "lanes"), [(1, (64, 1)), (4, (32, 2)), (6, (64, 1)), (8, (16, 4)), (16, (8, 8))]
)
def test_work_groups_have_few_idle_lanes(slices: int, lanes: tuple[int, int]) -> None:
    tile = Tile.choose(1 << 12, slices, 8, Limits())
    assert (tile.pixel_lanes, tile.slice_lanes) == lanes


def test_work_groups_of_whole_waves_have_fewer_idle_lanes() -> None:
    """49 tiles along the pixels: 7 x 16 invocations are 7 waves of 16, without an idle lane."""
    for name, lanes in {"V3D 4.2": (7, 16), "FD630": (8, 8)}.items():
        profile = GPUS[name].profile
        pixels = 49 * profile.pointwise[0][0]
        tile = Tile.choose(pixels, 32 * profile.pointwise[0][1], 8, GPUS[name])
        assert (tile.pixel_lanes, tile.slice_lanes) == lanes
    for wave in range(1, 200):
        tile = Tile.choose(wave, 64, 8, GPUS["V3D 4.2"])
        assert tile.slices_in_x or tile.pixel_lanes * tile.slice_lanes % 16 == 0


def test_lanes_lie_along_the_slices_where_pixels_would_leave_some_idle() -> None:
    assert Tile.choose(7 * 7, 256, 256, LLVMPIPE).slices_in_x
    assert not Tile.choose(112 * 112, 16, 8, LLVMPIPE).slices_in_x
    assert not Tile.choose(7 * 7, 256, 256, Limits()).slices_in_x


def test_a_wide_window_over_few_channels_has_a_tile_of_more_than_a_few_texels() -> None:
    tile = Tile.of_run(window(384, 9), 1, Value(0, (1, 384, 384, 3)), 2, LLVMPIPE, choice=1)
    assert tile.pixels * tile.slices >= 12


def test_the_first_choice_has_few_tiles_so_that_layers_share_programs() -> None:
    tiles = {
        (tile.pixels, tile.slices)
        for size, depth, slices in IMAGES
        for tile in (
            Tile.choose(size, slices, depth, LLVMPIPE),
            Tile.of_run(window(size % 300, 3), 1, Value(0, (1, 9, 9, 64)), slices, LLVMPIPE),
        )
        if size >= 8
    }
    assert all(p * s <= 32 and p & p - 1 == s & s - 1 == 0 for p, s in tiles)


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_a_vector_has_the_devices_width(lanes: int) -> None:
    tile = Tile.choose(784, 64, 64, replace(LLVMPIPE, simd_lanes=lanes), choice=1)
    assert lanes in (tile.pixel_lanes, tile.slice_lanes)


@pytest.mark.parametrize("each", [1, 9])
@pytest.mark.parametrize("inputs", [0, 1, 7, 49, 256, 12544])
@pytest.mark.parametrize("results", [(0, 5), (1, 1), (3, 5), (1, 251), (64, 33), (1 << 20, 4)])
def test_few_results_of_much_are_shared(results: tuple[int, int], inputs: int, each: int) -> None:
    grid = Grid(*results, 8, 8)
    assert with_reduction_lanes(grid, inputs, Limits(profile=SOFTWARE), each) is grid
    large = replace(GPUS["NVIDIA"], invocations=1024, local_size=(1024,) * 3, shared_bytes=20000)
    for limits in (large, *GPUS.values()):
        actual = with_reduction_lanes(grid, inputs, limits, each)
        lanes, count, occupancy = actual.reduction_lanes, prod(results), limits.profile.occupancy
        assert (actual.pixels, actual.slices) == results
        assert prod(actual.local_size) <= max(WORK_GROUP, lanes) <= limits.invocations
        assert 32 * prod(actual.local_size) <= limits.shared_bytes or lanes == 1
        assert (prod(actual.groups) > 0) == (count > 0)
        fitting = [
            n
            for n in (2, 4, 8, 16, 32, 64, 128, 256, 512)
            if (n <= min(64, inputs) and n * FEWEST_INPUTS <= inputs * each)
            or n * LONG_SUM <= inputs
            if 0 < n * count <= occupancy and n <= (512 if limits == large else 128)
        ]
        assert lanes == max(fitting, default=1)


@pytest.mark.parametrize("window", [1, 3])
def test_convolutions_of_small_images_share_sums_where_the_profile_says_so(window: int) -> None:
    def lanes(size: int, limits: Limits, choice: int = 0) -> int:
        graph = KernelCase("", "CONV_2D", size, 128, 64, window).graph()
        plan = make_plan(lower_graph(graph, limits), [0], limits, choices={0: choice})
        (dispatch,) = (each for each in plan.dispatches if each.shader == "conv_2d")
        return dispatch.grid.reduction_lanes

    desktop = replace(GPUS["NVIDIA"], profile=replace(profiles.NVIDIA, blocks=((),)))
    desktop = replace(desktop, profile=replace(desktop.profile, window_blocks=((),)))
    assert lanes(10, desktop) == (128 // 4 if window == 3 else 128 // 4 // FEWEST_INPUTS)
    assert lanes(64, desktop) in (2, 4)
    assert lanes(112, desktop) == 1
    unshared = replace(desktop, profile=replace(desktop.profile, shared_sums=(True, False)))
    assert lanes(10, unshared, choice=1) == 1
    assert {lanes(10, limits) for name, limits in GPUS.items() if name != "NVIDIA"} == {1}


def test_windows_have_another_tile_for_tensors_stored_as_float16() -> None:
    limits = Limits(profile=profiles.VALHALL)
    lowered = lower_graph(KernelCase("", "CONV_2D", 30, 8, 12, 3).graph(), limits)
    tiles = []
    for half in (False, True):
        plan = make_plan(lowered, [0], limits, half)
        (conv,) = (d for d in plan.dispatches if d.shader == "conv_2d")
        pixels, slices = conv.defines["PIXELS"], conv.defines["SLICES"]
        assert isinstance(pixels, int)
        assert conv.sizes["BLOCK"] == 2  # the same weights
        assert conv.sizes["RUNS"] * pixels >= 30
        tiles.append((pixels, slices))
    assert tiles == [(4, 1), (3, 2)]
