# Two commands matter: `make demo` and `make test`. Each sets up all it needs; only Python 3.11+ and make are assumed.
# `make test-full` and `make test-engines` run what takes long or needs servers, Spark and a browser; every test is in
# one of the three (tests/support/layers.py).

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Compiled modules are kept: tests start many processes, each of which would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-full test-engines golden layers lint bench bench-public review-pack dist site clean

demo: $(VENV)/.demo-ready
	$(BIN)/sfumato demo

test: $(VENV)/.test-ready lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not full and not engines' --durations=30 --durations-min=3

test-full: $(VENV)/.test-ready
	$(BIN)/python -m pytest -n 2 --dist worksteal -m full

test-engines: $(VENV)/.engines-ready
	SFUMATO_ENGINES=required $(BIN)/python -m pytest -n 2 --dist worksteal -m engines

golden: $(VENV)/.test-ready
	$(BIN)/python tests/golden/golden.py

layers: $(VENV)/.engines-ready
	$(BIN)/python -m pytest -q --layers

lint: $(VENV)/.test-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.engines-ready
	$(BIN)/python benchmarks/noise.py
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/intervals.py --quick
	$(BIN)/python benchmarks/audit_power.py

# Public yardsticks beside other people's packages, which get an environment of their own: writes benchmarks/RESULTS.md.
# DATA=folder with the data; QUICK=1 for a few runs of each, some ten minutes of CPU.
bench-public: $(VENV)/.engines-ready $(VENV)-peers/.ready
	@test -n "$(DATA)" || { echo 'say where the public data is: make bench-public DATA=folder' >&2; exit 1; }
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/yardsticks.py "$(DATA)" --peers-python $(VENV)-peers/bin/python $(if $(QUICK),--quick)

$(VENV)-peers/.ready: benchmarks/peers.py $(VENV)/bin/python
	$(BIN)/python benchmarks/peers.py $(VENV)-peers
	@touch $@

# One archive for an outside reviewer; KEY=office.key signs it.
review-pack: $(VENV)/.engines-ready
	$(BIN)/python benchmarks/review_pack.py --full $(if $(KEY),--key $(KEY))

# What a package index gets: built, checked, and tried in an empty environment (.github/workflows/release.yml).
dist: $(VENV)/.engines-ready
	$(BIN)/python -m pytest -q tests/test_wheel.py
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

site: $(VENV)/.engines-ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'Sfumato needs Python 3.11 or newer; try: make PYTHON=python3.12 demo' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-ready: pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.test-ready: pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.demo-ready

$(VENV)/.engines-ready: pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev,dev-engines]'
	@touch $@ $(VENV)/.test-ready $(VENV)/.demo-ready

clean:
	rm -rf $(VENV) $(VENV)-peers .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache sfumato-demo site dist
