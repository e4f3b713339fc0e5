# Experiments beside the table: the default one on other texts, and with more networks. The Makefile includes this file.

# --- Another domain --------------------------------------------------------------------------------
# 2,000 translated sentences of a domain that the table knows little of: what they give as lists for phrase
# models, beside a table that does not have them and beside one that does.

# $(call in_build,DIRECTORY,SETTINGS,TABLE,VARIABLES): a table of an experiment with other settings, in a build of its own.
in_build = $(MAKE) BUILD=$(1) EXPERIMENT='$(EXPERIMENT) $(EXPERIMENTS)/$(2)' INSTALL= JOBS=$(JOBS) $(4) $(1)/$(notdir $(B))/$(3)/table.json
D := $(BUILD)/domain

$(D)/corpus/train.$(SOURCE): $(EXPERIMENTS)/domain/corpus.toml | $(INSTALL)
	$(BIN)/moses-bridge corpus --source-language $(SOURCE) --target-language $(TARGET) --out $(@D) --config $< $(call named,domain)

# The training text of the table and the new one; dev and test are the new domain's.
$(D)/joined/train.$(SOURCE): $(D)/corpus/train.$(SOURCE) $(CORPUS)/train.$(SOURCE)
	mkdir -p $(@D)
	for language in $(TARGET) $(SOURCE); do \
	    cp $(foreach part,dev test,$(D)/corpus/$(part).$$language) $(@D); \
	    cat $(CORPUS)/train.$$language $(D)/corpus/train.$$language > $(@D)/train.$$language; \
	done
	[ ! -e $(D)/corpus/test.groups ] || cp $(D)/corpus/test.groups $(@D)

domain: $(D)/corpus/train.$(SOURCE) $(D)/joined/train.$(SOURCE) $(MODEL)/moses.ini
	+$(call in_build,$(D)/without,domain/lists.toml,domain,MODEL=$(MODEL) CORPUS=$(D)/corpus \
	    TRAINED='$(CORPUS)/train.$(SOURCE) $(D)/corpus/train.$(SOURCE)' \
	    INPUTS='$(foreach part,train dev test,$(D)/corpus/$(part).$(SOURCE))')
	+$(call in_build,$(D)/with,domain/lists.toml,domain,CORPUS=$(D)/joined NETWORKS=$(D)/without/$(notdir $(B)))
	for model in RNN CPTM; do \
	    $(BIN)/tuning gains $(foreach name,without with,'table $(name) them=$(D)/$(name)/$(notdir $(B))/domain/table.json') \
	        --system "+$$model for BLEU" --out $(D)/$$model || exit 1; \
	done

# --- The chance of a network ------------------------------------------------------------------------
networks: $(MODEL)/moses.ini
	+$(call in_build,$(BUILD)/networks,networks.toml,networks,MODEL=$(MODEL) CORPUS=$(CORPUS))

# --- The size of the network -------------------------------------------------------------------------
sizes: $(MODEL)/moses.ini
	+$(call in_build,$(BUILD)/sizes,sizes.toml,sizes,MODEL=$(MODEL) CORPUS=$(CORPUS))

# --- Regimes ----------------------------------------------------------------------------------------
# When does the phrase network's column pay? The default experiment on other data, each changed by one file.
REGIMES ?= 5000-pairs 20000-pairs 60000-pairs all-pairs no-smoothing mismatched-20 mismatched-40 mixed-domains other-domain
$(REGIMES:%=regime-%): regime-%: | $(INSTALL)
	+$(call in_build,$(BUILD)/regimes/$*,regimes/$*.toml,regime)

regimes: $(REGIMES:%=regime-%)
	$(BIN)/tuning gains $(foreach name,$(REGIMES),$(name)=$(BUILD)/regimes/$(name)/$(notdir $(B))/regime/table.json) \
	    --system +RNN --out $(BUILD)/regimes
