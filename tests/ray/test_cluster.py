"""Ray Data, Ray Serve and ``gles-delegate batch`` on a cluster of this machine."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from numpy.typing import NDArray
from PIL import Image

import gles_delegate as gd
from gles_apps import ray as on_ray
from gles_apps.tasks.vision import TaskSettings
from tests.support.chained import chained, expected_of, row_of
from tests.support.small import picture_classifier
from tests.support.tflite_builder import ModelBuilder

pytestmark = [
    pytest.mark.usefixtures("gl", "cluster"),
    pytest.mark.filterwarnings("default"),  # Ray's own
]

Array = NDArray[Any]
ROWS = 240
JSON = "application/json"


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield
    ray.shutdown()


def pictures(count: int = ROWS) -> Array:
    return np.random.default_rng(1).integers(0, 256, (count, 8, 8, 3)).astype(np.uint8)


def dataset(count: int = ROWS) -> Any:
    items = [{"id": i, "image": picture} for i, picture in enumerate(pictures(count))]
    return ray.data.from_items(items, override_num_blocks=12)


def actors(most: int = 2) -> Any:
    return ray.data.ActorPoolStrategy(min_size=1, max_size=most)


def alone(count: int = ROWS) -> Array:
    """The scores by one process."""
    predictor = on_ray.Predictor(picture_classifier())
    actual = predictor({"image": pictures(count)})["scores"]
    predictor.close()
    return actual


def check(rows: list[dict[str, Any]]) -> None:
    """No row is lost or doubled, and each is, bit for bit, what one process computes."""
    assert sorted(row["id"] for row in rows) == [*range(len(rows))]
    expected = alone(len(rows))
    for row in rows:
        np.testing.assert_array_equal(row["scores"], expected[row["id"]])


@pytest.mark.parametrize("how", ["bytes", "reference", "path"])
def test_a_dataset(how: str, tmp_path: Path) -> None:
    model: Any = picture_classifier()
    if how == "reference":
        model = ray.put(model)
    elif how == "path":
        (tmp_path / "model.tflite").write_bytes(model)
        model = tmp_path / "model.tflite"
    rows = dataset().map_batches(
        on_ray.Predictor, fn_constructor_args=(model,), compute=actors(), batch_size=16
    )
    check(rows.take_all())


class Dying(on_ray.Predictor):
    """Is killed once, in the middle."""

    def __init__(self, model: bytes, mark: Path) -> None:
        super().__init__(model)
        self._mark = mark

    def __call__(self, batch: Any) -> Any:
        if 100 in batch["id"] and not self._mark.exists():
            self._mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(batch)


def test_an_actor_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "killed"
    rows = dataset().map_batches(
        Dying, fn_constructor_args=(picture_classifier(), mark), compute=actors(), batch_size=16
    )
    check(rows.take_all())
    assert mark.exists()


class Failing(on_ray.Predictor):
    """Has no driver."""

    def __init__(self, model: bytes) -> None:
        raise gd.ContextError("there is no libEGL")


@pytest.mark.parametrize("fault", ["driver", "model"])
def test_what_no_actor_can_do_is_said_once(fault: str) -> None:
    kind, model = (
        (Failing, picture_classifier()) if fault == "driver" else (on_ray.Predictor, b"no model")
    )
    rows = dataset(20).map_batches(
        kind, fn_constructor_args=(model,), compute=actors(), batch_size=16
    )
    with pytest.raises(ray.exceptions.RayError) as caught:
        rows.take_all()
    reason = "there is no libEGL" if fault == "driver" else "expected a .tflite model"
    assert reason in str(caught.value)


@ray.remote(num_cpus=1)  # type: ignore[untyped-decorator]
class Worker:
    def __init__(self) -> None:
        self._predictor = on_ray.Predictor(picture_classifier())

    def place(self) -> tuple[str, set[int]]:
        return os.environ["LP_NUM_THREADS"], os.sched_getaffinity(0)


@pytest.mark.mesa
def test_actors_have_processors_of_their_own() -> None:
    workers = [Worker.remote() for _ in range(min(len(os.sched_getaffinity(0)), 2))]
    places = [ray.get(worker.place.remote()) for worker in workers]
    assert {threads for threads, _ in places} == {"1"}
    processors = [processor for _, actual in places for processor in actual]
    assert len(processors) == len(set(processors)) == len(workers)
    for worker in workers:
        ray.kill(worker)


def request(path: str, body: bytes | None = None, kind: str = JSON, **how: Any) -> Any:
    """The status and the JSON of a request."""
    asked = urllib.request.Request(
        f"http://127.0.0.1:8123{path}", body, {"content-type": kind}, **how
    )
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_service() -> None:
    serve = pytest.importorskip("ray.serve")
    serve.start(http_options={"port": 8123})
    b = ModelBuilder()
    y = b.op(
        "ADD", [b.input((1, 2), name="x"), b.input((1, 2), name="z")], [b.tensor((1, 2), name="y")]
    )
    serve.run(
        on_ray.deployment(picture_classifier(), settings=TaskSettings(top=2, labels=list("abcde"))),
        name="a",
        route_prefix="/a",
    )
    serve.run(on_ray.deployment(b.build([y])), name="b", route_prefix="/b")
    try:
        picture = pictures(1)[0]
        file = io.BytesIO()
        Image.fromarray(picture).save(file, "png")
        status, answer = request("/a", file.getvalue(), "image/png")
        assert status == 200
        scores = alone(1)[0]
        best = np.argsort(-scores)[:2]
        assert [row["label"] for row in answer["results"]] == ["abcde"[i] for i in best]
        shares = [row["score"] for row in answer["results"]]
        np.testing.assert_allclose(shares, scores[best], atol=1e-4)
        status, answer = request("/b", b'{"x": [1, 2], "z": [10, 20]}')
        assert (status, answer) == (200, {"y": [11, 22]})
        status, answer = request("/b", b'{"x": [1, 2]}')
        assert (status, "inputs ['x', 'z'], found ['x']" in answer["error"]) == (400, True)
        assert request("/b", b"{}", method="PUT")[0] == 405
    finally:
        serve.shutdown()


def test_users_of_a_service_get_the_results_of_their_own_rows() -> None:
    serve = pytest.importorskip("ray.serve")
    serve.start(http_options={"port": 8123})
    try:
        for kind in ("sum", "LSTM", "states", "variables"):
            serve.run(
                on_ray.deployment(chained(kind), wait=0.2, num_cpus=0.2),
                name=kind,
                route_prefix=f"/{kind}",
            )
            (name,) = request(f"/{kind}")[1]["inputs"]
            rows = [row_of(kind, number) for number in range(24)]
            bodies = [json.dumps({name: row.tolist()}).encode() for row in rows]
            with ThreadPoolExecutor(8) as users:
                answers = list(users.map(partial(request, f"/{kind}"), bodies))
            for row, (status, answer) in zip(rows, answers, strict=True):
                assert status == 200, answer
                (actual,) = answer.values()
                np.testing.assert_allclose(actual, expected_of(kind, row), rtol=0, atol=1e-5)
    finally:
        serve.shutdown()


def test_pictures_on_a_cluster(tmp_path: Path) -> None:
    """It prints its result, and nothing of Ray's."""
    model, output = tmp_path / "model.tflite", tmp_path / "results.csv"
    model.write_bytes(picture_classifier())
    for i, picture in enumerate(pictures(5)):
        Image.fromarray(picture).save(tmp_path / f"{i}.png")
    command = [sys.executable, "-m", "gles_delegate", "batch", "--address", "local"]
    done = subprocess.run(
        [*command, model, tmp_path / "*.png", "--output", output, "--batch-size", "2", "--outputs"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    lines = [line for line in done.stderr.splitlines() if "no rows yet" not in line]
    assert (done.returncode, lines) == (0, [])
    assert done.stdout == "5 pictures: 5 with results, 0 unreadable\n"
    with output.open(newline="") as file:
        rows = {Path(row["path"]).name: row for row in csv.DictReader(file)}
    for i, expected in enumerate(alone(5)):
        actual = [rows[f"{i}.png"][f"scores_{k}"] for k in range(5)]
        np.testing.assert_array_equal(np.float32(actual), expected)
