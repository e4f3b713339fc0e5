# Benchmarks on the tables of `make table1`, read by the Makefile; peers that are not on the PATH are left out. With ROWS=10000000
# the whole table is repeated until it has so many rows, where rows are read and written.
RESULTS := $(abspath $(BUILD))/bench
BENCH := cd tests/bench && $(abspath $(BIN))/python
# $(call bench,NAME,FILES,OPTIONS): one benchmark and its results.
bench = $(BENCH) bench_$(1).py $(abspath $(2)) $(RESULTS)/$(1).json $(3)
TRAINING := $(CORPUS)/train.$(SOURCE) $(CORPUS)/train.$(TARGET)
FIRST_LISTS := $(B)/runs/baseline-1/iter01.nbest.gz

bench: $(B)/tables/rnn/moses.ini $(foreach name,baseline cslm nnjm,$(B)/runs/$(name)-1/weights.json) | $(INSTALL)
	$(call bench,scoring,$(FILTERED) $(B)/encdec)
	$(call bench,generation,$(FILTERED) $(B)/encdec)
	$(call bench,phrase_models,$(FILTERED),encdec=$(abspath $(B)/encdec))
	$(call bench,training,$(FILTERED))
	$(call bench,decoding,$(DEV).$(SOURCE),$(abspath $(B)/runs/cslm-1 $(B)/runs/nnjm-1 $(B)/cslm $(B)/nnjm))
	$(call bench,window_training,$(CORPUS)/train.$(TARGET) $(CORPUS)/train.$(SOURCE) $(MODEL)/aligned.grow-diag-final-and.gz)
	$(call bench,sentences,$(FIRST_LISTS) $(DEV).$(SOURCE) $(TRAINING))
	$(call bench,long_lists,$(TRAINING))
	$(call bench,lookups,$(TRAINING))
	$(call bench,report,$(TRAINING))
	$(call bench,busy_machine,$(FILTERED) $(B)/encdec)
	$(call bench,tuning,$(FIRST_LISTS) $(DEV).$(TARGET))
	$(call bench,tables,$(WHOLE_TABLE),$(ROWS))
	$(call bench,extraction,$(TRAINING) $(LINKS))

# Time and memory of a model for 1, 3 and 10 times a part of the corpus: some minutes.
bench-build: $(TRAINING) | $(INSTALL)
	$(BENCH) bench_build.py $(abspath $(CORPUS)/train) $(SOURCE) $(TARGET) $(or $(PAIRS),10000) $(RESULTS)/build.json

# How often the table would call equal systems different: outputs drawn by chance, some minutes; then 72 tunings
# of columns of noise, about an hour.
bench-false-positives: | $(INSTALL)
	$(BENCH) bench_false_positives.py $(RESULTS)/false_positives.json

bench-significance: bench-false-positives $(B)/filtered/moses.ini $(START) $(TEST).$(SOURCE) | $(INSTALL)
	$(BENCH) bench_significance.py $(abspath $(B)/filtered/moses.ini $(START) $(DEV).$(SOURCE) $(TEST).$(SOURCE)) \
	    $(TARGET) $(RESULTS)/significance

# Training from a table of any length: make bench-long-tables ROWS=100000000 wants 15 GB of disk.
bench-long-tables: | $(INSTALL)
	mkdir -p $(RESULTS)
	$(BENCH) bench_long_tables.py $(or $(ROWS),10000000) $(RESULTS) $(RESULTS)/long_tables.json

# What each optimiser makes of the baseline: OPTIMIZERS takes some, OPTIMIZER_SEEDS as many tunings each.
bench-optimizers: $(B)/optimizers/table.json
	@cat $(<D)/table.txt

# Reading n-best lists and training for expected BLEU on them, which make home or make domain leaves:
# make bench-nbest-lists LISTS=lists.gz TEXT="text.en text.fr"
bench-nbest-lists: $(B)/tables/rnn/moses.ini | $(INSTALL)
	$(call bench,nbest_lists,$(LISTS) $(TEXT) $(B)/encdec)

# A Marian model of OPUS-MT's sizes, with random weights, on the first sentences of a list; needs the extra ct2.
bench-pretrained: $(FIRST_LISTS) $(DEV).$(SOURCE) $(TRAINING) | $(INSTALL)
	$(call bench,pretrained,$(FIRST_LISTS) $(DEV).$(SOURCE) $(TRAINING))

# The paper's sizes want a GPU: make bench-paper-model SCALE=full DEVICE=cuda
bench-paper-model: DEVICE ?= cpu
bench-paper-model: $(MODEL)/moses.ini | $(INSTALL)
	$(BENCH) bench_window_training.py $(abspath $(CORPUS)/train.$(TARGET) $(CORPUS)/train.$(SOURCE) $(LINKS)) \
	    $(RESULTS)/window_training_$(DEVICE).json $(DEVICE)
	$(BENCH) bench_paper_model.py $(abspath $(MODEL)/phrase-table.gz) $(RESULTS) $(DEVICE) $(or $(MINUTES),600)
