PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check

# Threads that wait should sleep: spinning ones are a hundred times slower beside other work.
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: help install test lint demo bench

help:
	@echo "make install  a virtual environment in $(VENV)"
	@echo "make demo     an analysis of real features, and its page in out/analyze/"
	@echo "make test     the tests"
	@echo "make lint     ruff and pyright"
	@echo "make bench    accuracy and speed beside the peers, into benchmarks/ and the README"

install: $(STAMP)

$(STAMP): pyproject.toml reproduction/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(None if sys.version_info >= (3, 11) else "resultant needs Python 3.11 or newer; $(PYTHON) is " + v + ". Try: make install PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# torch first: the build that is at hand is taken, and nothing later replaces it.
	$(PIP) install -c constraints.txt torch
	$(PIP) install -c constraints.txt -e '.[cli,report,vision,parquet,ray,dev]' -e reproduction
	@touch $@

test: install
	$(BIN)/python -m pytest -n 2 -q

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

demo: install
	$(BIN)/resultant analyze

bench: install
	$(BIN)/python -m benchmarks
