# Everything from a fresh clone: `make table1` prints the BLEU table, `make test` runs the tests, `make` lists all goals.
# Each goal makes the virtual environment and installs what it needs.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SOURCES := $(shell find moses_bridge rescorer tuning -name '*.py' -o -name '*.toml' -o -name '*.mk') pyproject.toml setup.cfg
# The help of a goal is behind ## in its rule.
.PHONY: $(shell sed -nE 's/^([a-z][a-z0-9 -]*):.*\#\# .*/\1/p' Makefile)
help: ## this list
	@awk -F ':.*## ' '/^[a-z].*:.*##/ { printf "make %-24s %s\n", $$1, $$2 }' Makefile

# --- Installation ------------------------------------------------------------------------------
TORCH := $(shell sed -n 's/^torch==//p' constraints.txt)
PIP := $(BIN)/python -m pip --disable-pip-version-check install -q --no-compile -c constraints.txt
# INSTALL= (empty) takes the virtual environment as it is.
INSTALL ?= install
INSTALLED := $(if $(INSTALL),$(VENV)/warm.stamp)

install: $(VENV)/warm.stamp $(VENV)/kenlm.stamp ## the commands, with all that they can use
	@$(if $(filter install,$(MAKECMDGOALS)),echo 'The commands are in $(BIN). To type them alone: source $(BIN)/activate',:)
development: $(VENV)/development.stamp install ## the same, and what checks, tests and pages need
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo 'Python 3.11 or newer is needed: make PYTHON=python3.12 ...' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || $$([ "$$(id -u)" = 0 ] || echo sudo) apt-get install -y python3-venv
	@$(PYTHON) -m venv $(VENV)
# $(call packages,EXPRESSION): installs what it names in the project's table p of pyproject.toml; $(call extras,NAMES): extras.
packages = $(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; print(*$(1), sep="\n")' \
    > $(VENV)/$(@F).txt && $(PIP) -r $(VENV)/$(@F).txt
extras = $(call packages,(name for extra in "$(1)".split() for name in p["optional-dependencies"][extra]))
# $(call apt,PACKAGES,WHAT): packages of the system, if this is root.
apt = [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo 'Installing $(2)' && { timeout 60 apt-get update -qq \
    && timeout 300 apt-get install -y -qq --no-install-recommends $(1); } >/dev/null 2>&1
# Without an NVIDIA GPU the CPU build of PyTorch, gigabytes smaller: from where pip looks, else from PyTorch's own index.
$(VENV)/dependencies.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo 'Installing PyTorch $(TORCH) and the other packages into $(VENV)'
	@$(PIP) setuptools wheel
	@command -v nvidia-smi >/dev/null || $(PIP) 'torch==$(TORCH)+cpu' 2>/dev/null || { $(PIP) uv \
	    && $(BIN)/uv pip install -q --python $(BIN)/python --torch-backend cpu 'torch==$(TORCH)'; } || :
	@$(call packages,p["dependencies"] + p["optional-dependencies"]["all"])
	@touch $@
$(VENV)/development.stamp: $(VENV)/dependencies.stamp
	@$(call extras,dev docs)
	@touch $@
# Commands side by side would each compile the same at their first use.
$(VENV)/warm.stamp: $(VENV)/dependencies.stamp $(SOURCES)
	@echo 'Installing rescorer, and compiling what the commands need (a minute or two)'
	@rm -rf build/lib build/bdist.*
	@$(PIP) --no-deps --no-build-isolation --force-reinstall .
	@$(BIN)/rescorer warm
	@touch $@
# KenLM has no wheel. It is compiled, if need be by a compiler that apt brings; without one the rest is installed.
$(VENV)/kenlm.stamp: $(VENV)/dependencies.stamp
	@$(MAKE) --no-print-directory kenlm
	@touch $@
kenlm: ## KenLM, tried again
	@$(BIN)/python -c 'import kenlm' 2>/dev/null && exit; \
	command -v g++ >/dev/null || { $(call apt,g++ cmake,a C++ compiler for KenLM); } || :; \
	command -v g++ >/dev/null && echo 'Compiling KenLM (a minute or two)' && { $(call extras,kenlm); } >$(VENV)/kenlm.log 2>&1 && exit; \
	echo 'KenLM is not installed, all else is. What is missing: rescorer perplexity on binary language models that were built' \
	    'without their words or with rest costs. It needs a C++ compiler: install g++ and cmake, then type: make kenlm' >&2

# --- Checks ------------------------------------------------------------------------------------
check: $(VENV)/development.stamp ## format, lint, types, import contracts
	$(BIN)/ruff format --check . && $(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config setup.cfg
format: development ## format the code and mend what can be mended
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .
# `results` first takes the tables of a finished build; `make test` compares them all.
notebook settings commands rooms results: development ## make the pages and pictures of docs/make_*.py anew
	$(BIN)/python docs/make_$@.py $(if $(filter results,$@),--take $(BUILD))
docs: development ## the documentation as a site; a warning ends it
	$(BIN)/zensical build --clean --strict && echo 'Open build/site/index.html'
# tests/conftest.py says which tests share a process. The slow ones take as long as all others together.
PYTEST := $(BIN)/pytest -n $(or $(JOBS),$(shell env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)) --dist loadscope --no-loadscope-reorder
test test-all: development browser ## all tests but the slow ones; all tests
	$(PYTEST) $(if $(filter test,$@),-m 'not slow')
browser: | $(VENV)/kenlm.stamp ## Chromium, without which the tests of the page are skipped
	@for name in chromium chromium-browser google-chrome; do ! command -v $$name >/dev/null || exit 0; done; \
	$(call apt,chromium,Chromium for the tests of the page) || echo 'There is no Chromium: the tests of the page are skipped'
fuzz: development ## 108,000 mutated tables and 100,000 other files
	FUZZ_TABLES=80000 FUZZ_CASES=20000 $(PYTEST) --dist load -o timeout=3600 tests/fuzz
faults: development ## commands that are killed some 1,000 times or lack room
	FAULT_POINTS=50 $(BIN)/pytest tests/faults
mutate: development ## change the code, one place at a time [MODULES="tuning/compare/significance.py ..."] [SURVIVORS=1]
	$(call extras,mutation)
	for what in --faults "$(MODULES)"; do $(BIN)/python tests/mutation/mutate.py $(if $(SURVIVORS),--survivors) $$what; done
clean: ## remove what was made, but the virtual environment
	rm -rf build *.egg-info .mypy_cache .pytest_cache .ruff_cache .cache .hypothesis .import_linter_cache

# --- Experiments: `tuning run` with these variables as its options (docs/pipeline.md) ------------
SOURCE ?= en
TARGET ?= fr
SCALE ?= small
EXPERIMENTS := tuning/experiments
EXPERIMENT ?= $(EXPERIMENTS)/$(SCALE).toml
BUILD ?= build
B := $(BUILD)/table1$(if $(filter-out small,$(SCALE)),-$(SCALE))$(if $(filter-out en-fr,$(SOURCE)-$(TARGET)),-$(SOURCE)-$(TARGET))
# $(call set,VARIABLE,KEY,QUOTE): the words of a variable as a list that replaces a key of the experiment.
comma := ,
space := $() $()
set = $(if $($(1)),--set '$(2) = [$(subst $(space),$(comma),$(patsubst %,$(3)%$(3),$(strip $($(1)))))]')
RUN := $(BIN)/tuning run $(EXPERIMENT) --languages $(SOURCE) $(TARGET) --scale $(SCALE) $(CORPUS:%=--corpus %) $(MODEL:%=--model %) \
    $(LINKS:%=--links %) $(LISTS:%=--lists %) $(NETWORKS:%=--networks %) $(INPUTS:%=--input %) $(TRAINED:%=--trained %) \
    $(JOBS:%=--jobs %) $(AT_ONCE:%=--at-once %) $(call set,SEEDS,seeds.runs) $(call set,NOISE,seeds.noise) \
    $(call set,KNOWN,starts.known-start.leave_out,") $(call set,OPTIMIZERS,tables.optimizers.rows,") $(call set,OPTIMIZER_SEEDS,seeds.optimizers)
# $(call made,FILES): files of the default build; FIRST: text and tables, where they are not given.
made = $(if $(strip $(1)),$(RUN) --out $(B) $(1:%=--goal %))
FIRST := $(if $(CORPUS),,corpus/train.$(SOURCE)) $(if $(MODEL),,model/moses.ini)
override CORPUS := $(or $(CORPUS),$(B)/corpus)
override MODEL := $(or $(MODEL),$(B)/model)

table1: $(INSTALLED) ## corpus to BLEU table [SCALE=tiny|small|full] [SOURCE=en] [TARGET=fr]
	$(RUN) --out $(B)
home controls: $(INSTALLED) ## columns trained on lists of the training text; known-good columns left out and added back
	$(call made,$@/table.json)
networks best: $(INSTALLED) ## rows with a network for each tuning; the best system of everything
	$(call made,$(FIRST))
	$(RUN) $(EXPERIMENTS)/$@.toml --out $(BUILD)/$@/$(notdir $(B)) --corpus $(CORPUS) --model $(MODEL) --goal $@/table.json
domain: $(INSTALLED) ## a little text of another domain, combined and in columns [ORIGIN=libreoffice] [SIZE=1000]
	$(call made,$(FIRST) nnjm/trained)
	+$(MAKE) --no-print-directory -f $(EXPERIMENTS)/domain/domain.mk B=$(B) BIN=$(BIN) BUILD=$(BUILD) CORPUS=$(CORPUS) MODEL=$(MODEL) SOURCE=$(SOURCE) TARGET=$(TARGET)
domain: export RUN := $(RUN)
bench bench-build bench-false-positives bench-long-tables bench-nbest-lists bench-optimizers bench-paper-model bench-pretrained bench-significance: $(INSTALL) ## speed beside peers, and other benchmarks (docs/benchmarks.md)
	$(BIN)/python tests/bench/benches.py $@
