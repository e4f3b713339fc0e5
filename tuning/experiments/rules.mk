# What the rules of a plan are made of, for `tuning run`: it starts make on this file and gives B, the folder of the build, BIN,
# that of the commands, SOURCE, TARGET, SCALE, PROCESSORS, JOBS (processes of a step), and other values of the variables below.
# Each file is made by one command, so a rerun does what is missing and a step can be entered with files from elsewhere.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: all
# Where it is set, each of a hundred processes would compile PyTorch's modules anew.
unexport PYTHONDONTWRITEBYTECODE
# Steps side by side have their own processors, and with the same number of threads a network is the same.
export OMP_NUM_THREADS := $(JOBS)

CORPUS := $(B)/corpus
MODEL := $(B)/model
LINKS := $(MODEL)/aligned.grow-diag-final-and.gz
# Files of settings, one for each section of the experiment; one changes only when its section does.
CONFIG := $(B)/config
PLAN := $(B)/plan.mk
FILTERED := $(B)/filtered/phrase-table.gz
WHOLE_TABLE := $(MODEL)/phrase-table.gz
# N-best lists of the training text, each sentence translated by a system that has not seen it.
LISTS := $(B)/lists/folds.gz
# Where the networks of added columns are: a table with more sentences is scored by those of the table without them.
NETWORKS := $(B)
DEV := $(CORPUS)/dev
TEST := $(CORPUS)/test
# Source sides of the training texts: near copies in the test text are counted, and by the words of both sides its accuracy.
TRAINED := $(CORPUS)/train.$(SOURCE)
TRAINED_TARGETS = $(patsubst %.$(SOURCE),%.$(TARGET),$(filter %.$(SOURCE),$(TRAINED)))
# Texts that the filtered tables must serve.
INPUTS := $(DEV).$(SOURCE) $(TEST).$(SOURCE)

# STEP logs time and memory; $(call named,NAME) puts a name before each line that a step prints. FRESH: what is complete but
# older than its inputs is made anew; what was interrupted is continued.
STEPS := $(B)/steps.jsonl
STEP = $(BIN)/moses-bridge step --log $(STEPS) --name $(patsubst $(B)/%,%,$@) --
named = |& sed -u 's|^|$(1): |' >&2
FRESH = @[ ! -e $@ ] || rm -r $(@D)
DEV_TEXTS := --source $(DEV).$(SOURCE) --reference $(DEV).$(TARGET)
TEST_TEXTS = --source $(TEST).$(SOURCE) --reference $(TEST).$(TARGET)
TUNE := $(BIN)/tuning tune $(DEV_TEXTS) --resume --jobs $(JOBS)
RERANK := $(BIN)/tuning rerank $(DEV_TEXTS) --resume --run-commands --jobs $(JOBS)
TRANSLATE := $(BIN)/tuning decode --source $(TEST).$(SOURCE) --run-commands --jobs $(JOBS)
# $(call given,OPTION,FILE): an option with a file, if it exists.
given = $$([ ! -e $(2) ] || echo $(1) $(2))
COMPARE = $(BIN)/tuning compare $(TEST_TEXTS) $(foreach text,$(TRAINED),$(call given,--train-source,$(text))) \
    $(foreach text,$(TRAINED_TARGETS),$(call given,--train-target,$(text))) \
    $(call given,--groups,$(TEST).groups) --target-language $(TARGET) --config $(CONFIG)/compare.toml --jobs $(PROCESSORS)
REPORT = $(BIN)/tuning report $(TEST_TEXTS) $(TABLES:%=--comparison %) $(MAPS:%=--map %) \
    $$([ ! -e $(STEPS) ] || echo --steps $(STEPS)) --title '$(SOURCE)-$(TARGET), $(SCALE)' --out $@

include $(PLAN)
all: $(TABLES) $(B)/report.html
