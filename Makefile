# `make demo` needs only Python 3.11 or later and make, `make test` a C compiler too: they set up the rest.
PYTHON ?= python3
PROBLEM ?= u3
BIN = .venv/bin

.PHONY: demo test docs pages lint format clean

demo: .venv/demo
	$(BIN)/python examples/demo.py $(PROBLEM)

test: .venv/installed lint
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2

docs: .venv/installed  # the site, in build/docs; warnings are errors
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet docs build/docs
	@echo "The documentation is in build/docs/index.html"

pages: .venv/installed  # run every page and rewrite its outputs and figures
	$(BIN)/python benchmarks/acquisitions.py
	$(BIN)/python benchmarks/figures.py readme
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python docs/pages.py

lint: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.venv/demo: pyproject.toml constraints.txt  # the package and what its pictures need; modules are compiled when first used
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable ".[plot]"
	touch $@

.venv/installed: .venv/demo  # and what tests, documentation and optional parts need
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[arviz,plot,fem]" --group dev
	touch $@

clean:
	rm -rf .venv demo build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
