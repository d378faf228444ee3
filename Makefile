PYTHON ?= python3
bin := .venv/bin

.PHONY: demo test lint wheel clean debian

demo: .venv/.with-examples
	$(bin)/python examples/demo.py

test: lint
	$(bin)/pytest

lint: .venv/.with-test
	$(bin)/ruff check
	$(bin)/ruff format --check
	$(bin)/mypy

# build/ keeps files that are gone from the checkout, and setuptools would ship them.
wheel: .venv/.with-test
	rm -rf build
	$(bin)/pip wheel --no-deps --no-build-isolation --wheel-dir dist .

clean:
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find gles_delegate tests examples -name __pycache__ -prune -exec rm -rf {} +

debian:
	tools/setup-debian "$(PYTHON)"

# The stamp of an installed extra: .venv/.with-test, .venv/.with-examples.
.venv/.with-%: setup.cfg pyproject.toml | debian
	$(PYTHON) -m venv .venv
	$(bin)/pip install --quiet --editable '.[$*]'
	touch $@
