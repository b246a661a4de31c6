PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# The demo needs the library alone; tests and everything else need all extras.
LIBRARY := $(VENV)/.with-library
EVERYTHING := $(VENV)/.with-everything
CLIENTS := $(VENV)/.with-clients
DOCS := $(VENV)/.with-docs
DOCS_FAST := $(VENV)/.with-docs-fast
RELEASE := .venv-release

# Waiting threads sleep: spinning threads slow down everything else on the machine.
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: help install locked demo test coverage test-fast clients torture lint format bench docs docs-fast dist lock clean

help:
	@echo "make demo       analyze real features; the page is out/analyze/index.html"
	@echo "make test       run all tests"
	@echo "make coverage   run all tests and count the lines and branches of the library that they reach"
	@echo "make test-fast  run the tests of the inner loop, in under a minute"
	@echo "make clients    install the packages of others and run the tests that use them"
	@echo "make torture    hostile files and killed commands; MINUTES=60 for longer"
	@echo "make lint       check style and types"
	@echo "make format     format the code"
	@echo "make bench      measure accuracy and speed, and update benchmarks/ and the README"
	@echo "make docs       build the site in docs/_build/html with all notebooks run: 40 minutes on two"
	@echo "                cores, and 4 GB of packages; any warning is an error"
	@echo "make docs-fast  build the site without the outputs of notebooks, Ray and other packages"
	@echo "make dist       build both wheels and source archives in dist/, try the wheel in an empty"
	@echo "                environment, list and audit the dependencies"
	@echo "make locked     set up $(VENV) with the versions and hashes of requirements/locked.txt"
	@echo "make install    set up $(VENV) with everything; the other targets do so themselves"

install: $(EVERYTHING)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(None if sys.version_info >= (3, 11) else "resultant needs Python 3.11 or newer; $(PYTHON) is " + v + ". Try: make install PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

# torch first and pinned, so that no later package replaces it.
$(LIBRARY): pyproject.toml requirements/constraints.txt | $(BIN)/python
	$(PIP) install -q -c requirements/constraints.txt torch
	$(PIP) install -q -c requirements/constraints.txt -e .
	@touch $@

$(EVERYTHING): reproduction/pyproject.toml $(LIBRARY)
	$(PIP) install -q -c requirements/constraints.txt -e '.[vision,ray,dev]' -e reproduction
	@touch $@

$(CLIENTS): $(EVERYTHING)
	$(PIP) install -q -c requirements/constraints.txt -e '.[clients]'
	@touch $@

$(DOCS): $(EVERYTHING)
	$(PIP) install -q -c requirements/constraints.txt -e '.[docs,clients]'
	@touch $@

$(DOCS_FAST): reproduction/pyproject.toml $(LIBRARY)
	$(PIP) install -q -c requirements/constraints.txt -e '.[docs]' -e reproduction
	@touch $@

demo: $(LIBRARY)
	$(BIN)/resultant analyze

# Tests that share what is slow to make run on one worker.
PYTEST := $(BIN)/python -m pytest -q -n 2 --dist loadgroup

test: install
	$(PYTEST)

coverage: install
	$(PYTEST) --cov --cov-report=term:skip-covered

test-fast: install
	$(PYTEST) -m 'not slow'

clients: $(CLIENTS)
	$(PYTEST) tests/clients

torture: install
	$(BIN)/python -m torture $(if $(MINUTES),--minutes $(MINUTES))

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	git ls-files '*.md' ':!reproduction/protocol.md' | xargs $(BIN)/codespell -D docs/words.txt
	$(BIN)/pyright

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install
	$(BIN)/python -m benchmarks accuracy speed

docs: $(DOCS)
	$(BIN)/python -m sphinx -q -W --keep-going -j auto -b html docs docs/_build/html
	@echo "the site is docs/_build/html/index.html"

docs-fast: $(DOCS_FAST)
	$(BIN)/python -m sphinx -q -W --keep-going -j auto -b html -t fast docs docs/_build/fast
	@echo "the site, without outputs, is docs/_build/fast/index.html"

dist: install $(RELEASE)/.with-tools
	rm -rf dist
	$(BIN)/python -m build -o dist .
	$(BIN)/python -m build -o dist reproduction
	$(BIN)/twine check --strict dist/*
	$(PYTHON) tests/first_command.py dist
	$(RELEASE)/bin/cyclonedx-py requirements requirements/locked.txt -o dist/sbom.cdx.json
	@$(RELEASE)/bin/pip-audit --strict -r requirements/locked.txt --disable-pip --require-hashes || { \
		echo "dist/ is built but not audited as sound: see above, or no database was reached" >&2; \
		exit 1; }

# Tools of a release have an environment of their own: some slow down the import of others.
$(RELEASE)/.with-tools:
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip --disable-pip-version-check install -q pip-audit cyclonedx-bom uv
	@touch $@

# All dependencies of all extras with hashes, for every system.
lock: $(RELEASE)/.with-tools
	$(RELEASE)/bin/uv pip compile -q pyproject.toml --all-extras --universal --python-version 3.11 \
		--generate-hashes --no-annotate --no-header -c requirements/constraints.txt -o requirements/locked.txt

# torch that is installed already stays, such as a build for the CPU alone.
locked: | $(BIN)/python
	$(PIP) install -q --require-hashes -r requirements/locked.txt
	$(PIP) install -q --no-deps --no-build-isolation -e . -e reproduction
	@touch $(LIBRARY) $(EVERYTHING)

clean:
	rm -rf $(VENV) $(RELEASE) dist out docs/_build docs/gallery docs/*/generated
