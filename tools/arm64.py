"""Tests on Debian for aarch64, in QEMU's emulation of boards' processors.

A system's packages are only unpacked, and this machine's pip installs the wheels: packages' scripts
and pip itself would take minutes in emulation. Networks' outputs must have the same checksums as on
the same Debian for x86_64, which runs without emulation.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from systems import Record, copied, enter, remove, unpacked

PACKAGES = "libegl1,libegl-mesa0,libgl1,libgl1-mesa-dri,libgles2,python3,python3-pip"
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
PROCESSORS = ("cortex-a72", "cortex-a76")  # of the Raspberry Pi 4 and 5
EXTRAS = "apps,cli,examples,litert"
MODELS = (
    *("mnist_model", "face_detection_front", "hey_jarvis"),
    *("keras_lstm_mnist_ptq", "mobilenet_v1_0.25_128_quant"),
)
"""Published models that are tested, too, if the folder GLES_DELEGATE_MODELS has them."""
NETWORKS = (
    *("face_detection_front", "face_detection_short_range", "face_landmark"),
    *("palm_detection_full", "hand_landmark_full", "pose_detection", "pose_landmark_lite"),
    *("hair_segmentation", "deeplabv3_257_mv_gpu", "mobilenet_v1_0.25_128_quant", "yamnet"),
    *("style_predict_quantized_256", "style_transfer_f16_384"),
)
"""Those of the examples, likewise."""

# The ELF header of an aarch64 program, and the bits in it that count.
MAGIC = r"\x7fELF\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00\xb7\x00"
MASK = r"\xff" * 7 + r"\x00" + r"\xff" * 8 + r"\xfe\xff\xff\xff"
BINFMT = Path("/proc/sys/fs/binfmt_misc")
ENTRY = BINFMT / "gles-delegate-aarch64"

# The package's requirements whose markers apply in the system that runs this.
REQUIREMENTS = """
import sys
from importlib.metadata import requires
from pip._vendor.packaging.requirements import Requirement
for r in map(Requirement, requires("gles_delegate")):
    if not r.marker or any(r.marker.evaluate({"extra": extra}) for extra in sys.argv[1].split(",")):
        r.marker = None
        print(r)
"""

CHECKSUMS = "PYTHONPATH=. python3 tools/checksums ~/models/* > ~/checksums"
STEPS = {
    "doctor": "python3 -m gles_delegate doctor",
    "compare": """
        for model in $(ls -Sr ~/models/* | head -n 3); do
            python3 -m gles_delegate compare "$model"
        done
        """,
    "examples": """
        small='Image.open("examples/live.jpg").resize((160, 90)).save("/root/small.png")'
        python3 -c "from PIL import Image; $small"
        python3 examples/demo.py ~/small.png --output ~/demo
        python3 examples/custom_op.py ~/small.png --output ~/x.png
        python3 examples/thread_pool.py ~/small.png --output ~/demo
        run() {  # an example without one of its networks is left out
            example=$1
            shift
            : > ~/log
            for file in "$@"; do
                case $file in *.tflite) [ -e "$file" ] || return 0 ;; esac
            done
            echo "$example"
            python3 "examples/$example.py" "$@" > ~/log 2>&1 || { cat ~/log; return 1; }
        }
        headless() {
            run "$@" --headless --output ~/x.png
            tail -n 2 ~/log
            [ ! -s ~/log ] || grep -q "milliseconds: " ~/log
        }
        draws() { headless "$@" --picture examples/live.jpg --frames 2; }
        cp examples/models/*.tflite examples/*.jpg ~/networks
        cd ~/networks
        ln -sf ~/gles_delegate/examples .
        draws background ball_segmenter.tflite
        draws upscale
        draws detect face_detection_front.tflite
        draws face_mesh face_detection_short_range.tflite face_landmark.tflite
        draws hair hair_segmentation.tflite
        draws hands palm_detection_full.tflite hand_landmark_full.tflite
        draws pose pose_detection.tflite pose_landmark_lite.tflite
        draws segment deeplabv3_257_mv_gpu.tflite --mean 127.5
        draws style style_predict_quantized_256.tflite style_transfer_f16_384.tflite demo.jpg
        for example in classify litert_classify compiled_classify; do
            run $example mobilenet_v1_0.25_128_quant.tflite live.jpg
        done
        python3 -c "if True:
            import math, struct, wave
            with wave.open('tone.wav', 'wb') as file:
                file.setparams((1, 2, 16000, 0, 'NONE', ''))
                tone = (int(9000 * math.sin(i / 6)) for i in range(48000))
                file.writeframes(b''.join(struct.pack('<h', level) for level in tone))"
        headless sound yamnet.tflite --sound tone.wav
        """,
    "tests": "python3 -m pytest -q tests/litert/test_compiled_model.py tests/litert/test_host.py",
}


def tested(folder: Path, suite: str) -> str:
    """The time of each step on each processor, after FAILED if one failed.

    Raises CalledProcessError if a system cannot be installed.
    """
    record = Record()
    roots = [folder / f"{suite}-{architecture}.failed" for architecture in MACHINES]
    with emulation(folder):
        for root, architecture in zip(roots, MACHINES, strict=True):
            system = unpacked(folder / f"{suite}-{architecture}", suite, architecture, PACKAGES)
            install(folder, copied(system, root), architecture, EXTRAS, "hypothesis", "pytest")
            copy_models(root)
        x86, arm = roots
        record.step("x86_64: checksums", run, x86, CHECKSUMS)
        for processor in PROCESSORS:
            for name, script in STEPS.items():
                print(f"\n{suite}-arm64, {processor}: {name}", flush=True)
                record.step(f"{processor}: {name}", run, arm, script, processor)
            record.step(f"{processor}: checksums", same_checksums, arm, x86, processor)
    if record.passed:
        for root in roots:
            remove(root)
    return str(record)


@contextmanager
def emulation(folder: Path) -> Iterator[Path]:
    """Let Linux run aarch64 programs in QEMU, in chroots as well; yields a system that has QEMU.

    QEMU is Debian 13's, because LiteRT crashes in version 7.2.
    """
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit("ended by a signal"))
    system = unpacked(folder / "qemu", "trixie", "amd64", "qemu-system-arm,qemu-user")
    is_mounted = (BINFMT / "register").exists()
    if not is_mounted:
        subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", BINFMT], check=True)
    try:
        unregister()
        # O opens the program for QEMU, and F opens QEMU now, outside of any chroot.
        entry = f":{ENTRY.name}:M::{MAGIC}:{MASK}:{system}/usr/bin/qemu-aarch64:OF"
        (BINFMT / "register").write_text(entry)
        yield system
    finally:
        unregister()
        if not is_mounted:
            subprocess.run(["umount", BINFMT], check=True)


def unregister() -> None:
    if ENTRY.exists():
        ENTRY.write_text("-1")


def install(folder: Path, root: Path, architecture: str, extras: str, *others: str) -> None:
    """Install the root's clone and the requirements of its extras from wheels, and `others`.

    Raises CalledProcessError if a wheel is missing, also if the system itself, whose markers may
    evaluate differently, finds a requirement that is not installed.
    """
    print(f"installing wheels for {architecture}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", folder / "pip"], check=True)
    (library,) = root.glob("usr/lib/python3.*")
    target = root / "usr/local/lib" / library.name / "dist-packages"
    pip = [folder / "pip/bin/pip", "install", "-qq", "--no-compile", "--target", target]
    subprocess.run([*pip, "--no-deps", root / "root/gles_delegate"], check=True)
    (root / "root/requirements.py").write_text(REQUIREMENTS)
    if not run(root, f"python3 ~/requirements.py {extras} > ~/requirements.txt"):
        raise subprocess.CalledProcessError(1, "requirements.py")
    machine = MACHINES[architecture]
    options = ["--only-binary=:all:", f"--python-version={library.name.removeprefix('python')}"]
    options += [f"--platform=manylinux_2_{minor}_{machine}" for minor in range(17, 37)]
    listed = ["--requirement", root / "root/requirements.txt"]
    subprocess.run([*pip, *options, *listed, *others], check=True)
    check = "python3 -m pip install --break-system-packages --no-index --dry-run --quiet"
    if not run(root, f"{check} 'gles_delegate[{extras}]'"):
        raise subprocess.CalledProcessError(1, check)


def copy_models(root: Path) -> None:
    """Copy the project's models to /root/models, and published ones there and to /root/networks."""
    models = root / "root/models"
    networks = root / "root/networks"
    shutil.copytree(root / "root/gles_delegate/examples/models", models)
    (models / "README.md").unlink()
    networks.mkdir()
    for folder, names in ((models, MODELS), (networks, NETWORKS)):
        for name in names:
            file = Path(os.environ.get("GLES_DELEGATE_MODELS", ""), f"{name}.tflite")
            if file.exists():
                shutil.copy(file, folder)


def run(root: Path, script: str, processor: str = "max") -> bool:
    """Whether a script succeeds in the root's clone."""
    variables = {
        "GLES_DELEGATE_REQUIRE": "cli,gl,litert",
        "LIBGL_ALWAYS_SOFTWARE": "1",
        "QEMU_CPU": processor,
        "XDG_CACHE_HOME": f"/root/{processor}",  # machine code of shaders
    }
    return enter(root, f"cd ~/gles_delegate; {script}", variables=variables) == 0


def same_checksums(root: Path, other: Path, processor: str) -> bool:
    if not run(root, CHECKSUMS, processor):
        return False
    actual, expected = ((each / "root/checksums").read_text() for each in (root, other))
    print(f"\nchecksums of {processor}:\n{actual}", flush=True)
    if actual != expected:
        print(f"expected x86_64's:\n{expected}", flush=True)
    return actual == expected
