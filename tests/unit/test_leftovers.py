"""What a run of tests that is killed leaves behind."""

import signal
import time
from pathlib import Path

from tests.support.process import run_python

KILLED = """
import os, subprocess, sys
from tests.support.leftovers import kill_after_this_process
kill_after_this_process()
command = [sys.executable, "-c", "import time; time.sleep(300)"]
nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
print(subprocess.Popen(command, start_new_session=True, **nowhere).pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_killed_run_leaves_no_process() -> None:
    run = run_python(KILLED)
    assert run.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 60
    while is_running(int(run.stdout)):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def is_running(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"  # nobody may be there to wait for it
