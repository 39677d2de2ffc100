# `make help` lists the targets; `make demo` and `make test` are all a newcomer needs.
SHELL := bash
.SHELLFLAGS := -o pipefail -c
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
KERNEL := .venv-kernel
BOUNDS := .venv-bounds
AUDIT := .venv-audit
DEMO := $(VENV)/.runs
STAMP := $(VENV)/.installed
STRESS_S ?= 1800
FUZZ ?= 20000
WORKERS ?= $(shell nproc 2>/dev/null || echo 2)

.PHONY: help demo kernel test test-all test-slurm test-wire stress fuzz coverage bounds image audit lint generate verify docs lock bench plans million clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

$(DEMO): pyproject.toml client/pyproject.toml panda/pyproject.toml
	@if [ -x $(BIN)/python ]; then :; else \
	  echo 'Making a virtual environment in $(VENV) …' && $(PYTHON) -m venv $(VENV); fi
	@echo 'Installing JEDI and PostgreSQL into $(VENV), about 270 MB …'
	@$(BIN)/python -m pip install --disable-pip-version-check --progress-bar on --editable ./client --editable . --editable ./panda \
	  | sed -un 's/^Collecting \([^ ]*\).*/  \1/p; s/^Successfully installed.*/Installed./p'
	@$(BIN)/python -m compileall -q jedi client/src panda/src  # containers often forbid Python to do so later
	@touch $@

$(STAMP): $(DEMO) requirements-dev.txt
	@echo 'Installing the tools of tests and lint …'
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet \
	  --constraint requirements-dev.txt --editable ./client --editable '.[test,lint,docs]' --editable ./panda
	@touch $@

demo: $(DEMO) ## run real tasks in a scratch home and show the result
	@$(BIN)/python -P -m jedi.demo

# one worker more than processors: the short tests wait a fifth of their time
test: $(STAMP) ## run all but the long tests, at most 12 minutes on two cores
	@$(BIN)/python -m pytest -n $$(($(WORKERS) + 1)) -m 'not long'

kernel: $(KERNEL)/.installed ## install Jupyter's kernel beside the client alone, for tests of notebooks

# IPython brings a library whose import name is the server's: no server is here
$(KERNEL)/.installed: client/pyproject.toml requirements-kernel.txt | $(STAMP)
	@echo 'Installing a kernel of notebooks into $(KERNEL) …'
	@$(BIN)/python -m venv --clear $(KERNEL)
	@$(KERNEL)/bin/python -m pip install --disable-pip-version-check --quiet --retries 1 \
	  --constraint requirements-kernel.txt ipykernel nbclient --editable ./client
	@touch $@

test-all: $(STAMP) ## run all tests, about half an hour on two cores
	@$(MAKE) --no-print-directory kernel || echo 'The kernel cannot be had here: its tests are skipped.'
	@$(BIN)/python -m pytest -n $(WORKERS)

test-slurm: $(STAMP) ## 1,000 jobs through a real Slurm while things die (root, Debian's slurmd)
	@JEDI_SLURM_JOBS=1000 $(BIN)/python -m pytest tests/slurm

test-wire: $(STAMP) ## PanDA's own programs, from the registry, each in a process namespace of its own
	@$(BIN)/python -m pytest -rs panda/tests/wire

stress: $(STAMP) ## live through what may happen, other things each time, three times STRESS_S seconds
	@JEDI_STRESS=$(STRESS_S) $(BIN)/python -m pytest tests/whole/test_life.py tests/scenarios/test_chaos.py \
	  tests/scenarios/test_event_chaos.py

fuzz: $(STAMP) ## FUZZ generated requests, checked against the OpenAPI document; 5 FUZZ texts of JDL
	@JEDI_FUZZ=$(FUZZ) $(BIN)/python -m pytest -rP tests/api/test_document.py tests/model/jdl/test_jdl_fuzz.py

coverage: $(STAMP) ## `make test` with the branches that it takes, by room: coverage.txt
	@rm -f .coverage .coverage.*
	@$(BIN)/python -m pytest -n $$(($(WORKERS) + 1)) -m 'not long' --cov --cov-report=
	@$(BIN)/coverage json --quiet -o .coverage.json
	@$(BIN)/python .ci/rooms.py .coverage.json | tee coverage.txt

# the tests of each library whose inside we use (docs/decisions/private-doors.md), and of all commands
DOORS := tests/api/test_protocol.py tests/api/test_callers.py tests/taskbuffer/test_quick.py \
  tests/taskbuffer/test_rows.py tests/submitter/test_batch.py tests/gpi/test_gpi_mergers.py \
  tests/cli/test_cli_jedi.py tests/model tests/core

bounds: $(STAMP) ## tests of libraries in their lowest allowed versions, then in their newest, allowed or not
	@for words in "--constraint $(BOUNDS)/lowest.txt --editable ./client --editable . --editable ./panda" "--upgrade $$($(BIN)/python .ci/lowest.py --names)"; do \
	  $(BIN)/python -m venv --clear $(BOUNDS) && $(BIN)/python .ci/lowest.py > $(BOUNDS)/lowest.txt && \
	  $(BOUNDS)/bin/python -m pip install --disable-pip-version-check --quiet --editable ./client --editable '.[test]' --editable ./panda && \
	  echo "pip install $$words" && \
	  $(BOUNDS)/bin/python -m pip install --disable-pip-version-check --quiet $$words && \
	  $(BOUNDS)/bin/python -m pytest -q -n $(WORKERS) $(DOORS) || exit 1; \
	done

image: ## build the image, or do its steps in a scratch directory where no engine is; start what it starts
	@$(PYTHON) .ci/image.py

audit: ## look for known weaknesses of the libraries in requirements-dev.txt
	@$(PYTHON) -m venv $(AUDIT)
	@$(AUDIT)/bin/python -m pip install --disable-pip-version-check --quiet 'pip-audit>=2.10,<3'
	@$(AUDIT)/bin/pip-audit --strict --disable-pip --no-deps --requirement requirements-dev.txt

lint: $(STAMP) ## ruff, mypy, and hadolint for the image's Dockerfile
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@if [ -x $(BIN)/hadolint ]; then $(BIN)/hadolint Dockerfile; \
	  else echo 'hadolint cannot be had here: the Dockerfile is not judged.'; fi

generate: $(STAMP) ## write schema/ and the generated pages of docs/
	@$(BIN)/python -P tools/docs.py

verify: $(STAMP) ## fail if generated files are out of date, or a citation, link, name or import is wrong
	@$(BIN)/python -P tools/docs.py --check
	@$(BIN)/python -m pytest -q tests/house/test_architecture.py tests/house/test_citations.py \
	  tests/house/test_names.py tests/house/test_one_meaning.py

docs: $(STAMP) ## build the documentation site into site/
	@$(BIN)/mkdocs build --quiet
	@echo 'Open site/index.html'

lock: $(STAMP) kernel ## write requirements-*.txt: the newest versions that are allowed
	@$(BIN)/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable ./client --editable '.[test,lint,docs]' --editable ./panda
	@{ head -1 requirements-dev.txt; $(BIN)/python -m pip freeze --exclude-editable; } > $(VENV)/lock
	@mv $(VENV)/lock requirements-dev.txt
	@$(KERNEL)/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager ipykernel nbclient --editable ./client
	@{ head -1 requirements-kernel.txt; $(KERNEL)/bin/python -m pip freeze --exclude-editable; } > $(KERNEL)/lock
	@mv $(KERNEL)/lock requirements-kernel.txt
	@touch $(STAMP) $(KERNEL)/.installed

bench: $(STAMP) ## measure against the floor of the same run; writes benchmarks/results/
	@$(BIN)/python -m benchmarks

plans: $(STAMP) ## the plans of all statements in a skewed database; writes docs/plans.md: 15 minutes, 6 GB
	@$(BIN)/python -m benchmarks.plans_page

million: $(STAMP) ## one task of 1,000,000 jobs in the simulator, from its submission to its end: about an hour, 25 GB
	@$(BIN)/python -m benchmarks whole --jobs=1000000

clean: ## remove the virtual environment and caches
	@rm -rf $(VENV) $(KERNEL) $(BOUNDS) $(AUDIT) .coverage* coverage.txt .pytest_cache .mypy_cache .ruff_cache dist build
