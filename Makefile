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

.PHONY: help install development check format settings docs test test-all browser fuzz faults mutate table1 domain regimes bench bench-build bench-significance bench-optimizers bench-long-tables bench-paper-model clean
help:
	@echo 'make table1 [SCALE=tiny|small|full] [SOURCE=en] [TARGET=fr]   corpus to BLEU table'
	@echo 'make domain                                                a phrase model trained on lists of another domain'
	@echo 'make regimes                                               where the phrase network gains: hours'
	@echo 'make test | test-all | check | format | settings | docs | fuzz | faults | mutate | bench | bench-build | bench-significance | bench-optimizers | bench-long-tables | bench-paper-model | install | clean'

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

# In as many processes as there are processors; tests/conftest.py says which tests share one. The slow ones, whole
# tables and searches that are repeated often, take as long as all others together: .ci/run has them.
PYTEST := $(BIN)/pytest -n $(JOBS) --dist loadscope --no-loadscope-reorder

test: development browser
	$(PYTEST) -m 'not slow'

test-all: development browser
	$(PYTEST)

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
	FUZZ_CASES=20000 $(PYTEST) tests/fuzz

faults: development
	FAULT_POINTS=50 $(BIN)/pytest tests/faults

# The code is changed in one place at a time, and its tests must notice: docs/mutations.md. Hours for all
# modules; MODULES="tuning/loop/nbest_choice.py ..." names some, SURVIVORS=1 leaves out what was killed the last time.
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
SEEDS ?= 1 2 3
# Seeds of the columns of noise, one tuning each; and columns that are known to help, p(source|target) of
# phrases and of words: without them the baseline loses about 1 BLEU, without p(target|source) a third of one.
NOISE ?= 1 2 3
KNOWN ?= TranslationModel0_0 TranslationModel0_1
EXPERIMENT ?= tuning/experiments/$(SCALE).toml

PAIR := $(if $(filter-out en-fr,$(SOURCE)-$(TARGET)),-$(SOURCE)-$(TARGET))
BUILD ?= build
B := $(BUILD)/table1$(if $(filter-out small,$(SCALE)),-$(SCALE))$(PAIR)
CORPUS ?= $(B)/corpus
MODEL ?= $(B)/model
LINKS ?= $(MODEL)/aligned.grow-diag-final-and.gz
CONFIG := $(B)/config
SECTIONS := corpus build encdec encdec_counted cslm nnjm rnn_lm rnnsearch contrast word_pairs lists expected_bleu expected_bleu_linear start tune rerank compare
DEV := $(CORPUS)/dev
TEST := $(CORPUS)/test

# Every command that makes something goes through this: its time and memory stand in the log of steps.
STEPS := $(B)/steps.jsonl
STEP = $(BIN)/moses-bridge step --log $(STEPS) --name $(patsubst $(B)/%,%,$@) --

table1: $(B)/table.json $(B)/controls/table.json $(B)/report.html
	@cat $(B)/table.txt
	@echo
	@[ ! -e $(B)/reranking/table.txt ] || { echo 'Lists of the best system, reranked:'; cat $(B)/reranking/table.txt; echo; }
	@echo 'What is known to help, left out and added back:'
	@cat $(B)/controls/table.txt
	@echo
	@[ ! -e $(STEPS) ] || $(BIN)/moses-bridge steps $(STEPS)
	@echo
	@echo 'The same with charts and translations: $(B)/report.html'

# $(call named,NAME): what a step tells, line by line behind its name, since other steps tell something too.
named = |& sed -u 's|^|$(1): |' >&2

# A section's file changes only when its text does, so an edit reruns what depends on it alone.
$(CONFIG)/.stamp: $(EXPERIMENT) | $(INSTALL)
	$(BIN)/moses-bridge config $(EXPERIMENT) --out $(CONFIG)
	@touch $@
$(SECTIONS:%=$(CONFIG)/%.toml): $(CONFIG)/.stamp ;

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

FILTERED := $(B)/filtered/phrase-table.gz

# What is complete but older than its inputs is made anew; what was interrupted is continued.
FRESH = @[ ! -e $@ ] || rm -r $(@D)

# $(call network,NAME,PREREQUISITE,OPTIONS,TRAINING FILE,SEED,SECTION): by default 1, and the section of its name.
define network
$(B)/$(1)/trained: $(2) $(CONFIG)/$(or $(6),$(1)).toml | $(INSTALL)
	$$(FRESH)
	OMP_NUM_THREADS=$(JOBS) $$(STEP) $(BIN)/rescorer train $(4) --out $$(@D) --config $(CONFIG)/$(or $(6),$(1)).toml \
	    --resume --seed $(or $(5),1) $(3) $(call named,$(1))
	@touch $$@
endef
# Shortlists hold a share of the running words of the training text, of which the table knows phrases alone.
TEXTS := --texts $(CORPUS)/train.$(SOURCE) $(CORPUS)/train.$(TARGET)
$(eval $(call network,encdec,$(B)/filtered/moses.ini,$(TEXTS),$(FILTERED)))
$(eval $(call network,encdec_counted,$(B)/filtered/moses.ini,$(TEXTS),$(FILTERED)))
$(eval $(call network,cslm,$(CORPUS)/train.$(TARGET),--arch cslm,$(CORPUS)/train.$(TARGET)))
LINKED := --arch nnjm --source $(CORPUS)/train.$(SOURCE) --links $(LINKS)
$(eval $(call network,nnjm,$(MODEL)/moses.ini,$(LINKED),$(CORPUS)/train.$(TARGET)))
$(eval $(call network,nnjm2,$(MODEL)/moses.ini,$(LINKED),$(CORPUS)/train.$(TARGET),2,nnjm))
$(eval $(call network,rnn_lm,$(CORPUS)/train.$(TARGET),--arch rnn_lm,$(CORPUS)/train.$(TARGET)))
$(eval $(call network,rnnsearch,$(CORPUS)/train.$(TARGET),--arch rnnsearch --source $(CORPUS)/train.$(SOURCE),$(CORPUS)/train.$(TARGET)))
$(eval $(call network,rnnsearch2,$(CORPUS)/train.$(TARGET),--arch rnnsearch --source $(CORPUS)/train.$(SOURCE),$(CORPUS)/train.$(TARGET),2,rnnsearch))

# $(call columns,SYSTEM,MODEL,OPTIONS): a table with added columns and its moses.ini.
define columns
$(B)/tables/$(1)/moses.ini: $(2) | $(INSTALL)
	$$(STEP) $(BIN)/rescorer score $(FILTERED) --out $$(@D)/phrase-table.gz \
	    --ini $(B)/filtered/moses.ini --ini-out $$@ --resume --jobs $(JOBS) $(3) $(call named,$(1))
endef
$(eval $(call columns,rnn,$(B)/encdec/trained,--model $(B)/encdec))
$(eval $(call columns,rnn-wp,$(B)/encdec/trained,--model $(B)/encdec --unknown-words))
$(eval $(call columns,rnn-counted,$(B)/encdec_counted/trained,--model $(B)/encdec_counted))
$(foreach seed,$(NOISE),$(eval $(call columns,random-$(seed),$(B)/filtered/moses.ini,--control random --seed $(seed))))

# All systems are tuned around the same point, the weights of one tuning of the baseline; each run starts
# from a place of its own there (start_spread).
TUNE := $(BIN)/tuning tune --source $(DEV).$(SOURCE) --reference $(DEV).$(TARGET) --resume --jobs $(JOBS)
START := $(B)/runs/start/weights.json

$(START): $(B)/filtered/moses.ini $(CONFIG)/start.toml
	$(FRESH)
	$(STEP) $(TUNE) --ini $< --out $(@D) --seed 0 --config $(CONFIG)/start.toml $(call named,start)

# The CSLM and the NNJM, which sees the source, are features of the search itself: on lists alone the CSLM gains less
# (docs/experiments.md).
CSLM := --neural-lm "CSLM0=$(BIN)/rescorer serve $(B)/cslm --unnormalized"
NNJM := --neural-lm "NNJM0=$(BIN)/rescorer serve $(B)/nnjm --unnormalized"
TWO_NNJM := $(NNJM) --neural-lm "NNJM1=$(BIN)/rescorer serve $(B)/nnjm2 --unnormalized"
# $(call on_lists,FEATURE,NETWORKS): one network, or an ensemble. The search cannot have it, and lists made without what
# it takes over in a tuning lead astray (docs/experiments.md): so it chooses from the lists of runs that stay as they are.
on_lists = --nbest-feature "$(1)=$(BIN)/rescorer nbest {nbest} --source {source} $(2:%=--model $(B)/%) --feature $(1) --out {out} --precision bfloat16"
RNNSEARCH := $(call on_lists,RNNSearch0,rnnsearch)
ENSEMBLE := $(call on_lists,RNNSearch0,rnnsearch rnnsearch2)
RNN_LM := $(call on_lists,RNNLM0,rnn_lm)

# $(call run,SYSTEM,INI,OPTIONS,PREREQUISITE,SEED,START,SETTINGS): by default those of the section "tune".
define run
$(B)/runs/$(1)-$(5)/weights.json: $(2) $(6) $(4) $(CONFIG)/$(or $(7),tune).toml
	$$(FRESH)
	$$(STEP) $(TUNE) --ini $(2) --out $$(@D) --seed $(5) --init-weights $(6) --config $(CONFIG)/$(or $(7),tune).toml $(3) \
	    $(call named,$(1)-$(5))
endef
# $(call translated,SYSTEM,SEEDS): the test text under the weights of its runs.
define translated
$(B)/runs/$(1).translated: $(2:%=$(B)/runs/$(1)-%/weights.json) $(TEST).$(SOURCE)
	$$(STEP) $(BIN)/tuning translate $(2:%=$(B)/runs/$(1)-%) --source $(TEST).$(SOURCE) --run-commands --jobs $(JOBS) \
	    $(call named,$(1))
	@touch $$@
endef
# $(call system,NAME,INI,OPTIONS,PREREQUISITE): one tuning run for each seed.
define system
$(foreach seed,$(SEEDS),$(eval $(call run,$(1),$(2),$(3),$(4),$(seed),$(START))))
$(eval $(call translated,$(1),$(SEEDS)))
SYSTEMS += $(1)
endef
$(eval $(call system,baseline,$(B)/filtered/moses.ini))
$(eval $(call system,rnn,$(B)/tables/rnn/moses.ini))
$(eval $(call system,cslm,$(B)/filtered/moses.ini,$(CSLM),$(B)/cslm/trained))
$(eval $(call system,cslm-rnn,$(B)/tables/rnn/moses.ini,$(CSLM),$(B)/cslm/trained))
$(eval $(call system,cslm-rnn-wp,$(B)/tables/rnn-wp/moses.ini,$(CSLM),$(B)/cslm/trained))
$(eval $(call system,nnjm,$(B)/filtered/moses.ini,$(NNJM),$(B)/nnjm/trained))
$(eval $(call system,cslm-nnjm,$(B)/filtered/moses.ini,$(CSLM) $(NNJM),$(B)/cslm/trained $(B)/nnjm/trained))
$(eval $(call system,cslm-nnjm-rnn,$(B)/tables/rnn/moses.ini,$(CSLM) $(NNJM),$(B)/cslm/trained $(B)/nnjm/trained))
$(foreach seed,$(NOISE),$(eval $(call run,random,$(B)/tables/random-$(seed)/moses.ini,,,$(seed),$(START))))
$(eval $(call translated,random,$(NOISE)))
SYSTEMS += random

# $(call reranking,NAME,RUN,FEATURE,PREREQUISITE,SEED): the lists of a run are weighed anew.
define reranking
$(B)/runs/$(1)-$(5)/weights.json: $(B)/runs/$(2)-$(5)/weights.json $(4) $(CONFIG)/rerank.toml
	$$(FRESH)
	$$(STEP) $(BIN)/tuning rerank $(B)/runs/$(2)-$(5) --source $(DEV).$(SOURCE) --reference $(DEV).$(TARGET) --out $$(@D) \
	    --seed $(5) --config $(CONFIG)/rerank.toml --resume --run-commands --jobs $(JOBS) $(3) $(call named,$(1)-$(5))
endef
# $(call reranked,NAME,SYSTEM,FEATURES,NETWORKS): without a feature it is the control, which tells what weights for the lists give.
define reranked
$(foreach seed,$(SEEDS),$(eval $(call reranking,$(1),$(2),$(3),$(4:%=$(B)/%/trained),$(seed))))
$(eval $(call translated,$(1),$(SEEDS)))
RERANKED += $(1)
endef
ifeq ($(SCALE),full)
$(eval $(call system,rnn-counted,$(B)/tables/rnn-counted/moses.ini))
TWO_TRAINED := $(B)/nnjm/trained $(B)/nnjm2/trained
$(eval $(call system,two-nnjm,$(B)/filtered/moses.ini,$(TWO_NNJM),$(TWO_TRAINED)))
$(eval $(call system,cslm-two-nnjm,$(B)/filtered/moses.ini,$(CSLM) $(TWO_NNJM),$(B)/cslm/trained $(TWO_TRAINED)))
define reranked_systems
$(call reranked,$(1)-reranked,$(1))
$(call reranked,$(1)-rnn_lm,$(1),$(RNN_LM),rnn_lm)
$(call reranked,$(1)-rnnsearch,$(1),$(RNNSEARCH),rnnsearch)
$(call reranked,$(1)-ensemble,$(1),$(ENSEMBLE),rnnsearch rnnsearch2)
$(call reranked,$(1)-all,$(1),$(ENSEMBLE) $(RNN_LM),rnnsearch rnnsearch2 rnn_lm)
endef
$(foreach system,baseline cslm-nnjm,$(eval $(call reranked_systems,$(system))))
SYSTEMS += $(RERANKED)
RERANKED_ROWS = '$(1)reranked=$(call runs,$(2)-reranked)' '$(1)RNN LM=$(call runs,$(2)-rnn_lm)' \
    '$(1)RNNsearch=$(call runs,$(2)-rnnsearch)' '$(1)ensemble of two RNNsearch=$(call runs,$(2)-ensemble)' \
    '$(1)ensemble+RNN LM=$(call runs,$(2)-all)'
EXTRA_ROWS = '+RNN trained on counts=$(call runs,rnn-counted)' \
    '+two NNJM=$(call runs,two-nnjm)' '+CSLM+two NNJM=$(call runs,cslm-two-nnjm)' $(call RERANKED_ROWS,+,baseline) \
    $(call RERANKED_ROWS,+CSLM+NNJM+,cslm-nnjm)
TABLES := $(B)/reranking/table.json
endif

comma := ,
space := $() $()
runs = $(subst $(space),$(comma),$(strip $(patsubst %,$(B)/runs/$(1)-%,$(or $(2),$(SEEDS)))))

# $(call noise_table,'+NAME=RUNS' ...): rows, set against the baseline and the columns of noise.
COMPARE = $(STEP) $(BIN)/tuning compare --source $(TEST).$(SOURCE) --reference $(TEST).$(TARGET) --out $(@D) \
    --target $(TARGET) --config $(CONFIG)/compare.toml --jobs $(PROCESSORS)
noise_table = $(COMPARE) 'Baseline=$(call runs,baseline)' $(1) 'control: random columns=$(call runs,random,$(NOISE))' \
    --control 'control: random columns' >/dev/null

$(B)/table.json: $(SYSTEMS:%=$(B)/runs/%.translated) $(TEST).$(TARGET) $(CONFIG)/compare.toml
	$(COMPARE) --run-commands 'Baseline=$(call runs,baseline)' '+RNN=$(call runs,rnn)' '+CSLM=$(call runs,cslm)' \
	    '+CSLM+RNN=$(call runs,cslm-rnn)' '+CSLM+RNN+WP=$(call runs,cslm-rnn-wp)' \
	    '+NNJM=$(call runs,nnjm)' '+CSLM+NNJM=$(call runs,cslm-nnjm)' '+CSLM+NNJM+RNN=$(call runs,cslm-nnjm-rnn)' \
	    'control: random columns=$(call runs,random,$(NOISE))' --control 'control: random columns' \
	    $(EXTRA_ROWS) >/dev/null

# What networks on lists add to the best system, set against that system and against its lists with weights of their own.
$(B)/reranking/table.json: $(RERANKED:%=$(B)/runs/%.translated) $(B)/runs/cslm-nnjm.translated $(TEST).$(TARGET) $(CONFIG)/compare.toml
	$(COMPARE) --run-commands '+CSLM+NNJM=$(call runs,cslm-nnjm)' \
	    $(call RERANKED_ROWS,,cslm-nnjm) --control reranked >/dev/null

# The positive control: what is known to help is left out and, from there, added back as the others are. A chain that does not find it finds nothing.
KNOWN_START := $(B)/runs/known-start/weights.json

$(KNOWN_START): $(B)/filtered/moses.ini $(CONFIG)/start.toml
	$(FRESH)
	$(STEP) $(TUNE) --ini $< --out $(@D) --seed 0 --config $(CONFIG)/start.toml $(KNOWN:%=--leave-out %) \
	    $(call named,known-start)

$(foreach seed,$(SEEDS),$(eval $(call run,known-out,$(B)/filtered/moses.ini,$(KNOWN:%=--leave-out %),,$(seed),$(KNOWN_START))))
$(foreach seed,$(SEEDS),$(eval $(call run,known-back,$(B)/filtered/moses.ini,,,$(seed),$(KNOWN_START))))

$(eval $(call translated,known-out,$(SEEDS)))
$(eval $(call translated,known-back,$(SEEDS)))

$(B)/controls/table.json: $(B)/runs/known-out.translated $(B)/runs/known-back.translated $(TEST).$(TARGET) $(CONFIG)/compare.toml
	$(COMPARE) 'without $(KNOWN)=$(call runs,known-out)' 'added back=$(call runs,known-back)' >/dev/null

# What the phrase network has learned: phrases.json is written last.
$(B)/maps/phrases.json: $(B)/encdec/trained $(B)/filtered/moses.ini | $(INSTALL)
	$(STEP) $(BIN)/rescorer map $(B)/encdec $(FILTERED) --out $(@D) $(call named,maps)
$(B)/maps/words.json: $(B)/maps/phrases.json ;

# Both tables, the runs, the networks, the maps and the translations as one page.
MAPS ?= $(B)/maps/words.json $(B)/maps/phrases.json

$(B)/report.html: $(B)/table.json $(B)/controls/table.json $(TABLES) $(B)/tables/rnn/moses.ini $(MAPS)
	$(STEP) $(BIN)/tuning report --table $(B)/table.json --table $(B)/controls/table.json $(TABLES:%=--table %) \
	    --source $(TEST).$(SOURCE) --reference $(TEST).$(TARGET) --scored $(B)/tables/rnn/phrase-table.gz \
	    $(MAPS:%=--map %) $$([ ! -e $(STEPS) ] || echo --steps $(STEPS)) \
	    --title '$(SOURCE)-$(TARGET), $(SCALE)' --out $@ >/dev/null

# $(call in_build,DIRECTORY,SETTINGS,TABLE,VARIABLES): a table of an experiment with other settings, in a build of its own.
in_build = $(MAKE) BUILD=$(1) EXPERIMENT='$(EXPERIMENT) $(2)' INSTALL= JOBS=$(JOBS) $(4) $(1)/$(3)

# --- Another domain --------------------------------------------------------------------------------
# 2,000 translated sentences of a domain that the table knows little of: what they give as lists for phrase
# models, beside a table that does not have them and beside one that does.

# Where the networks are: a table with the sentences is scored by those of the table without them.
ON_LISTS ?= $(B)

# $(call trained_on_lists,SYSTEM,FIRST MODEL,SEED,SECTION)
define trained_on_lists
$(B)/$(1)-$(3)/trained: $(B)/$(2)-$(3)/trained $(B)/lists/train.gz $(CONFIG)/$(4).toml
	$$(FRESH)
	$$(STEP) $(BIN)/rescorer expected-bleu $(B)/$(2)-$(3) $(B)/lists/train.gz --source $(CORPUS)/train.$(SOURCE) \
	    --reference $(CORPUS)/train.$(TARGET) --out $$(@D) --config $(CONFIG)/$(4).toml --resume --seed $(3) \
	    $(call named,$(1)-$(3))
	@touch $$@
endef
# $(call column_of,SYSTEM,NETWORK,SEED): a row of its column, a network for each seed.
define column_of
$(call columns,$(1)-$(3),$(ON_LISTS)/$(2)-$(3)/trained,--model $(ON_LISTS)/$(2)-$(3))
$(call run,$(1),$(B)/tables/$(1)-$(3)/moses.ini,,,$(3),$(START))
endef
define models_on_lists
$(call network,contrast-$(1),$(B)/filtered/moses.ini,--arch cptm,$(FILTERED),$(1),contrast)
$(call network,encdec-$(1),$(B)/filtered/moses.ini,,$(FILTERED),$(1),encdec)
$(call network,word_pairs-$(1),$(B)/filtered/moses.ini,--arch word_pairs,$(FILTERED),$(1),word_pairs)
$(call trained_on_lists,cptm,contrast,$(1),expected_bleu)
$(call trained_on_lists,rnn-bleu,encdec,$(1),expected_bleu)
$(call trained_on_lists,pairs-bleu,word_pairs,$(1),expected_bleu_linear)
$(call column_of,cptm,cptm,$(1))
$(call column_of,pairs-bleu,pairs-bleu,$(1))
$(call column_of,rnn-bleu,rnn-bleu,$(1))
$(call column_of,rnn-table,encdec,$(1))
endef
$(foreach seed,$(SEEDS),$(eval $(call models_on_lists,$(seed))))
LIST_SYSTEMS := rnn-table rnn-bleu cptm pairs-bleu
$(foreach system,$(LIST_SYSTEMS),$(eval $(call translated,$(system),$(SEEDS))))

$(B)/lists/train.gz: $(START) $(CONFIG)/lists.toml $(CORPUS)/train.$(SOURCE)
	$(STEP) $(BIN)/moses-bridge decode --ini $(<D)/moses.ini --input $(CORPUS)/train.$(SOURCE) --output $(@D)/train.$(TARGET) \
	    --nbest $@ --config $(CONFIG)/lists.toml --jobs $(JOBS) $(call named,lists)

$(B)/domain/table.json: $(foreach system,baseline $(LIST_SYSTEMS) random,$(B)/runs/$(system).translated) $(TEST).$(TARGET) $(CONFIG)/compare.toml
	$(call noise_table,'+RNN=$(call runs,rnn-table)' '+RNN for BLEU=$(call runs,rnn-bleu)' '+CPTM for BLEU=$(call runs,cptm)' \
	    '+word pairs for BLEU=$(call runs,pairs-bleu)')

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
	+$(call in_domain,with,CORPUS=$(D)/joined ON_LISTS=$(D)/without/$(notdir $(B)))
	for model in RNN CPTM; do \
	    $(BIN)/tuning gains 'table without them=$(D)/without/$(DOMAIN_TABLE)' 'table with them=$(D)/with/$(DOMAIN_TABLE)' \
	        --system "+$$model for BLEU" --out $(D)/$$model || exit 1; \
	done

# --- Regimes ----------------------------------------------------------------------------------------
# When does the phrase network's column pay? The default experiment on other data, each changed by one file.

REGIMES ?= 5000-pairs 20000-pairs 60000-pairs all-pairs no-smoothing mismatched-20 mismatched-40 mixed-domains other-domain
REGIME_TABLE := $(notdir $(B))/regime/table.json

$(B)/regime/table.json: $(foreach system,baseline rnn random,$(B)/runs/$(system).translated) $(TEST).$(TARGET) $(CONFIG)/compare.toml
	$(call noise_table,'+RNN=$(call runs,rnn)')

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

# What each optimiser makes of the baseline. Batch MIRA keeps its last weights, as the table's runs do, the others the best ones of dev, as Moses does.
OPTIMIZERS ?= kbmira mert xbleu pro
OPTIMIZER_SEEDS ?= 1 2 3 4 5 6 7 8 9 10

$(CONFIG)/tune-best.toml: $(CONFIG)/tune.toml
	sed 's/^\("keep" =\).*/\1 "best"/' $< > $@

$(foreach name,$(OPTIMIZERS),$(foreach seed,$(OPTIMIZER_SEEDS),$(eval $(call run,$(name),$(B)/filtered/moses.ini,--optimizer \
    $(name),,$(seed),$(START),$(if $(filter kbmira,$(name)),tune,tune-best)))))
$(foreach name,$(OPTIMIZERS),$(eval $(call translated,$(name),$(OPTIMIZER_SEEDS))))

$(B)/optimizers/table.json: $(OPTIMIZERS:%=$(B)/runs/%.translated) $(TEST).$(TARGET) $(CONFIG)/compare.toml
	$(COMPARE) $(foreach name,$(OPTIMIZERS),'$(name)=$(call runs,$(name),$(OPTIMIZER_SEEDS))') >/dev/null

bench-optimizers: $(B)/optimizers/table.json
	@cat $(<D)/table.txt

# The paper's sizes want a GPU: make bench-paper-model SCALE=full DEVICE=cuda
DEVICE ?= cpu
MINUTES ?= 600
bench-paper-model: $(MODEL)/moses.ini | $(INSTALL)
	$(BENCH) bench_paper_model.py $(abspath $(MODEL)/phrase-table.gz) $(RESULTS) $(DEVICE) $(MINUTES)
