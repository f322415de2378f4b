# Two commands do everything on a fresh machine with Python 3.11 and make:
#   make quickstart   set up, then train a private model on real data
#   make test         set up, then tests, lint and types
# Set-up is skipped when pyproject.toml and constraints.txt haven't changed since the last one.
.DEFAULT_GOAL := help
.PHONY: help quickstart test lint format docs site slow browser chaos mutants audit-campaign clean

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
KILLS  ?= 200
SEED   ?= 1
JOBS   ?= 2
# oneDNN's newest bf16 kernels stop with an illegal instruction on machines that advertise AMX but don't grant it.
export ONEDNN_MAX_CPU_ISA ?= AVX512_CORE_FP16

help:           ## show the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/:/' | column -t -s:

$(READY): pyproject.toml constraints.txt
	@echo "==> creating $(VENV) and installing dppipe (about a minute and a half)"
	@$(PYTHON) -c 'import sys; sys.exit("make: Python 3.11 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

quickstart: $(READY)  ## train a private model on handwritten digits
	@echo "==> dppipe run pipelines/quickstart.yaml"
	@$(BIN)/dppipe run pipelines/quickstart.yaml

test: $(READY) lint  ## tests, lint and types
	@echo "==> tests"
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" --durations=5

slow: $(READY)  ## the tests that train for longer
	@echo "==> slow tests"
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m slow --durations=10

chaos: $(READY)  ## kill runs at random instants, 200 times, and resume them; about five minutes
	@echo "==> chaos"
	@OMP_NUM_THREADS=1 $(BIN)/python tests/chaos/campaign.py $(KILLS) $(SEED)

mutants: $(READY)  ## plant each listed bug in a copy, and see which no test catches; about an hour
	@echo "==> mutants"
	@$(BIN)/python tests/mutants/run.py --jobs $(JOBS) $(MUTANTS)

lint: $(READY)  ## lint and types alone
	@echo "==> ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "==> mypy"
	@$(BIN)/mypy

format: $(READY)  ## lay out and mend what ruff can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(READY)  ## write the spec reference and the page of proofs anew
	@$(BIN)/python -m dppipe.spec.reference > docs/spec.md
	@$(BIN)/python -m dppipe.privacy.reference > docs/proofs.md

site: $(READY)  ## build the documentation site into build/site; a warning is an error
	@echo "==> mkdocs build --strict"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html; to search, serve it: $(BIN)/mkdocs serve"

audit-campaign: $(READY)  ## dppipe audit on planted faults, many times; an hour or two, and it can be resumed
	@echo "==> planted faults; results are added to audit_campaign.jsonl"
	@OMP_NUM_THREADS=1 $(BIN)/python tests/audit/campaign.py --results audit_campaign.jsonl

browser:        ## install Chromium (Debian), which the browser tests need
	@command -v chromium >/dev/null || { apt-get update -q && apt-get install -y -q --no-install-recommends chromium; }
	@chromium --version

clean:          ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
