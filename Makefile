# Two commands matter: `make demo` and `make test`. Each sets up all it needs; only Python 3.11+ and make are assumed.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test lint golden bench site clean

demo: $(VENV)/.demo-ready
	$(BIN)/sfumato demo

test: $(VENV)/.test-ready lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/.test-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

golden: $(VENV)/.test-ready
	$(BIN)/python tests/golden/golden.py

bench: $(VENV)/.test-ready
	$(BIN)/python benchmarks/noise.py
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/intervals.py --quick
	$(BIN)/python benchmarks/audit_power.py

site: $(VENV)/.test-ready
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

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache sfumato-demo site
