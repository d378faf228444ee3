PYTHON ?= python3
bin := .venv/bin

# For the tests with windows: an X server in memory, what Qt loads, and libharfbuzz0b for GLib, whose
# own package has another name in each release.
windows := xauth xvfb libdbus-1-3 libfontconfig1 libharfbuzz0b libxcb-cursor0 libxcb-icccm4 \
	libxcb-keysyms1 libxcb-shape0 libxkbcommon-x11-0

# For the tests with GStreamer.
gstreamer := gstreamer1.0-gl gstreamer1.0-libav gstreamer1.0-plugins-good

.PHONY: say demo gallery check test test-all test-ray test-extras test-unit fuzz attack mutants test-drivers test-gpus test-litert test-oldest test-peers test-profiles test-systems test-toolkits \
	test-16k-pages benchmark lint docs wheel clean debian

demo: .venv/.with-examples
	$(bin)/python examples/demo.py

# The pictures of docs/gallery.md, and the chart of docs/speed.md, from the folders of published files.
gallery: .venv/.with-test
	$(bin)/python tools/gallery "$$GLES_DELEGATE_MODELS" "$$GLES_DELEGATE_PICTURES" \
		"$$GLES_DELEGATE_MEDIAPIPE/bundles"
	$(bin)/python tools/speed-chart

# One process for each processor, each with tests that follow one another in a module.
pytest := $(bin)/pytest -n auto --dist worksteal

# What CI runs on each push, in four minutes on two cores: of the tests outside tests/unit one in four.
check: say := check: lint, types, tests/unit and a sample of the other tests; 4 minutes on two cores
check: say .venv/.with-test
	$(MAKE) lint shaders="--sample 1000"
	tools/setup-debian "$(PYTHON)" $(windows) $(gstreamer)
	$(pytest) --one-in 4

# A sample, to which uncommitted changes come first, or all since the commit `since`; its last line
# says of what.
test: say := test: all tests but Ray's, with a sample of the largest tables; 5 minutes on two cores
test: say .venv/.with-test
	tools/setup-debian "$(PYTHON)" $(windows) $(gstreamer)
	$(pytest) $(if $(since),--since $(since))

# Everything, Ray too.
test-all: .venv/.with-test .venv/.with-ray
	tools/setup-debian "$(PYTHON)" $(windows) $(gstreamer)
	$(pytest) --all
	$(MAKE) test-ray

test-ray: .venv/.with-test .venv/.with-ray
	$(bin)/pytest tests/ray  # a cluster takes every processor

# README's first commands, `make demo`, and each extra in an environment without the others.
test-extras: debian
	PYTHON="$(PYTHON)" tools/test-extras

# The unit tier with nothing else installed, not even the package.
test-unit: export GLES_DELEGATE_REQUIRE =
test-unit: .venv/unit/.ready
	.venv/unit/bin/pytest -q tests/unit

.venv/unit/.ready: | .venv
	$(PYTHON) -m venv .venv/unit
	.venv/unit/bin/pip install --quiet flatbuffers hypothesis numpy pytest
	touch $@

# New random graphs and ops, `examples` for each test.
examples := 200
fuzz: .venv/.with-test
	$(pytest) --fresh $(examples) tests/fuzz

# Damaged models, random graphs and more, with new seeds, for so many minutes; `make test` runs again
# what it finds.
MINUTES := 10
SEED = $(shell date +%s)
attack: .venv/.with-test
	$(bin)/python -m tests.attack --minutes $(MINUTES) --seed $(SEED) --keep tests/attack/kept

# Wrong lines, planted at random: which ones do the tests of `make test` not see?
N := 100
mutants: .venv/.with-test
	$(bin)/python tools/mutants $(N) $(SEED)

# The GL tests on two more OpenGL ES implementations: zink on lavapipe, ANGLE on SwiftShader.
on_drivers := --all -m "not mesa" -k "not inside_litert" tests/fuzz tests/gl tests/litert
test-drivers: export GLES_DELEGATE_REQUIRE = gl,litert,cli,fuzz
test-drivers: export XDG_RUNTIME_DIR ?= /tmp
test-drivers: .venv/.with-test
	tools/setup-debian "$(PYTHON)" mesa-vulkan-drivers
	command -v npm >/dev/null || tools/setup-debian "$(PYTHON)" npm
	$(bin)/python tools/fetch-angle .venv/angle
	LIBGL_ALWAYS_SOFTWARE=1 GALLIUM_DRIVER=zink $(bin)/pytest $(on_drivers)
	VK_ICD_FILENAMES=$(CURDIR)/.venv/angle/vk_swiftshader_icd.json \
		LD_LIBRARY_PATH=$(CURDIR)/.venv/angle GLES_DELEGATE_EGL=$(CURDIR)/.venv/angle/libEGL.so \
		$(bin)/pytest $(on_drivers)

# What the compilers of GPUs make of the kernels, against the table in tools/gpu-lab/figures.csv;
# `devices` chooses. GPU_LAB is the folder of a lab, or a tar.xz; without it, one is built.
test-gpus: .venv/.with-test
	case "$(GPU_LAB)" in \
		*.tar.xz) $(bin)/python -m tarfile --extract "$(GPU_LAB)" .venv/gpu-lab ;; \
		"") [ -d .venv/gpu-lab/prefix ] || tools/gpu-lab/build ;; \
	esac
	$(bin)/python tools/gpu-lab/measure --check --devices $(devices)

# The delegate inside older versions of LiteRT; `test` has the newest.
test-litert: .venv/.with-test
	for version in 2.1.0 2.2.0; do \
		$(PYTHON) -m venv .venv/litert-$$version && \
		.venv/litert-$$version/bin/pip install --quiet --editable $(for_tests) \
			ai-edge-litert==$$version && \
		.venv/litert-$$version/bin/pytest tests/litert/test_host.py tests/litert/test_mixed.py \
			tests/litert/test_compiled_model.py \
			|| exit 1; \
	done

# Every form of every profile's kernels, over all cases of the op table's convolutions.
test-profiles: .venv/.with-test
	$(pytest) --fresh 1 tests/litert/test_profiles.py

# With each lower bound of setup.cfg, which needs a Python that these versions have wheels for: the unit
# tier, and the programs of the README and of docs/.
OLDEST := python3.10
test-oldest:
	sed -n 's/^ *\([a-zA-Z][a-zA-Z0-9_-]*\)>=\([0-9.]*\).*/\1==\2/p' setup.cfg tests/requirements.txt | \
		sort -u > .venv/oldest.txt
	$(OLDEST) -m venv .venv/oldest
	.venv/oldest/bin/pip install --quiet setuptools wheel hypothesis rich --constraint .venv/oldest.txt
	.venv/oldest/bin/pip install --quiet --no-build-isolation --editable '.[apps,cli]' --requirement .venv/oldest.txt
	.venv/oldest/bin/pip install --quiet ml_dtypes --constraint .venv/oldest.txt
	.venv/oldest/bin/pip install --quiet --no-deps ai-edge-litert backports-strenum  # which asks for a newer numpy
	.venv/oldest/bin/gles-delegate doctor
	.venv/oldest/bin/pytest tests/unit tests/gl/test_delegate.py tests/gl/test_batch.py
	.venv/oldest/bin/pytest tests/gl/test_snippets.py -k "not toolkits"

# The snippets of docs/toolkits.md, also for toolkits that are too large for the other tests.
test-toolkits: export GLES_DELEGATE_REQUIRE = gl,windows,toolkits
test-toolkits:
	tools/setup-debian "$(PYTHON)" $(windows)
	test -x .venv/toolkits/bin/python || $(PYTHON) -m venv .venv/toolkits
	.venv/toolkits/bin/pip install -q -e $(for_tests) kivy panda3d vispy vtk
	.venv/toolkits/bin/pytest tests/gl/test_snippets.py -k 'toolkits and not GTK'
	tools/setup-debian /usr/bin/python3 gir1.2-gtk-4.0 python3-gi  # for the system's Python alone
	test -x .venv/gtk/bin/python || /usr/bin/python3 -m venv --system-site-packages .venv/gtk
	.venv/gtk/bin/pip install -q -e '.[apps,litert]' pytest
	.venv/gtk/bin/pytest tests/gl/test_snippets.py -k GTK

# LiteRT's own tests of its interpreter, on ours; LITERT is a clone of its repository.
test-peers: .venv/.with-test
	$(bin)/pytest tests/peers

# The documentation's commands, `make demo`, `make test` and the wheel on fresh Debian 12, Debian 13 and
# Ubuntu 24.04, and a selection on Debian for arm64; `systems` and `steps` choose.
test-systems:
	tools/setup-debian "$(PYTHON)" debootstrap
	tools/test-systems $(if $(steps),--steps $(steps)) .systems $(systems)

# A network on an emulated Cortex-A76 whose kernel has pages of 16 KiB, as on a Raspberry Pi 5.
test-16k-pages:
	tools/setup-debian "$(PYTHON)" cpio debootstrap
	tools/test-16k-pages .systems

# The tables of docs/speed.md: make benchmark models="[--sustained] FILE ..."
benchmark: .venv/.with-test
	-$(bin)/python tools/ceiling
	$(bin)/python tools/benchmark $(models)

lint: .venv/.with-test
	tools/setup-debian "$(PYTHON)" clang-format glslang-tools
	$(bin)/ruff check
	$(bin)/ruff format --check
	$(bin)/mypy
	clang-format --dry-run -Werror glsl/*.glsl glsl/lib/*.glsl glsl/live/*
	$(bin)/python tools/check-shaders $(shaders)
	$(bin)/check-jsonschema --quiet --builtin-schema vendor.github-workflows \
		.github/workflows/*.yml examples/container/workflow.yml

# The pages, and a look at each in Chromium, where it is installed.
docs: export NO_MKDOCS_2_WARNING = 1
docs: .venv/.with-docs
	$(bin)/python tools/op-table
	$(bin)/python tools/device-page
	$(bin)/python tools/gpu-lab/measure --page
	$(bin)/mkdocs build --strict
	$(bin)/python tools/look-at-docs

# REPOSITORY is the address to which the links of an index page lead, see setup.py.
# build/ keeps files that are gone from the checkout, and setuptools would ship them.
wheel: debian
	rm -rf build dist
	$(PYTHON) -m venv .venv/wheel
	.venv/wheel/bin/pip install --quiet build
	.venv/wheel/bin/python -m build --outdir dist

clean:
	rm -rf build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find gles_delegate tests examples -name __pycache__ -prune -exec rm -rf {} +
	rm -rf --one-file-system .systems

# What a target does and how long, before anything is installed.
say:
	@echo "$(say)"

debian:
	@test -w . || { echo "this folder is read-only: copy it to one that you may write to"; exit 1; }
	tools/setup-debian "$(PYTHON)"

# Two environments may be made in it at once, and venv does not allow for that.
.venv: | debian
	mkdir -p $@

# The stamp of an installed extra: .venv/.with-examples, .venv/.with-ray.
.venv/.with-%: setup.cfg pyproject.toml | .venv
	$(PYTHON) -m venv .venv
	$(bin)/pip install --quiet --editable '.[$*]'
	touch $@

# What the project's developers need is no extra. The tests and the pages run every example.
# Files, as pip knows dependency groups since 25.1, and Debian 12 has 23.0.
for_tests := '.[apps,cli,examples,plot]' --requirement tests/requirements.txt \
	--requirement examples/requirements.txt
.venv/.with-test: tests/requirements.txt examples/requirements.txt setup.cfg pyproject.toml | .venv
	$(PYTHON) -m venv .venv
	$(bin)/pip install --quiet --editable $(for_tests)
	touch $@

.venv/.with-docs: tools/docs-requirements.txt .venv/.with-test
	$(bin)/pip install --quiet --requirement tools/docs-requirements.txt
	touch $@
