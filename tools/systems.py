"""Debian and Ubuntu systems in folders; needs debootstrap and, for chroot, root."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"

# In a separate mount namespace, nothing stays mounted however this ends.
ENTER = """
for folder in proc sys dev; do mount --rbind "/$folder" "$0/$folder" || exit; done
exec chroot "$0" sh -euc "$1"
"""
# What debootstrap and the scripts of base-passwd and dash would do.
UNPACK = """
cd "$0"
for folder in bin lib lib64 sbin; do mkdir -p "usr/$folder"; ln -s "usr/$folder" "$folder"; done
for package in var/cache/apt/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar --extract --keep-directory-symlink
    rm "$package"
done
[ -e bin/sh ] || ln -s dash bin/sh
echo 'root:x:0:0:root:/root:/bin/sh' > etc/passwd
mkdir -p etc/ssl/certs
"""


class NoArchiveError(Exception):
    """The archive of a system does not answer."""


class Record:
    """The seconds of each step, and whether all steps passed."""

    def __init__(self) -> None:
        self.passed = True
        self._took: list[str] = []

    def step(self, name: str, run: Callable[..., bool], *arguments: object) -> None:
        start = time.monotonic()
        passed = run(*arguments)
        self.passed &= passed
        self._took.append(f"{name} {time.monotonic() - start:.0f} s" + " (failed)" * (not passed))

    def __str__(self) -> str:
        return ("passed: " if self.passed else "FAILED: ") + ", ".join(self._took)


def debootstrap(log: IO[str], *arguments: str | Path) -> None:
    """Raises NoArchiveError if the archive does not answer."""
    try:
        subprocess.run(["debootstrap", *arguments], stdout=log, stderr=log, check=True)
    except subprocess.CalledProcessError as error:
        log.seek(0)
        if "Failed getting release file" in log.read():
            raise NoArchiveError from error
        raise


def unpacked(root: Path, suite: str, architecture: str, packages: str) -> Path:
    """A Debian system whose packages are unpacked but not configured; made where there is none.

    No program of the packages runs, so that the architecture may be another than this machine's.
    """
    if root.exists():
        return root
    print(f"unpacking {suite} for {architecture} in {root}", flush=True)
    unfinished = root.with_name(f"{root.name}.new")
    remove(unfinished)
    options = ["--download-only", "--variant=minbase", f"--arch={architecture}"]
    mirror = os.environ.get("DEBIAN_MIRROR", "")
    with root.with_name(f"{root.name}.log").open("w+") as log:
        debootstrap(log, *options, f"--include={packages}", suite, unfinished, mirror)
        subprocess.run(["sh", "-euc", UNPACK, unfinished], stdout=log, stderr=log, check=True)
    return unfinished.rename(root)


def copied(system: Path, root: Path) -> Path:
    """A copy of a system, with this machine's network, and a clone of HEAD in /root."""
    remove(root)
    subprocess.run(["cp", "--archive", "--reflink=auto", system, root], check=True)
    pass_network(root)
    subprocess.run(["git", "clone", "--quiet", ".", root / "root" / "gles_delegate"], check=True)
    return root


def pass_network(root: Path) -> None:
    """Give a system this machine's name servers and certificates, which may be a proxy's."""
    for file in ("/etc/resolv.conf", CERTIFICATES):
        if Path(file).exists():
            shutil.copyfile(file, f"{root}{file}")


def enter(
    root: Path, script: str, log: IO[str] | None = None, variables: Mapping[str, str] | None = None
) -> int:
    """The status of a shell script inside a system; nothing that it started outlives this call."""
    environment = {
        "HOME": "/root",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "GLES_DELEGATE_REQUIRE": "gl,litert,windows,cli,fuzz,gstreamer",
        "PIP_CERT": CERTIFICATES,
    }
    passed_on = {
        k: v for k, v in os.environ.items() if k.startswith("PIP_") or k.lower().endswith("_proxy")
    }
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-euc", ENTER, root, script],
        env={**environment, **passed_on, **(variables or {})},
        stdout=log,
        stderr=log,
        start_new_session=True,
    ) as process:
        try:
            return process.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def remove(root: Path) -> None:
    """Remove a system, but never what is mounted in it."""
    subprocess.run(["rm", "-rf", "--one-file-system", root], check=True)
