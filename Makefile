# Everything from a fresh clone: `make table1` prints the BLEU table, `make test` runs the tests, `make` lists all goals.
# Each goal makes the virtual environment and installs what it needs.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
# Where it is set, each of a hundred processes would compile PyTorch's modules anew.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PACKAGES := moses_bridge rescorer tuning
SOURCES := $(shell find $(PACKAGES) -name '*.py' -o -name '*.toml') pyproject.toml setup.cfg
EXPERIMENTS := tuning/experiments
RULES := Makefile $(EXPERIMENTS)/domain/domain.mk tests/bench/benches.mk

# The help of a goal is behind ## in its rule; ##+ marks goals that need a plan (below), ##* those that also work on
# several steps at a time. $(call goals,MARK): the goals with a mark.
marked := \#\#
goals = $(shell sed -nE 's/^([a-z][a-z0-9 -]*):.*$(marked)$(1) .*/\1/p' $(RULES))
SEVERAL_STEPS := $(call goals,\*)
.PHONY: $(call goals,[+*]?)
help: ## this list
	@awk -F ':.*##[+*]? ' '/^[a-z].*:.*##/ { printf "make %-24s %s\n", $$1, $$2 }' $(RULES)

# As many steps at a time as there are processors, four at most, with 1.5 GB of memory each; the processors are divided
# among them. (nproc would answer with OMP_NUM_THREADS, which limits the threads of one process.)
PROCESSORS := $(shell env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
AT_ONCE := $(or $(AT_ONCE),$(if $(filter $(SEVERAL_STEPS),$(MAKECMDGOALS)),$(shell \
    awk -v most=$$(($(PROCESSORS) < 4 ? $(PROCESSORS) : 4)) '/^MemAvailable/ { \
    n = int($$2 / 1.5e6); print n < 1 ? 1 : n < most ? n : most }' /proc/meminfo),1))
MAKEFLAGS += $(if $(filter $(SEVERAL_STEPS),$(MAKECMDGOALS)),--jobs=$(AT_ONCE))
# KenLM is compiled beside what the commands need.
MAKEFLAGS += $(if $(filter install development check test test-all,$(MAKECMDGOALS)),--jobs=2)
JOBS := $(or $(JOBS),$(shell echo $$((($(PROCESSORS) + $(AT_ONCE) - 1) / $(AT_ONCE)))))

# --- Installation ------------------------------------------------------------------------------
TORCH := $(shell sed -n 's/^torch==//p' constraints.txt)
# What the steps of `make table1` wait for: text and model for the commands, networks for all packages, tunings for what
# they compile; nothing waits for KenLM. INSTALL= (empty) takes the virtual environment as it is.
INSTALL ?= install
COMMANDS := $(if $(INSTALL),$(VENV)/package.stamp)
LIBRARIES := $(if $(INSTALL),$(VENV)/dependencies.stamp)
COMPILED := $(if $(INSTALL),$(VENV)/warm.stamp)
# Python compiles the modules that are used: to compile all of them takes half of an installation.
PIP_INSTALL := $(BIN)/python -m pip --disable-pip-version-check install -q --no-compile -c constraints.txt
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

install: $(VENV)/warm.stamp $(VENV)/kenlm.stamp ## the commands, with all that they can use
	@$(if $(filter install,$(MAKECMDGOALS)),echo 'The commands are in $(VENV)/bin. To type them alone: source $(VENV)/bin/activate',:)
development: $(VENV)/development.stamp install ## the same, and what checks, tests and pages need

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo 'Python 3.11 or newer is needed: make PYTHON=python3.12 ...' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || $(SUDO) apt-get install -y python3-venv
	@echo 'Making the virtual environment $(VENV)'
	@$(PYTHON) -m venv $(VENV)

# $(call packages,EXPRESSION): installs what it names in the project's table p of pyproject.toml; $(call extras,NAMES): extras.
packages = $(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; print(*$(1), sep="\n")' \
    > $(VENV)/$(@F).txt && $(PIP_INSTALL) -r $(VENV)/$(@F).txt
extras = $(call packages,(name for extra in "$(1)".split() for name in p["optional-dependencies"][extra]))

# First what text and model need, then the commands, then the rest. PyTorch waits for the commands in a new environment
# alone: later it would make `make check` install them after each edit.
FIRST_TIME := $(if $(wildcard $(VENV)/package.stamp),,$(VENV)/package.stamp)
$(VENV)/first.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo 'Installing the first packages into $(VENV)'
	@$(PIP_INSTALL) setuptools wheel
	@$(call packages,[name for name in p["dependencies"] if not name.startswith("torch")] + p["optional-dependencies"]["build"])
	@touch $@

# Without an NVIDIA GPU the CPU build of PyTorch, gigabytes smaller: from where pip looks, else from PyTorch's own index.
$(VENV)/torch.stamp: constraints.txt | $(VENV)/first.stamp $(FIRST_TIME)
	@echo 'Installing PyTorch $(TORCH)'
	@if command -v nvidia-smi >/dev/null; then \
	    $(PIP_INSTALL) 'torch==$(TORCH)'; \
	else \
	    $(PIP_INSTALL) 'torch==$(TORCH)+cpu' 2>/dev/null \
	    || { $(PIP_INSTALL) uv \
	         && $(BIN)/uv pip install -q --python $(BIN)/python --torch-backend cpu 'torch==$(TORCH)'; } \
	    || $(PIP_INSTALL) 'torch==$(TORCH)'; \
	fi
	@touch $@
$(VENV)/dependencies.stamp: pyproject.toml constraints.txt $(VENV)/torch.stamp
	@echo 'Installing the other packages'
	@$(call packages,p["dependencies"] + p["optional-dependencies"]["all"])
	@touch $@
$(VENV)/development.stamp: $(VENV)/dependencies.stamp
	@echo 'Installing what checks, tests and the documentation need'
	@$(call extras,dev docs)
	@touch $@
$(VENV)/package.stamp: $(VENV)/first.stamp $(SOURCES)
	@rm -rf build/lib build/bdist.*
	@echo 'Installing rescorer'
	@$(PIP_INSTALL) --no-deps --no-build-isolation --force-reinstall .
	@touch $@
# Otherwise commands side by side would each compile the same at their first use.
$(VENV)/warm.stamp: $(VENV)/package.stamp $(VENV)/dependencies.stamp
	@echo 'Compiling what the commands need (a minute or two)'
	@$(BIN)/rescorer warm
	@touch $@

# KenLM has no wheel. It is compiled, if need be by a compiler that apt brings; without one the rest is installed.
$(VENV)/kenlm.stamp: $(VENV)/dependencies.stamp
	@$(MAKE) --no-print-directory kenlm
	@touch $@
kenlm: ## KenLM, tried again
	@if $(BIN)/python -c 'import kenlm' 2>/dev/null; then exit 0; fi; \
	if ! command -v g++ >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo 'Installing a C++ compiler for KenLM'; $(call apt,g++ cmake) || true; \
	fi; \
	if command -v g++ >/dev/null && echo 'Compiling KenLM (a minute or two)' && { $(call extras,kenlm); } >$(VENV)/kenlm.log 2>&1; then exit 0; fi; \
	echo 'KenLM is not installed, all else is. What is missing: rescorer perplexity on binary language models that were built' \
	    'without their words or with rest costs. It needs a C++ compiler: install g++ and cmake, then type: make kenlm' >&2
# $(call apt,PACKAGES): installs packages of the system in silence.
apt = { timeout 60 apt-get update -qq && timeout 300 apt-get install -y -qq --no-install-recommends $(1); } >/dev/null 2>&1

# --- Checks ------------------------------------------------------------------------------------
check: $(VENV)/development.stamp ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config setup.cfg
format: development ## format the code and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
# `results` first takes the tables of a finished build; `make test` compares them all.
notebook settings commands rooms results: development ## make the pages and pictures of docs/make_*.py anew
	$(BIN)/python docs/make_$@.py $(if $(filter results,$@),--take $(BUILD))
docs: development ## the documentation as a site; a warning ends it
	$(BIN)/zensical build --clean --strict
	@echo 'Open build/site/index.html'

# tests/conftest.py says which tests share a process. The slow ones take as long as all others together.
PYTEST := $(BIN)/pytest -n $(JOBS) --dist loadscope --no-loadscope-reorder
test: development browser ## all tests but the slow ones
	$(PYTEST) -m 'not slow'
test-all: development browser ## all tests
	$(PYTEST)
CHROMIUM := chromium chromium-browser google-chrome
browser: | $(VENV)/kenlm.stamp ## Chromium, without which the tests of the page are skipped
	@for name in $(CHROMIUM); do ! command -v $$name >/dev/null || exit 0; done; \
	[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0; \
	echo 'Installing Chromium for the tests of the page'; \
	$(call apt,chromium) || echo 'It could not be installed: those tests are skipped'
fuzz: development ## 108,000 mutated tables and 100,000 other files
	FUZZ_TABLES=80000 FUZZ_CASES=20000 $(PYTEST) --dist load -o timeout=3600 tests/fuzz
faults: development ## commands that are killed some 1,000 times or lack room
	FAULT_POINTS=50 $(BIN)/pytest tests/faults
MUTATE := $(BIN)/python tests/mutation/mutate.py $(if $(SURVIVORS),--survivors)
mutate: development ## change the code, one place at a time [MODULES="tuning/compare/significance.py ..."] [SURVIVORS=1]
	$(call extras,mutation)
	$(MUTATE) --faults
	$(MUTATE) $(MODULES)
clean: ## remove what was made, but the virtual environment
	rm -rf build *.egg-info .mypy_cache .pytest_cache .ruff_cache .cache .hypothesis .import_linter_cache

# --- From a corpus to the BLEU table -------------------------------------------------------------
# Each file is made by one command, so a rerun does what is missing and a step can be entered with files from elsewhere:
# CORPUS=DIR ({train,dev,test}.SOURCE and .TARGET, tokenised) or MODEL=DIR (moses.ini with its tables, made by Moses, say).
SOURCE ?= en
TARGET ?= fr
SCALE ?= small
EXPERIMENT ?= $(EXPERIMENTS)/$(SCALE).toml
PAIR := $(if $(filter-out en-fr,$(SOURCE)-$(TARGET)),-$(SOURCE)-$(TARGET))
BUILD ?= build
B := $(BUILD)/table1$(if $(filter-out small,$(SCALE)),-$(SCALE))$(PAIR)
CORPUS ?= $(B)/corpus
MODEL ?= $(B)/model
LINKS ?= $(MODEL)/aligned.grow-diag-final-and.gz
CONFIG := $(B)/config
FILTERED := $(B)/filtered/phrase-table.gz
WHOLE_TABLE ?= $(MODEL)/phrase-table.gz
START := $(B)/runs/start/weights.json
# N-best lists of the training text, each sentence translated by a system that has not seen it.
LISTS ?= $(B)/lists/folds.gz
# Where the networks of added columns are: a table with more sentences is scored by those of the table without them.
NETWORKS ?= $(B)
DEV := $(CORPUS)/dev
TEST := $(CORPUS)/test
# Source sides of the training texts: near copies in the test text are counted, and by the words of both sides its accuracy.
TRAINED ?= $(CORPUS)/train.$(SOURCE)
TRAINED_TARGETS = $(patsubst %.$(SOURCE),%.$(TARGET),$(filter %.$(SOURCE),$(TRAINED)))
# Texts that the filtered tables must serve.
INPUTS ?= $(DEV).$(SOURCE) $(TEST).$(SOURCE)

# The plan: systems, networks and tables of the experiment as rules. It is made anew when a file of the experiment or one
# of these variables, which replace its keys, changes. $(call set,VARIABLE,KEY,QUOTE): the words of a variable as a list.
comma := ,
space := $() $()
set = $(if $($(1)),--set '$(2) = [$(subst $(space),$(comma),$(patsubst %,$(3)%$(3),$(strip $($(1)))))]')
PLAN := $(B)/plan.mk
PLANNED := $(EXPERIMENT) $(call set,SEEDS,seeds.runs) $(call set,NOISE,seeds.noise) \
    $(call set,KNOWN,starts.known-start.leave_out,") $(call set,OPTIMIZERS,tables.optimizers.rows,") \
    $(call set,OPTIMIZER_SEEDS,seeds.optimizers)
ifneq ($(filter-out $(call goals,),$(or $(MAKECMDGOALS),help)),)
ifneq ($(file <$(B)/planned),$(PLANNED))
$(shell mkdir -p $(B))$(file >$(B)/planned,$(PLANNED))
endif
include $(PLAN)
endif
$(PLAN): $(EXPERIMENT) $(B)/planned $(wildcard $(EXPERIMENTS)/*.py) | $(COMMANDS)
	$(BIN)/tuning plan $(PLANNED) --out $@

# A section's file changes only when its text does, so an edit reruns what depends on it alone.
$(CONFIG)/.stamp: $(EXPERIMENT) | $(COMMANDS)
	$(BIN)/moses-bridge config $(EXPERIMENT) --out $(CONFIG)
	@touch $@
$(CONFIG)/%.toml: $(CONFIG)/.stamp ;

# The words of the plan. STEP logs time and memory; $(call named,NAME) puts a name before each line that a step prints.
# FRESH: what is complete but older than its inputs is made anew; what was interrupted is continued.
STEPS := $(B)/steps.jsonl
STEP = $(BIN)/moses-bridge step --log $(STEPS) --name $(patsubst $(B)/%,%,$@) --
named = |& sed -u 's|^|$(1): |' >&2
FRESH = @[ ! -e $@ ] || rm -r $(@D)
DEV_TEXTS := --source $(DEV).$(SOURCE) --reference $(DEV).$(TARGET)
TEST_TEXTS = --source $(TEST).$(SOURCE) --reference $(TEST).$(TARGET)
TUNE = $(BIN)/tuning tune $(DEV_TEXTS) --resume --jobs $(JOBS)
RERANK = $(BIN)/tuning rerank $(DEV_TEXTS) --resume --run-commands --jobs $(JOBS)
TRANSLATE = $(BIN)/tuning translate --source $(TEST).$(SOURCE) --run-commands --jobs $(JOBS)
# $(call given,OPTION,FILE): an option with a file, if it exists.
given = $$([ ! -e $(2) ] || echo $(1) $(2))
COMPARE = $(BIN)/tuning compare $(TEST_TEXTS) $(foreach text,$(TRAINED),$(call given,--train-source,$(text))) \
    $(foreach text,$(TRAINED_TARGETS),$(call given,--train-target,$(text))) \
    $(call given,--groups,$(TEST).groups) --target-language $(TARGET) --config $(CONFIG)/compare.toml --jobs $(PROCESSORS)
REPORT = $(BIN)/tuning report $(TEST_TEXTS) $(TABLES:%=--comparison %) $(MAPS:%=--map %) \
    $$([ ! -e $(STEPS) ] || echo --steps $(STEPS)) --title '$(SOURCE)-$(TARGET), $(SCALE)' --out $@

table1: $(TABLES) $(B)/report.html ##* corpus to BLEU table [SCALE=tiny|small|full] [SOURCE=en] [TARGET=fr]
	@$(SHOW_TABLES)
	@[ ! -e $(STEPS) ] || { $(BIN)/moses-bridge steps $(STEPS); echo; }
	@echo 'The same with charts and translations: $(B)/report.html'
home: $(B)/home/table.json ##* phrase models trained on lists of the whole training text
	@cat $(B)/home/table.txt
# Tables of an experiment with other settings, in a build of their own.
networks best: $(MODEL)/moses.ini | $(INSTALL) ##* rows with a network for each tuning; the best system of everything
	+$(MAKE) BUILD=$(BUILD)/$@ EXPERIMENT='$(EXPERIMENT) $(EXPERIMENTS)/$@.toml' INSTALL= JOBS=$(JOBS) \
	    MODEL=$(MODEL) CORPUS=$(CORPUS) $(BUILD)/$@/$(notdir $(B))/$@/table.json

include $(wordlist 2,3,$(RULES))
