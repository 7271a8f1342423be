# Everything from nothing: `make demo` and `make test` create the environments they need.
# Any of 3.11 to 3.13 serves the platform: `make setup PYTHON=python3.13`. torch and vLLM need 3.11.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
# The models environment's build: cuda where an NVIDIA driver answers, else cpu; none: without vLLM.
MODELS ?= $(shell nvidia-smi -L > /dev/null 2>&1 && echo cuda || echo cpu)
VLLM := .venv-models
BIN := $(VENV)/bin
# Prefect and vLLM start twice as fast from compiled bytecode.
unexport PYTHONDONTWRITEBYTECODE
# A folder of wheels given to pip is not seen by uv unless told.
LINKS := $(if $(PIP_FIND_LINKS),--find-links $(PIP_FIND_LINKS))
# The CPU build of torch lives on PyTorch's own index; with a wheel folder it is not asked.
TORCH := $(if $(PIP_FIND_LINKS),,--torch-backend cpu)
CUDA_TORCH := $(if $(PIP_FIND_LINKS),,--torch-backend auto)
HARNESSES := inspect lm-eval verifiers agents
BACKENDS := llama-factory verl

.PHONY: help setup harnesses backends demo scheduling test test-fast test-slow test-models test-e2e test-long fuzz fuzz-http lint format bench-store bench-gateway bench-scheduling bench-harness bench-load bench-retrieval bench-sandbox cheats bench-statistics bench-sweeps bench-synthesis bench-train tau2 tau2-check api-bank bfcl docs ui clean

help:
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

SETUP_none :=
SETUP_cpu := $(VLLM)/.done
SETUP_cuda := $(VLLM)/.done-cuda $(VENV)/.faiss-gpu
ifeq ($(filter none cpu cuda,$(MODELS)),)
$(error MODELS=$(MODELS): it is cuda, cpu or none)
endif
# The environment that models run in, as this machine has it.
MODELS_DONE := $(firstword $(SETUP_$(MODELS)))

setup: $(VENV)/.done $(SETUP_$(MODELS)) ## create both Python environments (MODELS=cuda|cpu|none; cuda where a driver answers)

$(VENV)/.done: pyproject.toml deployments/constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python $(LINKS) \
		--constraint deployments/constraints.txt --editable '.[dev]'
	touch $@

# Both builds have one folder: another build than the last is made anew.
define new_models_environment
	$(BIN)/uv venv --quiet $(if $(wildcard $(1)),--clear,--allow-existing) $(VLLM) --python \
		$$($(BIN)/python -c 'import sys; print(sys.executable if sys.version_info[:2] == (3, 11) else "3.11")')
endef

$(VLLM)/.done: $(VENV)/.done deployments/models-requirements.txt deployments/constraints-models.txt
	$(call new_models_environment,$(VLLM)/.done-cuda)
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(VLLM)/bin/python $(LINKS) $(TORCH) \
		--constraint deployments/constraints-models.txt \
		--override deployments/models-overrides.txt \
		--requirement deployments/models-requirements.txt
	touch $@

$(VLLM)/.done-cuda: $(VENV)/.done deployments/models-requirements-cuda.txt deployments/constraints-models-cuda.txt
	$(call new_models_environment,$(VLLM)/.done)
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(VLLM)/bin/python $(LINKS) $(CUDA_TORCH) \
		--constraint deployments/constraints-models-cuda.txt \
		--requirement deployments/models-requirements-cuda.txt
	touch $@

# One module, two packages: that of the GPU replaces that of the CPU, and reads the same indexes.
$(VENV)/.faiss-gpu: $(VENV)/.done deployments/faiss-gpu.txt
	$(BIN)/uv pip uninstall --quiet --python $(BIN)/python faiss-cpu
	$(BIN)/uv pip install --quiet --python $(BIN)/python $(LINKS) --requirement deployments/faiss-gpu.txt
	touch $@

harnesses: $(HARNESSES:%=.venv-harnesses/%/.done) ## install Inspect, lm-eval, verifiers and the agent libraries in environments of their own

# The harnesses do not agree on a version of the openai package.
.venv-harnesses/%/.done: deployments/harnesses/requirements-%.txt $(VENV)/.done
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(@D)
	$(BIN)/uv pip install --quiet --python $(@D)/bin/python $(LINKS) --requirement $<
	touch $@

backends: $(BACKENDS:%=.venv-backends/%/.done) ## install LLaMA-Factory, and verl's configuration, in environments of their own

# Their pins are older than ours. Of verl the configuration only: its engines need a GPU.
.venv-backends/%/.done: deployments/backends/requirements-%.txt deployments/backends/overrides-%.txt $(VENV)/.done
	$(BIN)/uv venv --quiet --allow-existing --python 3.11 $(@D)
	$(BIN)/uv pip install --quiet --python $(@D)/bin/python $(LINKS) $(TORCH) \
		--override $(word 2,$^) --requirement $<
	touch $@

demo: setup ## run the whole pipeline on this machine, in under ten minutes
	$(BIN)/tutti demo

scheduling: setup assets/random/config.json ## compare scheduling policies on a real vLLM, with a report (12 minutes)
	$(BIN)/tutti sweep run scheduling --models deployments/models-scheduling.yaml

# The size of docs/gateway.md's small set-up.
assets/random/config.json: bench/scheduling/model.py bench/scheduling/work.py
	$(VLLM)/bin/python -m bench.scheduling.model --out assets/random --hidden 128 \
		--intermediate 384 --layers 4 --heads 4 --kv-heads 2 --head-dim 32 --context 4096

# Linting and training take a core each, so they run side by side. Slow and end-to-end tests wait for
# processes much of their time: in one session others use the cores meanwhile.
test: ## run everything that CI checks
	$(MAKE) --jobs 2 --output-sync=target lint test-models
	$(MAKE) test-fast test-long

test-fast: $(VENV)/.done ## run the tests that need no server
	$(BIN)/pytest -m "not e2e and not slow" -n 3 --dist worksteal

# The agent libraries install in seconds, so that their transcripts are always tested.
test-slow: $(VENV)/.done .venv-harnesses/agents/.done ## run the tests without a real server that take seconds each
	$(BIN)/pytest -m "slow and not e2e" -n 3 --dist worksteal

# Torch is in the other environment, and the platform's packages are not.
test-models: $(MODELS_DONE) ## run the tests of what needs torch, in the models environment
	PYTHONPATH=. $(VLLM)/bin/python -m pytest --confcutdir tests/training -p no:cacheprovider --hypothesis-profile ci tests/training

test-long: setup .venv-harnesses/agents/.done ## run the slow and the end-to-end tests together
	$(BIN)/pytest -m "slow or e2e" -n 3 --dist loadgroup

test-e2e: setup ## run the end-to-end tests with the real vLLM, gateway, FAISS and Prefect
	$(BIN)/pytest -m e2e -n 3 --dist loadgroup

# A round draws 500 new cases a test, and the last one ends after the time. What fails is tried again
# first by the next run, until it is an @example of its test and passes.
FUZZ_MINUTES ?= 60
fuzz: $(VENV)/.done ## draw new cases for the property tests, FUZZ_MINUTES=60 long or until some fail
	until=$$(($$(date +%s) + 60 * $(FUZZ_MINUTES))); while test $$(date +%s) -lt $$until; do \
		HYPOTHESIS_PROFILE=fuzz $(BIN)/pytest -m "hypothesis and not e2e" -n 3 --dist worksteal \
			--override-ini timeout=1200 || exit 1; done

FUZZ_REQUESTS ?= 200000
fuzz-http: $(VENV)/.done ## send FUZZ_REQUESTS=200000 fuzzed requests to every HTTP service
	TUTTI_FUZZ_REQUESTS=$(FUZZ_REQUESTS) $(BIN)/pytest tests/e2e/test_http_fuzz.py -s -m e2e

lint: $(VENV)/.done ## run ruff, mypy and the project's own checks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tests.house

format: $(VENV)/.done ## fix and format the code with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-store: $(VENV)/.done ## benchmark the store against other formats (about ten minutes)
	$(BIN)/python -m bench.store

bench-gateway: $(VENV)/.done ## benchmark the gateway's latency, streams and held programs against other proxies
	$(BIN)/python -m bench.gateway

bench-scheduling: setup ## benchmark each policy with agents on a real vLLM (about an hour)
	$(BIN)/python -m bench.scheduling

bench-harness: $(VENV)/.done ## benchmark samples per second against Inspect (two minutes)
	$(BIN)/python -m bench.harness --memory 100000

bench-load: setup ## benchmark the accuracy of the client against other load generators (about ten minutes)
	$(BIN)/python -m bench.load

bench-retrieval: $(VENV)/.done ## benchmark search, service and index builds against FAISS (about five minutes)
	$(BIN)/python -m bench.retrieval

bench-statistics: $(VENV)/.done ## measure coverage and false-alarm rates against known truth (under a minute)
	$(BIN)/python -m bench.statistics

bench-train: setup ## benchmark training beside TRL, and what GRPO gains (about half an hour)
	$(BIN)/python -m bench.train

bench-sweeps: $(VENV)/.done ## benchmark a sweep's overhead: cells, plans, resuming (five minutes)
	$(BIN)/python -m bench.sweeps

bench-synthesis: $(VENV)/.done ## benchmark task synthesis: speed, memory, gates, planted defects (half an hour)
	$(BIN)/python -m bench.synthesis

bench-sandbox: $(VENV)/.done ## test containment of hostile programs and measure the start time
	$(BIN)/python -m bench.sandbox

cheats: $(VENV)/.done ## score every cheating program on every target of tests/scoring (about ten minutes)
	$(BIN)/python -m tests.scoring.cheats.judge

# tau2 is on no registry (the package of that name there is another project): TAU2 is a checkout of its
# sources, which need Python 3.12 or 3.13: uv finds one, or give its path.
TAU2_PYTHON ?= 3.12
.venv-harnesses/tau2/.done: $(VENV)/.done
	@test -f "$(TAU2)/pyproject.toml" || { echo "TAU2: give a checkout of tau2-bench: make tau2 TAU2=FOLDER"; exit 2; }
	$(BIN)/uv venv --quiet --allow-existing --python $(TAU2_PYTHON) $(@D)
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(@D)/bin/python $(LINKS) rank-bm25 --editable "$(TAU2)"
	touch $@

tau2: .venv-harnesses/tau2/.done ## install tau2's own package for its benchmarks: TAU2=CHECKOUT

tau2-check: .venv-harnesses/tau2/.done ## load, replay and score a synthesized domain with tau2's own package: TAU2=CHECKOUT, DOMAIN=FOLDER
	$(BIN)/python -m bench.synthesis.tau2_check --python .venv-harnesses/tau2/bin/python $(if $(DOMAIN),--domain "$(DOMAIN)") $(if $(NAME),--name "$(NAME)")

# Without the package's own dependencies, 152 of them: clients of every provider, and torch. Its parser
# has no wheel for Python 3.13.
BFCL_PYTHON ?= >=3.11,<3.13
.venv-harnesses/bfcl/.done: deployments/harnesses/requirements-bfcl.txt $(VENV)/.done
	$(BIN)/uv venv --quiet --allow-existing --python '$(BFCL_PYTHON)' $(@D)
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(@D)/bin/python $(LINKS) --requirement $<
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(@D)/bin/python $(LINKS) --no-deps bfcl-eval==2026.3.23
	touch $@

bfcl: .venv-harnesses/bfcl/.done ## install BFCL's own package for its multi-turn, memory, Java and JavaScript categories

# The scorer api_bank executes the APIs of a checkout. All but four need no package; API_BANK_PACKAGES
# are for those (rank-bm25 nltk numpy for the search engine, sentence-transformers for the tool searcher).
API_BANK_HOME = .venv-harnesses/api_bank
api-bank: $(VENV)/.done ## name the checkout of DAMO-ConvAI whose APIs the scorer api_bank executes: API_BANK=CHECKOUT
	@test -f "$(API_BANK)/tool_manager.py" -o -f "$(API_BANK)/api-bank/tool_manager.py" || { echo "API_BANK: give a checkout of DAMO-ConvAI: make api-bank API_BANK=FOLDER"; exit 2; }
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python $(API_BANK_HOME)
	$(if $(API_BANK_PACKAGES),$(BIN)/uv pip install --quiet --python $(API_BANK_HOME)/bin/python $(LINKS) $(API_BANK_PACKAGES))
	realpath "$(API_BANK)" > $(API_BANK_HOME)/checkout

docs: $(VENV)/.done ## test the examples of README and docs
	$(BIN)/pytest tests/docs

ui: setup ## start a Prefect server, workers and deployments, until Ctrl-C
	$(BIN)/tutti ui

clean: ## remove environments and caches, but not the store (.tutti)
	rm -rf $(VENV) $(VLLM) .venv-harnesses .venv-backends .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
