"""`serialization_dir` on disks that are small, full or read-only: the results stay right."""

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.attack.workers import Outcome
from tests.support.disks import NoMount, fill, make_read_only, small_disk

_START = """
import sys
import gles_delegate as gd
from tests.support.small import allocated, check
options = gd.GpuDelegateOptions(serialization_dir=sys.argv[1])
with gd.GpuDelegate(options) as delegate:
    check(allocated(delegate))
"""


def run_on_small_disk(_: bytes, seed: int) -> Outcome:
    """Start some times, while the disk changes; each start gives the model's results."""
    choose = random.Random(seed)
    kilobytes = choose.choice((4, 64, 500, 1284, 1400, 3000))
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            small_disk(Path(folder, "disk"), kilobytes) as disk,
        ):
            for change in [None, *choose.choices((None, fill, make_read_only), k=2)]:
                if change is not None:
                    change(disk)
                done = _start(disk)
                if done.returncode:
                    what = getattr(change, "__name__", "start")
                    return Outcome(f"status {done.returncode}", text=f"{what}: {done.stderr}")
    except NoMount:
        return Outcome("result", text="mounting takes privileges")
    return Outcome("result")


def _start(disk: Path) -> subprocess.CompletedProcess[str]:
    """Mesa reads its folder once in a process."""
    return subprocess.run(
        [sys.executable, "-c", _START, str(disk)],
        cwd=Path(__file__).parents[2],
        env={name: text for name, text in os.environ.items() if "SHADER_CACHE" not in name},
        capture_output=True,
        text=True,
        check=False,
    )
