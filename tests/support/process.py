"""Python in other processes."""

import os
import subprocess
import sys

from tests.support.sampling import ROOT

OPTIMIZER = "GALLIVM_PERF"
"""The environment variable by which tests leave LLVM's optimizer out."""


def run_python(
    code: str, *arguments: object, timeout: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run code in the repository's root, with more environment variables."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
