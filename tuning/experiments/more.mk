# Experiments beside the table: the default one on other texts, and with more networks. The Makefile includes this file.

# $(call in_build,DIRECTORY,SETTINGS,TABLE,VARIABLES): a table of an experiment with other settings, in a build of its own.
in_build = $(MAKE) BUILD=$(1) EXPERIMENT='$(EXPERIMENT) $(EXPERIMENTS)/$(2)' INSTALL= JOBS=$(JOBS) $(4) $(1)/$(notdir $(B))/$(3)/table.json

# --- The chance of a network ------------------------------------------------------------------------
networks: $(MODEL)/moses.ini | $(INSTALL)
	+$(call in_build,$(BUILD)/networks,networks.toml,networks,MODEL=$(MODEL) CORPUS=$(CORPUS))

# --- The best system of everything ------------------------------------------------------------------
best: $(MODEL)/moses.ini | $(INSTALL)
	+$(call in_build,$(BUILD)/best,best.toml,best,MODEL=$(MODEL) CORPUS=$(CORPUS))

# --- The size of the network -------------------------------------------------------------------------
sizes: $(MODEL)/moses.ini | $(INSTALL)
	+$(call in_build,$(BUILD)/sizes,sizes.toml,sizes,MODEL=$(MODEL) CORPUS=$(CORPUS))

# --- Regimes ----------------------------------------------------------------------------------------
# When does the phrase network's column pay? The default experiment on other data, each changed by one file.
REGIMES ?= 5000-pairs 20000-pairs 60000-pairs all-pairs no-smoothing mismatched-20 mismatched-40 mixed-domains other-domain
$(REGIMES:%=regime-%): regime-%: | $(INSTALL)
	+$(call in_build,$(BUILD)/regimes/$*,regimes/$*.toml,regime)

regimes: $(REGIMES:%=regime-%)
	$(BIN)/tuning gains $(foreach name,$(REGIMES),$(name)=$(BUILD)/regimes/$(name)/$(notdir $(B))/regime/table.json) \
	    --system +RNN --out $(BUILD)/regimes
