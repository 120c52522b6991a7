# Everything that a person or CI does with the project. `make` lists it.
#
# Variables:
#   PYTHON       the interpreter that builds .venv (3.11 to 3.13)
#   TORCH_INDEX  the index of CPU builds of PyTorch, where `pip install torch` would take a GPU build:
#                make demo TORCH_INDEX=<the address that pytorch.org names for "CPU">
#   TABLE        for `make reproduce`: a recipe below recipes/, such as gdpfed/table2-fmnist
#   SORDINO_DATA the folder with the real data sets

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
FLOWER = $(CURDIR)/.venv-flower/bin
TORCH = torch==2.13.0
PIP = $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo federation-demo test check format docs dist system-deps test-data soak audit-statistics bench reproduce clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else f"sordino needs Python 3.11 to 3.13, {sys.executable} is {v[0]}.{v[1]}: make PYTHON=python3.12")'
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo 'python3 has no venv module: on Debian, apt-get install python3-venv' >&2; exit 1; }
	@echo 'building $(VENV) (PyTorch is large: this takes a minute or more)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) $(TORCH)
	@$(PIP) -e .
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	@echo 'installing what the tests need'
	@$(PIP) -r requirements-dev.txt
	@touch $@

demo: $(VENV)/installed ## train the demo: three privacy budgets, bundled data, one minute
	@$(BIN)/sordino run

test: $(VENV)/installed-dev check docs ## every test that needs no system package and no downloaded data
	@$(MAKE) --no-print-directory .venv-flower/installed || echo 'Flower could not be installed: the federation over it is not tested' >&2
	@SORDINO_FLOWER=$(FLOWER) $(BIN)/python -m pytest -n auto --dist loadgroup -m 'not data and not soak'

.venv-flower/installed: Makefile
	@echo 'building .venv-flower: Flower wants other versions than the rest, and needs nothing of it'
	@test -x .venv-flower/bin/python || $(PYTHON) -m venv .venv-flower
	@.venv-flower/bin/python -m pip --disable-pip-version-check install --quiet flwr==1.41.0
	@touch $@

federation-demo: $(VENV)/installed .venv-flower/installed ## an operator and four sites as real processes, two of them killed
	@SORDINO_FLOWER=$(FLOWER) $(BIN)/python -m sordino.federation.demo

check: $(VENV)/installed-dev ## lint, format, types, layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/basedpyright --pythonpath $(BIN)/python --level error
	@$(BIN)/lint-imports --no-cache

format: $(VENV)/installed-dev ## fix what ruff can fix
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(VENV)/installed-dev ## build the documentation into site/, without warnings
	@NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict --quiet

dist: $(VENV)/installed-dev ## build wheel and sdist into dist/
	@$(BIN)/python -m build --no-isolation

system-deps: ## what some tests want from the system (Debian): Chromium, PostgreSQL
	@apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium postgresql >/dev/null

test-data: $(VENV)/installed-dev ## the tests on real data sets, from SORDINO_DATA
	@test -d "$(SORDINO_DATA)" || { echo 'make test-data needs SORDINO_DATA, the folder with the data sets' >&2; exit 2; }
	@$(BIN)/python -m pytest -n auto -m 'data and not soak'

soak: $(VENV)/installed-dev .venv-flower/installed ## long statistics, random kills
	@SORDINO_FLOWER=$(FLOWER) $(BIN)/python -m pytest -m soak

audit-statistics: $(VENV)/installed-dev ## how often audits raise false alarms, over 200 runs
	@$(BIN)/python -m pytest -m soak -rP tests/statistical/test_audit.py

bench: $(VENV)/installed-dev .venv-flower/installed ## every benchmark, each beside its peers
	@export SORDINO_FLOWER=$(FLOWER); for file in benchmarks/*.py; do case $$file in */_*) ;; *) echo "== $$file"; $(BIN)/python $$file || exit 1;; esac; done

reproduce: $(VENV)/installed-dev ## run a table or figure of the papers: make reproduce TABLE=name
	@$(BIN)/sordino reproduce "$(TABLE)"

clean: ## remove what make built
	rm -rf $(VENV) .venv-flower build dist site .hypothesis
