# Everything from a fresh clone: `make table1` prints the BLEU table, `make test` runs the tests.
# Each target makes the virtual environment and installs what it needs.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
# Where this is set, as in many containers, each of a hundred processes would compile all of PyTorch's modules anew.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PACKAGES := moses_bridge rescorer tuning
# `make table1` works on several steps at a time, since a tuning keeps one processor busy: as many as there are
# processors, four at most, with 1.5 GB of memory for each; AT_ONCE=1 does one after the other. The processors
# are divided among them: JOBS processes or threads a step. nproc would answer with OMP_NUM_THREADS, which limits
# the threads of one process.
PROCESSORS := $(shell env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
SEVERAL_STEPS := table1 networks sizes home best domain domain-curve regimes bench-optimizers
AT_ONCE := $(or $(AT_ONCE),$(if $(filter $(SEVERAL_STEPS),$(MAKECMDGOALS)),$(shell \
    awk -v most=$$(($(PROCESSORS) < 4 ? $(PROCESSORS) : 4)) '/^MemAvailable/ { \
    n = int($$2 / 1.5e6); print n < 1 ? 1 : n < most ? n : most }' /proc/meminfo),1))
MAKEFLAGS += $(if $(filter $(SEVERAL_STEPS),$(MAKECMDGOALS)),--jobs=$(AT_ONCE))
# KenLM is compiled beside what the commands need.
MAKEFLAGS += $(if $(filter install development check test test-all,$(MAKECMDGOALS)),--jobs=2)
JOBS := $(or $(JOBS),$(shell echo $$((($(PROCESSORS) + $(AT_ONCE) - 1) / $(AT_ONCE)))))
SOURCES := $(shell find $(PACKAGES) -name '*.py' -o -name '*.toml') pyproject.toml setup.cfg
.PHONY: help install kenlm development check format notebook settings commands rooms results docs test test-all browser fuzz faults mutate table1 networks sizes home best domain domain-curve regimes bench bench-build bench-significance bench-false-positives bench-optimizers bench-long-tables bench-paper-model bench-pretrained clean
help:
	@echo 'make table1 [SCALE=tiny|small|full] [SOURCE=en] [TARGET=fr]   corpus to BLEU table'
	@echo 'make home                                                  phrase models trained on lists of the whole training text'
	@echo 'make best [SCALE=full]                                     the best system of everything, its lists reranked'
	@echo 'make networks                                              rows of the table with a network for each tuning'
	@echo 'make sizes                                                 RNN columns of 192, 512 and 1,000 units'
	@echo 'make domain [ORIGIN=libreoffice] [SIZE=1000]               a little text of another domain, combined and in columns'
	@echo 'make domain-curve [ORIGINS=..] [SIZES=..]                  the same for three domains and four sizes (takes half a day)'
	@echo 'make regimes                                               test the phrase network in nine data regimes (takes hours)'
	@echo 'make test | test-all | check | format | notebook | settings | commands | rooms | results | docs | fuzz | faults | mutate | bench | bench-build | bench-significance | bench-false-positives | bench-optimizers | bench-long-tables | bench-paper-model | bench-pretrained | install | kenlm | clean'

# --- Installation ------------------------------------------------------------------------------
TORCH := $(shell sed -n 's/^torch==//p' constraints.txt)
# INSTALL= (empty) takes the virtual environment as it is.
INSTALL ?= install
# What a step of `make table1` waits for: the commands with what text and model need, before a network all packages,
# before a tuning what they compile. So text and model are made meanwhile, and KenLM, which no step needs, is not
# compiled.
COMMANDS := $(if $(INSTALL),$(VENV)/package.stamp)
LIBRARIES := $(if $(INSTALL),$(VENV)/dependencies.stamp)
COMPILED := $(if $(INSTALL),$(VENV)/warm.stamp)
# Compiling every module takes half of an installation; Python compiles those that are used.
PIP_INSTALL := $(BIN)/python -m pip --disable-pip-version-check install -q --no-compile -c constraints.txt
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

install: $(VENV)/warm.stamp $(VENV)/kenlm.stamp
	@$(if $(filter install,$(MAKECMDGOALS)),echo 'The commands are in $(VENV)/bin. To type them alone: source $(VENV)/bin/activate',:)
# What the checks, the tests and the documentation want besides.
development: $(VENV)/development.stamp install

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo 'Python 3.11 or newer is needed: make PYTHON=python3.12 ...' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || $(SUDO) apt-get install -y python3-venv
	@echo 'Making the virtual environment $(VENV)'
	@$(PYTHON) -m venv $(VENV)

# $(call packages,EXPRESSION): installs what it names in the project's table p of pyproject.toml.
packages = $(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; print(*$(1), sep="\n")' \
    > $(VENV)/$(@F).txt && $(PIP_INSTALL) -r $(VENV)/$(@F).txt

# First what text and model need, which is a third of all, then the commands, then the rest. PyTorch waits for the
# commands in a new environment alone: later it would make `make check` install them after each edit.
FIRST_TIME := $(if $(wildcard $(VENV)/package.stamp),,$(VENV)/package.stamp)
$(VENV)/first.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo 'Installing the first packages into $(VENV)'
	@$(PIP_INSTALL) setuptools wheel
	@$(call packages,[name for name in p["dependencies"] if not name.startswith("torch")] + p["optional-dependencies"]["build"])
	@touch $@

# Without an NVIDIA GPU the CPU build of PyTorch is wanted, since the default one brings gigabytes
# of CUDA libraries: first from where pip looks, then from PyTorch's own index, which uv knows.
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

# $(call extras,NAMES): installs extras of pyproject.toml.
extras = $(call packages,(name for extra in "$(1)".split() for name in p["optional-dependencies"][extra]))

# KenLM has no wheel. It is compiled, if need be by a compiler that apt brings; without one the rest is installed.
$(VENV)/kenlm.stamp: $(VENV)/dependencies.stamp
	@$(MAKE) --no-print-directory kenlm
	@touch $@
kenlm:
	@if $(BIN)/python -c 'import kenlm' 2>/dev/null; then exit 0; fi; \
	if ! command -v g++ >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo 'Installing a C++ compiler for KenLM'; \
	    { timeout 60 apt-get update -qq && timeout 300 apt-get install -y -qq --no-install-recommends g++ cmake; } \
	        >/dev/null 2>&1 || true; \
	fi; \
	if command -v g++ >/dev/null && echo 'Compiling KenLM (a minute or two)' && { $(call extras,kenlm); } >$(VENV)/kenlm.log 2>&1; then exit 0; fi; \
	echo 'KenLM is not installed, all else is. What is missing: rescorer perplexity on binary language models that were built' \
	    'without their words or with rest costs. It needs a C++ compiler: install g++ and cmake, then type: make kenlm' >&2

$(VENV)/development.stamp: $(VENV)/dependencies.stamp
	@echo 'Installing what checks, tests and the documentation need'
	@$(call extras,dev docs)
	@touch $@

# What numba has kept of functions whose classes have other names now cannot be read: it is removed.
$(VENV)/package.stamp: $(VENV)/first.stamp $(SOURCES)
	@rm -rf build/lib build/bdist.*
	@find $(PACKAGES:%=$(VENV)/lib/python*/site-packages/%) -name '*.nb[ic]' -delete 2>/dev/null || true
	@echo 'Installing rescorer'
	@$(PIP_INSTALL) --no-deps --no-build-isolation --force-reinstall .
	@touch $@

# Otherwise commands side by side would each compile the same at their first use.
$(VENV)/warm.stamp: $(VENV)/package.stamp $(VENV)/dependencies.stamp
	@echo 'Compiling what the commands need (a minute or two)'
	@$(BIN)/rescorer warm
	@touch $@

# --- Checks ------------------------------------------------------------------------------------
# They read the source, so they wait for nothing that is compiled.
check: $(VENV)/development.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config setup.cfg

format: development
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
# The notebook of docs/examples is run, docs/settings.md made from the dataclasses of settings, docs/commands.md from the commands, docs/images/rooms.svg from the
# imports, and the tables and pictures of gains in README and docs from docs/results, where those of a finished build are
# taken first; `make test` compares.
notebook settings commands rooms results: development
	$(BIN)/python docs/make_$@.py $(if $(filter results,$@),--take $(BUILD))

# The documentation as a site; a warning ends it.
docs: development
	$(BIN)/zensical build --clean --strict
	@echo 'Open build/site/index.html'

# In as many processes as there are processors; tests/conftest.py says which tests share one. The slow ones, whole
# tables and searches that are repeated often, take as long as all others together: .ci/run has them.
PYTEST := $(BIN)/pytest -n $(JOBS) --dist loadscope --no-loadscope-reorder

test: development browser
	$(PYTEST) -m 'not slow'
test-all: development browser
	$(PYTEST)

# The tests of the page want Chromium and are skipped without it; what cannot be installed is left.
CHROMIUM := chromium chromium-browser google-chrome
browser: | $(VENV)/kenlm.stamp  # which may use apt, too
	@for name in $(CHROMIUM); do ! command -v $$name >/dev/null || exit 0; done; \
	[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0; \
	echo 'Installing Chromium for the tests of the page'; \
	{ timeout 60 apt-get update -qq && timeout 180 apt-get install -y -qq --no-install-recommends chromium; } \
	    >/dev/null 2>&1 || echo 'It could not be installed: those tests are skipped'

# More of what `make test` does a little of: 108,000 mutated tables and 100,000 other files, and commands that are
# killed some 1,000 times or lack room.
fuzz: development
	FUZZ_TABLES=80000 FUZZ_CASES=20000 $(PYTEST) --dist load -o timeout=3600 tests/fuzz
faults: development
	FAULT_POINTS=50 $(BIN)/pytest tests/faults

# The code is changed in one place at a time, and its tests must notice: tests/mutation/README.md. Hours for all
# modules; MODULES="tuning/loop/nbest_choice.py ..." names some, SURVIVORS=1 leaves out what was killed the last time.
MUTATE := $(BIN)/python tests/mutation/mutate.py $(if $(SURVIVORS),--survivors)
mutate: development
	$(call extras,mutation)
	$(MUTATE) --faults
	$(MUTATE) $(MODULES)

clean:
	find $(PACKAGES) -name '*.nb[ic]' -delete
	rm -rf build *.egg-info .mypy_cache .pytest_cache .ruff_cache .cache .hypothesis .import_linter_cache

# --- From a corpus to the BLEU table -------------------------------------------------------------
# Every arrow is a file made by one command, so a rerun does what is missing and a step can be entered
# with files from elsewhere: CORPUS=DIR ({train,dev,test}.SOURCE and .TARGET, tokenised) or
# MODEL=DIR (moses.ini with its tables, made by Moses, say).
SOURCE ?= en
TARGET ?= fr
SCALE ?= small
EXPERIMENTS := tuning/experiments
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
# Source sides of what the systems were trained on, whose near copies in the test text are counted.
TRAINED ?= $(CORPUS)/train.$(SOURCE)
# Their target sides, by whose words the accuracy of words is counted.
TRAINED_TARGETS = $(patsubst %.$(SOURCE),%.$(TARGET),$(filter %.$(SOURCE),$(TRAINED)))
# Texts that the filtered tables must serve.
INPUTS ?= $(DEV).$(SOURCE) $(TEST).$(SOURCE)

# The plan: what the experiment says of systems, networks and tables, as rules. It is made anew when a file of the
# experiment changes or one of these variables, which replace what the files have; make reads it again then.
comma := ,
space := $() $()
# $(call set,VARIABLE,KEY,QUOTE): the words of a variable as a list.
set = $(if $($(1)),--set '$(2) = [$(subst $(space),$(comma),$(patsubst %,$(3)%$(3),$(strip $($(1)))))]')
PLAN := $(B)/plan.mk
PLANNED := $(EXPERIMENT) $(call set,SEEDS,seeds.runs) $(call set,NOISE,seeds.noise) \
    $(call set,KNOWN,starts.known-start.leave_out,") $(call set,OPTIMIZERS,tables.optimizers.rows,") \
    $(call set,OPTIMIZER_SEEDS,seeds.optimizers)
# What needs no plan waits for none.
UNPLANNED := help install kenlm development check format notebook settings commands rooms results docs test test-all browser fuzz faults mutate clean regime% bench-long-tables bench-false-positives
ifneq ($(filter-out $(UNPLANNED),$(or $(MAKECMDGOALS),help)),)
ifneq ($(file <$(B)/planned),$(PLANNED))
$(shell mkdir -p $(B))$(file >$(B)/planned,$(PLANNED))
endif
include $(PLAN)
endif

$(PLAN): $(EXPERIMENT) $(B)/planned $(wildcard $(EXPERIMENTS)/*.py) | $(COMMANDS)
	$(BIN)/tuning plan $(PLANNED) --out $@

# Every command that makes something goes through this: its time and memory stand in the log of steps.
STEPS := $(B)/steps.jsonl
STEP = $(BIN)/moses-bridge step --log $(STEPS) --name $(patsubst $(B)/%,%,$@) --

table1: $(TABLES) $(B)/report.html
	@$(SHOW_TABLES)
	@[ ! -e $(STEPS) ] || { $(BIN)/moses-bridge steps $(STEPS); echo; }
	@echo 'The same with charts and translations: $(B)/report.html'

# $(call named,NAME): what a step tells, line by line behind its name, since other steps tell something too.
named = |& sed -u 's|^|$(1): |' >&2

# A section's file changes only when its text does, so an edit reruns what depends on it alone.
$(CONFIG)/.stamp: $(EXPERIMENT) | $(COMMANDS)
	$(BIN)/moses-bridge config $(EXPERIMENT) --out $(CONFIG)
	@touch $@
$(CONFIG)/%.toml: $(CONFIG)/.stamp ;

# What the plan says with few words. What is complete but older than its inputs is made anew; what was interrupted is continued.
FRESH = @[ ! -e $@ ] || rm -r $(@D)
DEV_TEXTS := --source $(DEV).$(SOURCE) --reference $(DEV).$(TARGET)
TEST_TEXTS = --source $(TEST).$(SOURCE) --reference $(TEST).$(TARGET)
# Tunings of one system, and the translation under their weights, load the same files: what these are in memory is kept.
LOADED := --cache $(B)/loaded
TUNE = $(BIN)/tuning tune $(DEV_TEXTS) --resume --jobs $(JOBS) $(LOADED)
RERANK = $(BIN)/tuning rerank $(DEV_TEXTS) --resume --run-commands --jobs $(JOBS)
TRANSLATE = $(BIN)/tuning translate --source $(TEST).$(SOURCE) --run-commands --jobs $(JOBS) $(LOADED)
# $(call given,OPTION,FILE): an option with a file, if it exists.
given = $$([ ! -e $(2) ] || echo $(1) $(2))
COMPARE = $(BIN)/tuning compare $(TEST_TEXTS) $(foreach text,$(TRAINED),$(call given,--train-source,$(text))) \
    $(foreach text,$(TRAINED_TARGETS),$(call given,--train-target,$(text))) \
    $(call given,--groups,$(TEST).groups) --target-language $(TARGET) --config $(CONFIG)/compare.toml --jobs $(PROCESSORS)
REPORT = $(BIN)/tuning report $(TEST_TEXTS) $(TABLES:%=--comparison %) $(MAPS:%=--map %) \
    $$([ ! -e $(STEPS) ] || echo --steps $(STEPS)) --title '$(SOURCE)-$(TARGET), $(SCALE)' --out $@

# Phrase models trained on n-best lists of the whole training text, made by systems that have not seen it.
home: $(B)/home/table.json ; @cat $(B)/home/table.txt

include $(EXPERIMENTS)/more.mk
include $(EXPERIMENTS)/domain/domain.mk
include tests/bench/benches.mk
