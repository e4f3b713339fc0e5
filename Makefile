# Everything from a fresh clone: `make table1` prints the BLEU table, `make test` runs the tests.
# Each target makes the virtual environment and installs what it needs.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PACKAGES := moses_bridge rescorer tuning
# `make table1` works on several steps at a time, since a tuning keeps one processor busy: as many as there are
# processors, four at most, with 1.5 GB of memory for each; AT_ONCE=1 does one after the other. The processors
# are divided among them: JOBS processes or threads a step.
PROCESSORS := $(shell nproc)
ifneq ($(filter table1 domain regimes bench-optimizers,$(MAKECMDGOALS)),)
ifndef AT_ONCE
AT_ONCE := $(shell awk -v most=$$(($(PROCESSORS) < 4 ? $(PROCESSORS) : 4)) '/^MemAvailable/ { \
    n = int($$2 / 1.5e6); print n < 1 ? 1 : n < most ? n : most }' /proc/meminfo)
endif
MAKEFLAGS += --jobs=$(AT_ONCE)
endif
AT_ONCE ?= 1
ifndef JOBS
JOBS := $(shell echo $$((($(PROCESSORS) + $(AT_ONCE) - 1) / $(AT_ONCE))))
endif
SOURCES := $(shell find $(PACKAGES) -name '*.py' -o -name '*.toml') pyproject.toml setup.cfg

.PHONY: help install development check format settings docs test browser fuzz faults mutate table1 domain regimes bench bench-build bench-significance bench-optimizers bench-long-tables bench-paper-model clean
help:
	@echo 'make table1 [SCALE=tiny|small|full] [SOURCE=en] [TARGET=fr]   corpus to BLEU table'
	@echo 'make domain                                                a phrase model trained on lists of another domain'
	@echo 'make regimes                                               where the phrase network gains: hours'
	@echo 'make test | check | format | settings | docs | fuzz | faults | mutate | bench | bench-build | bench-significance | bench-optimizers | bench-long-tables | bench-paper-model | install | clean'

# --- Installation ------------------------------------------------------------------------------

TORCH := $(shell sed -n 's/^torch==//p' constraints.txt)
# INSTALL= (empty) takes the virtual environment as it is.
INSTALL ?= install
# Compiling every module takes half of an installation; Python compiles those that are used.
PIP_INSTALL := $(BIN)/python -m pip --disable-pip-version-check install -q --no-compile -c constraints.txt
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

install: $(VENV)/package.stamp

# What the checks, the tests and the documentation want besides.
development: $(VENV)/development.stamp install

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo 'Python 3.11 or newer is needed: make PYTHON=python3.12 ...' >&2; exit 1; }
	$(PYTHON) -c 'import ensurepip' 2>/dev/null || $(SUDO) apt-get install -y python3-venv
	$(PYTHON) -m venv $(VENV)

# Without an NVIDIA GPU the CPU build of PyTorch is wanted, since the default one brings gigabytes
# of CUDA libraries: first from where pip looks, then from PyTorch's own index, which uv knows.
$(VENV)/torch.stamp: constraints.txt | $(VENV)/bin/python
	@if command -v nvidia-smi >/dev/null; then \
	    $(PIP_INSTALL) 'torch==$(TORCH)'; \
	else \
	    $(PIP_INSTALL) 'torch==$(TORCH)+cpu' 2>/dev/null \
	    || { $(PIP_INSTALL) uv \
	         && $(BIN)/uv pip install -q --python $(BIN)/python --torch-backend cpu 'torch==$(TORCH)'; } \
	    || $(PIP_INSTALL) 'torch==$(TORCH)'; \
	fi
	@touch $@

# $(call dependencies,EXPRESSION): what it names in the project's table p of pyproject.toml.
dependencies = $(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; print(*$(1), sep="\n")'

$(VENV)/dependencies.stamp: pyproject.toml constraints.txt $(VENV)/torch.stamp
	@echo 'Installing the dependencies into $(VENV)'
	$(PIP_INSTALL) setuptools wheel
	$(call dependencies,p["dependencies"]) > $(VENV)/requirements.txt
	$(PIP_INSTALL) -r $(VENV)/requirements.txt
	@touch $@

# $(call extras,NAMES): installs extras of pyproject.toml.
define extras
$(call dependencies,(name for extra in "$(1)".split() for name in p["optional-dependencies"][extra])) > $(VENV)/extras.txt
	$(PIP_INSTALL) -r $(VENV)/extras.txt
endef

$(VENV)/development.stamp: $(VENV)/dependencies.stamp
	$(call extras,dev docs)
	@touch $@

# What numba has kept of functions whose classes have other names now cannot be read: it is removed.
$(VENV)/package.stamp: $(VENV)/dependencies.stamp $(SOURCES)
	@rm -rf build/lib build/bdist.*
	@find $(PACKAGES:%=$(VENV)/lib/python*/site-packages/%) -name '*.nb[ic]' -delete 2>/dev/null || true
	$(PIP_INSTALL) --no-deps --no-build-isolation --force-reinstall .
	@touch $@

# --- Checks ------------------------------------------------------------------------------------

check: development
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config setup.cfg

format: development
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# docs/settings.md from the dataclasses of settings; `make test` compares the two.
settings: development
	$(BIN)/python docs/make_settings.py

# The documentation as a site; a warning ends it.
docs: development
	$(BIN)/mkdocs build --quiet
	@echo 'Open build/site/index.html'

test: development browser
	$(BIN)/pytest

# The tests of the page want Chromium and are skipped without it; what cannot be installed is left.
CHROMIUM := chromium chromium-browser google-chrome
browser:
	@for name in $(CHROMIUM); do ! command -v $$name >/dev/null || exit 0; done; \
	[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0; \
	echo 'Installing Chromium for the tests of the page'; \
	{ timeout 60 apt-get update -qq && timeout 180 apt-get install -y -qq --no-install-recommends chromium; } \
	    >/dev/null 2>&1 || echo 'It could not be installed: those tests are skipped'

# More of what `make test` does a little of: mutated files, and commands that are killed or lack room.
fuzz: development
	FUZZ_CASES=20000 $(BIN)/pytest tests/fuzz

faults: development
	FAULT_POINTS=50 $(BIN)/pytest tests/faults

# The code is changed in one place at a time, and its tests must notice: docs/mutations.md. Hours for all
# modules; MODULES="tuning/rerank.py ..." names some, SURVIVORS=1 leaves out what was killed the last time.
MODULES ?=
MUTATE := $(BIN)/python tests/mutation/mutate.py $(if $(SURVIVORS),--survivors)
mutate: development
	$(call extras,mutation)
	$(MUTATE) --faults
	$(MUTATE) $(MODULES)

clean:
	find $(PACKAGES) -name '*.nb[ic]' -delete
	rm -rf build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# --- From a corpus to the BLEU table -------------------------------------------------------------

# Every arrow is a file made by one command, so a rerun does what is missing and a step can be entered
# with files from elsewhere: CORPUS=DIR ({train,dev,test}.SOURCE and .TARGET, tokenised) or
# MODEL=DIR (moses.ini with its tables, made by Moses, say).

SOURCE ?= en
TARGET ?= fr
SCALE ?= small
EXPERIMENT ?= tuning/experiments/$(SCALE).toml

PAIR := $(if $(filter-out en-fr,$(SOURCE)-$(TARGET)),-$(SOURCE)-$(TARGET))
BUILD ?= build
B := $(BUILD)/table1$(if $(filter-out small,$(SCALE)),-$(SCALE))$(PAIR)
CORPUS ?= $(B)/corpus
MODEL ?= $(B)/model
LINKS ?= $(MODEL)/aligned.grow-diag-final-and.gz
CONFIG := $(B)/config
FILTERED := $(B)/filtered/phrase-table.gz
START := $(B)/runs/start/weights.json
# Where the networks of added columns are: a table with more sentences is scored by those of the table without them.
NETWORKS ?= $(B)
DEV := $(CORPUS)/dev
TEST := $(CORPUS)/test

# The plan: what the experiment says of systems, networks and tables, as rules. It is made anew when a file of the
# experiment changes or one of these variables, which replace what the files have; make reads it again then.
comma := ,
space := $() $()
list = [$(subst $(space),$(comma),$(strip $(1)))]
texts = $(call list,$(patsubst %,"%",$(1)))
PLAN := $(B)/plan.mk
PLANNED := $(EXPERIMENT) $(if $(SEEDS),--set 'seeds.runs = $(call list,$(SEEDS))') \
    $(if $(NOISE),--set 'seeds.noise = $(call list,$(NOISE))') \
    $(if $(KNOWN),--set 'starts.known-start.leave_out = $(call texts,$(KNOWN))') \
    $(if $(OPTIMIZERS),--set 'tables.optimizers.rows = $(call texts,$(OPTIMIZERS))') \
    $(if $(OPTIMIZER_SEEDS),--set 'seeds.optimizers = $(call list,$(OPTIMIZER_SEEDS))')
ifneq ($(filter-out help install development check format settings docs test browser fuzz faults mutate clean domain \
    regimes regime-% bench-build bench-long-tables bench-paper-model,$(or $(MAKECMDGOALS),help)),)
ifneq ($(file <$(B)/planned),$(PLANNED))
$(shell mkdir -p $(B))$(file >$(B)/planned,$(PLANNED))
endif
include $(PLAN)
endif

$(PLAN): $(EXPERIMENT) $(B)/planned $(wildcard tuning/experiments/*.py) | $(INSTALL)
	$(BIN)/tuning plan $(PLANNED) --out $@

# Every command that makes something goes through this: its time and memory stand in the log of steps.
STEPS := $(B)/steps.jsonl
STEP = $(BIN)/moses-bridge step --log $(STEPS) --name $(patsubst $(B)/%,%,$@) --

table1: $(TABLES) $(B)/report.html
	@$(SHOW_TABLES)
	@[ ! -e $(STEPS) ] || $(BIN)/moses-bridge steps $(STEPS)
	@echo
	@echo 'The same with charts and translations: $(B)/report.html'

# $(call named,NAME): what a step tells, line by line behind its name, since other steps tell something too.
named = |& sed -u 's|^|$(1): |' >&2

# A section's file changes only when its text does, so an edit reruns what depends on it alone.
$(CONFIG)/.stamp: $(EXPERIMENT) | $(INSTALL)
	$(BIN)/moses-bridge config $(EXPERIMENT) --out $(CONFIG)
	@touch $@
$(CONFIG)/%.toml: $(CONFIG)/.stamp ;

$(B)/corpus/train.$(SOURCE): $(CONFIG)/corpus.toml | $(INSTALL)
	$(STEP) $(BIN)/moses-bridge corpus --source $(SOURCE) --target $(TARGET) --out $(B)/corpus --config $< \
	    $(call named,corpus)
$(B)/corpus/%: $(B)/corpus/train.$(SOURCE) ;

$(B)/model/moses.ini: $(CORPUS)/train.$(SOURCE) $(CORPUS)/train.$(TARGET) $(CONFIG)/build.toml | $(INSTALL)
	$(STEP) $(BIN)/moses-bridge build --corpus $(CORPUS)/train --source $(SOURCE) --target $(TARGET) \
	    --out $(B)/model --config $(CONFIG)/build.toml --jobs $(JOBS) $(call named,build)

# Texts that the filtered tables must serve.
INPUTS ?= $(DEV).$(SOURCE) $(TEST).$(SOURCE)

$(B)/filtered/moses.ini: $(MODEL)/moses.ini $(INPUTS) | $(INSTALL)
	$(STEP) $(BIN)/moses-bridge filter --ini $< $(INPUTS:%=--input %) --out $(@D) $(call named,filter)

# N-best lists of the training text, for networks that learn from them.
$(B)/lists/train.gz: $(START) $(CONFIG)/lists.toml $(CORPUS)/train.$(SOURCE)
	$(STEP) $(BIN)/moses-bridge decode --ini $(<D)/moses.ini --input $(CORPUS)/train.$(SOURCE) --output $(@D)/train.$(TARGET) \
	    --nbest $@ --config $(CONFIG)/lists.toml --jobs $(JOBS) $(call named,lists)

# What the plan says with few words. What is complete but older than its inputs is made anew; what was interrupted is continued.
FRESH = @[ ! -e $@ ] || rm -r $(@D)
DEV_TEXTS := --source $(DEV).$(SOURCE) --reference $(DEV).$(TARGET)
TEST_TEXTS := --source $(TEST).$(SOURCE) --reference $(TEST).$(TARGET)
TUNE = $(BIN)/tuning tune $(DEV_TEXTS) --resume --jobs $(JOBS)
RERANK = $(BIN)/tuning rerank $(DEV_TEXTS) --resume --run-commands --jobs $(JOBS)
TRANSLATE = $(BIN)/tuning translate --source $(TEST).$(SOURCE) --run-commands --jobs $(JOBS)
COMPARE = $(BIN)/tuning compare $(TEST_TEXTS) --target $(TARGET) --config $(CONFIG)/compare.toml --jobs $(PROCESSORS)
REPORT = $(BIN)/tuning report $(TEST_TEXTS) $(TABLES:%=--table %) $(MAPS:%=--map %) \
    $$([ ! -e $(STEPS) ] || echo --steps $(STEPS)) --title '$(SOURCE)-$(TARGET), $(SCALE)' --out $@

# --- Another domain --------------------------------------------------------------------------------
# 2,000 translated sentences of a domain that the table knows little of: what they give as lists for phrase
# models, beside a table that does not have them and beside one that does.

# $(call in_build,DIRECTORY,SETTINGS,TABLE,VARIABLES): a table of an experiment with other settings, in a build of its own.
in_build = $(MAKE) BUILD=$(1) EXPERIMENT='$(EXPERIMENT) $(2)' INSTALL= JOBS=$(JOBS) $(4) $(1)/$(3)

D := $(BUILD)/domain
DOMAIN_TABLE := $(notdir $(B))/domain/table.json
LANGUAGES := $(SOURCE) $(TARGET)

$(D)/corpus/train.$(SOURCE): tuning/experiments/domain/corpus.toml | $(INSTALL)
	$(BIN)/moses-bridge corpus --source $(SOURCE) --target $(TARGET) --out $(@D) --config $< $(call named,domain)

# The training text of the table and the new one; dev and test are the new domain's.
$(D)/joined/train.$(SOURCE): $(D)/corpus/train.$(SOURCE) $(CORPUS)/train.$(SOURCE)
	mkdir -p $(@D)
	for language in $(LANGUAGES); do cp $(foreach part,dev test,$(D)/corpus/$(part).$$language) $(@D); done
	for language in $(TARGET) $(SOURCE); do cat $(CORPUS)/train.$$language $(D)/corpus/train.$$language > $(@D)/train.$$language; done

in_domain = $(call in_build,$(D)/$(1),tuning/experiments/domain/lists.toml,$(DOMAIN_TABLE),$(2))

domain: $(D)/corpus/train.$(SOURCE) $(D)/joined/train.$(SOURCE) $(MODEL)/moses.ini
	+$(call in_domain,without,MODEL=$(MODEL) CORPUS=$(D)/corpus INPUTS='$(foreach part,train dev test,$(D)/corpus/$(part).$(SOURCE))')
	+$(call in_domain,with,CORPUS=$(D)/joined NETWORKS=$(D)/without/$(notdir $(B)))
	for model in RNN CPTM; do \
	    $(BIN)/tuning gains 'table without them=$(D)/without/$(DOMAIN_TABLE)' 'table with them=$(D)/with/$(DOMAIN_TABLE)' \
	        --system "+$$model for BLEU" --out $(D)/$$model || exit 1; \
	done

# --- Regimes ----------------------------------------------------------------------------------------
# When does the phrase network's column pay? The default experiment on other data, each changed by one file.

REGIMES ?= 5000-pairs 20000-pairs 60000-pairs all-pairs no-smoothing mismatched-20 mismatched-40 mixed-domains other-domain
REGIME_TABLE := $(notdir $(B))/regime/table.json

$(REGIMES:%=regime-%): regime-%: | $(INSTALL)
	+$(call in_build,$(BUILD)/regimes/$*,tuning/experiments/regimes/$*.toml,$(REGIME_TABLE))

regimes: $(REGIMES:%=regime-%)
	$(BIN)/tuning gains $(foreach name,$(REGIMES),$(name)=$(BUILD)/regimes/$(name)/$(REGIME_TABLE)) --system +RNN \
	    --out $(BUILD)/regimes

# --- Benchmarks ------------------------------------------------------------------------------------
# On the tables of `make table1`; peers that are not on the PATH are left out.

BENCH := cd tests/bench && $(abspath $(BIN))/python
RESULTS := $(abspath $(BUILD))/bench

bench: $(B)/tables/rnn/moses.ini $(foreach name,baseline cslm nnjm,$(B)/runs/$(name)-1/weights.json) | $(INSTALL)
	$(BENCH) bench_scoring.py $(abspath $(FILTERED)) $(abspath $(B)/encdec) $(RESULTS)/scoring.json
	$(BENCH) bench_generation.py $(abspath $(FILTERED)) $(abspath $(B)/encdec) $(RESULTS)/generation.json
	$(BENCH) bench_phrase_models.py $(abspath $(FILTERED)) $(RESULTS)/phrase_models.json encdec=$(abspath $(B)/encdec)
	$(BENCH) bench_training.py $(abspath $(FILTERED)) $(RESULTS)/training.json
	$(BENCH) bench_decoding.py $(abspath $(DEV).$(SOURCE)) $(RESULTS)/decoding.json \
	    $(abspath $(B)/runs/cslm-1 $(B)/runs/nnjm-1 $(B)/cslm $(B)/nnjm)
	$(BENCH) bench_window_training.py $(abspath $(CORPUS)/train.$(TARGET)) $(abspath $(CORPUS)/train.$(SOURCE)) \
	    $(abspath $(MODEL)/aligned.grow-diag-final-and.gz) $(RESULTS)/window_training.json
	$(BENCH) bench_sentences.py $(abspath $(B)/runs/baseline-1/iter01.nbest.gz) $(abspath $(DEV).$(SOURCE)) \
	    $(abspath $(CORPUS)/train.$(SOURCE)) $(abspath $(CORPUS)/train.$(TARGET)) $(RESULTS)/sentences.json
	$(BENCH) bench_long_lists.py $(abspath $(CORPUS)/train.$(SOURCE)) $(abspath $(CORPUS)/train.$(TARGET)) \
	    $(RESULTS)/long_lists.json
	$(BENCH) bench_lookups.py $(abspath $(CORPUS)/train.$(SOURCE)) $(abspath $(CORPUS)/train.$(TARGET)) \
	    $(RESULTS)/lookups.json
	$(BENCH) bench_report.py $(abspath $(CORPUS)/train.$(SOURCE)) $(abspath $(CORPUS)/train.$(TARGET)) $(RESULTS)/report.json
	$(BENCH) bench_busy_machine.py $(abspath $(FILTERED)) $(abspath $(B)/encdec) $(RESULTS)/busy_machine.json
	$(BENCH) bench_tuning.py $(abspath $(B)/runs/baseline-1/iter01.nbest.gz) \
	    $(abspath $(DEV).$(TARGET)) $(RESULTS)/tuning.json

# Time and memory of a model for 1, 3 and 10 times a part of the corpus: some minutes.
PAIRS ?= 10000
bench-build: $(CORPUS)/train.$(SOURCE) $(CORPUS)/train.$(TARGET) | $(INSTALL)
	$(BENCH) bench_build.py $(abspath $(CORPUS)/train) $(SOURCE) $(TARGET) $(PAIRS) $(RESULTS)/build.json

# How often the table would call equal systems different: 72 tunings of columns of noise, about an hour.
bench-significance: $(B)/filtered/moses.ini $(START) $(TEST).$(SOURCE) | $(INSTALL)
	$(BENCH) bench_significance.py $(abspath $(B)/filtered/moses.ini) $(abspath $(START)) \
	    $(abspath $(DEV).$(SOURCE)) $(abspath $(TEST).$(SOURCE)) $(TARGET) $(RESULTS)/significance

# Training from a table of any length: make bench-long-tables ROWS=100000000 wants 15 GB of disk.
ROWS ?= 10000000
bench-long-tables: | $(INSTALL)
	mkdir -p $(RESULTS)
	$(BENCH) bench_long_tables.py $(ROWS) $(RESULTS) $(RESULTS)/long_tables.json

# What each optimiser makes of the baseline: OPTIMIZERS takes some, OPTIMIZER_SEEDS as many tunings each.
bench-optimizers: $(B)/optimizers/table.json
	@cat $(<D)/table.txt

# The paper's sizes want a GPU: make bench-paper-model SCALE=full DEVICE=cuda
DEVICE ?= cpu
MINUTES ?= 600
bench-paper-model: $(MODEL)/moses.ini | $(INSTALL)
	$(BENCH) bench_paper_model.py $(abspath $(MODEL)/phrase-table.gz) $(RESULTS) $(DEVICE) $(MINUTES)
