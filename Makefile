# Everything from nothing: `make demo` and `make test` create the environments they need.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
MODELS := .venv-models
BIN := $(VENV)/bin
# Prefect and vLLM start twice as fast from compiled bytecode.
unexport PYTHONDONTWRITEBYTECODE
# A folder of wheels given to pip is not seen by uv unless told.
LINKS := $(if $(PIP_FIND_LINKS),--find-links $(PIP_FIND_LINKS))
# The CPU build of torch lives on PyTorch's own index; with a wheel folder it is not asked.
TORCH := $(if $(PIP_FIND_LINKS),,--torch-backend cpu)
HARNESSES := inspect lm-eval verifiers

.PHONY: help setup harnesses demo scheduling test test-fast test-slow test-e2e lint format bench-store bench-gateway bench-scheduling bench-harness bench-load bench-retrieval bench-sandbox bench-statistics bench-sweeps docs ui clean

help:
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.done $(MODELS)/.done ## make both environments

$(VENV)/.done: pyproject.toml deployments/constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python $(LINKS) \
		--constraint deployments/constraints.txt --editable '.[dev]'
	touch $@

$(MODELS)/.done: $(VENV)/.done deployments/models-requirements.txt deployments/constraints-models.txt
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(MODELS)
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(MODELS)/bin/python $(LINKS) $(TORCH) \
		--constraint deployments/constraints-models.txt \
		--override deployments/models-overrides.txt \
		--requirement deployments/models-requirements.txt
	touch $@

harnesses: $(HARNESSES:%=.venv-harnesses/%/.done) ## Inspect, lm-eval and verifiers, each in an environment of its own

# They do not agree on a version of the openai package.
.venv-harnesses/%/.done: deployments/harnesses/requirements-%.txt $(VENV)/.done
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(@D)
	$(BIN)/uv pip install --quiet --python $(@D)/bin/python $(LINKS) --requirement $<
	touch $@

demo: setup ## the whole chain on this machine, in under ten minutes
	$(BIN)/tutti demo

scheduling: setup assets/random/config.json ## schedulers on a real vLLM: suite and report (12 minutes)
	$(BIN)/tutti sweep run scheduling --models deployments/models-scheduling.yaml

# The size of docs/gateway.md's small set-up.
assets/random/config.json: bench/scheduling/model.py bench/scheduling/work.py
	$(MODELS)/bin/python -m bench.scheduling.model --out assets/random --hidden 128 \
		--intermediate 384 --layers 4 --heads 4 --kv-heads 2 --head-dim 32 --context 4096

test: lint test-fast test-slow test-e2e ## everything CI checks

test-fast: $(VENV)/.done ## tests that need no server
	$(BIN)/pytest -m "not e2e and not slow" -n 3 --dist worksteal

test-slow: $(VENV)/.done ## tests without a real server that take seconds each
	$(BIN)/pytest -m "slow and not e2e" -n 3 --dist worksteal

test-e2e: setup ## the chain with the real vLLM, gateway, FAISS and Prefect
	$(BIN)/pytest -m e2e

lint: $(VENV)/.done ## ruff, mypy, our own measures
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tests.house

format: $(VENV)/.done ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-store: $(VENV)/.done ## the store's figures beside its peers' (about ten minutes)
	$(BIN)/python -m bench.store

bench-gateway: $(VENV)/.done ## the gateway's hop, streams and held programs beside its peers'
	$(BIN)/python -m bench.gateway

bench-scheduling: setup ## agents under load on a real vLLM, policy by policy (about an hour)
	$(BIN)/python -m bench.scheduling

bench-harness: $(VENV)/.done ## samples a second against a slow endpoint, Inspect beside it (two minutes)
	$(BIN)/python -m bench.harness --memory 100000

bench-load: setup ## the client as an instrument, beside other load generators (about ten minutes)
	$(BIN)/python -m bench.load

bench-retrieval: $(VENV)/.done ## search, its service and its builds, FAISS beside them (about five minutes)
	$(BIN)/python -m bench.retrieval

bench-statistics: $(VENV)/.done ## intervals and alarms against known truth (under a minute)
	$(BIN)/python -m bench.statistics

bench-sweeps: $(VENV)/.done ## a sweep's cost beside its samples: cells, plans, resuming (five minutes)
	$(BIN)/python -m bench.sweeps

bench-sandbox: $(VENV)/.done ## hostile programs contained, and how fast one starts
	$(BIN)/python -m bench.sandbox

docs: $(VENV)/.done ## run the examples of README and docs
	$(BIN)/pytest tests/docs

ui: setup ## Prefect server, workers and deployments on this machine, until Ctrl-C
	$(BIN)/python -m tutti.cli.setup.ui

clean: ## remove environments and caches; the store (.tutti) stays
	rm -rf $(VENV) $(MODELS) .venv-harnesses .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
