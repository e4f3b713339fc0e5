# Benchmarks on the tables of `make table1`, read by the Makefile; peers that are not on the PATH are left out.
RESULTS := $(abspath $(BUILD))/bench
BENCH := cd tests/bench && $(abspath $(BIN))/python
# $(call bench,NAME,FILES,OPTIONS): one benchmark and its results.
bench = $(BENCH) bench_$(1).py $(abspath $(2)) $(RESULTS)/$(1).json $(3)
TRAINING := $(CORPUS)/train.$(SOURCE) $(CORPUS)/train.$(TARGET)
FIRST_LISTS := $(B)/runs/baseline-1/iter01.nbest.gz
MEASURED := $(B)/tables/rnn/moses.ini $(foreach name,baseline cslm nnjm,$(B)/runs/$(name)-1/weights.json)

bench: $(MEASURED) | $(INSTALL) ##+ speed beside peers [ROWS=10000000, where tables are read and written]
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
bench-build: $(TRAINING) | $(INSTALL) ##+ time and memory of a model of 1, 3 and 10 times a part of the corpus [PAIRS=10000]
	$(BENCH) bench_build.py $(abspath $(CORPUS)/train) $(SOURCE) $(TARGET) $(or $(PAIRS),10000) $(RESULTS)/build.json
bench-false-positives: | $(INSTALL) ## how often equal systems are called different: outputs drawn by chance, some minutes
	$(BENCH) bench_false_positives.py $(RESULTS)/false_positives.json
bench-significance: bench-false-positives $(B)/filtered/moses.ini $(START) $(TEST).$(SOURCE) | $(INSTALL) ##+ the same of 72 tunings, an hour
	$(BENCH) bench_significance.py $(abspath $(B)/filtered/moses.ini $(START) $(DEV).$(SOURCE) $(TEST).$(SOURCE)) \
	    $(TARGET) $(RESULTS)/significance
bench-long-tables: | $(INSTALL) ## training from a table of any length [ROWS=10000000; 100000000 take 15 GB of disk]
	mkdir -p $(RESULTS)
	$(BENCH) bench_long_tables.py $(or $(ROWS),10000000) $(RESULTS) $(RESULTS)/long_tables.json
bench-optimizers: $(B)/optimizers/table.json ##* the baseline tuned by each optimiser [OPTIMIZERS="mert ..."] [OPTIMIZER_SEEDS="1 2 ..."]
	@cat $(<D)/table.txt
bench-nbest-lists: $(B)/tables/rnn/moses.ini | $(INSTALL) ##+ training on lists [LISTS=lists.gz TEXT="text.en text.fr"]
	$(call bench,nbest_lists,$(LISTS) $(TEXT) $(B)/encdec)
# Of OPUS-MT's sizes, with random weights.
bench-pretrained: $(FIRST_LISTS) $(DEV).$(SOURCE) $(TRAINING) | $(INSTALL) ##+ lists scored by a pretrained model; needs the extra ct2
	$(call bench,pretrained,$(FIRST_LISTS) $(DEV).$(SOURCE) $(TRAINING))
bench-paper-model: DEVICE ?= cpu
bench-paper-model: $(MODEL)/moses.ini | $(INSTALL) ##+ the paper's sizes, which need a GPU [SCALE=full DEVICE=cuda] [MINUTES=600]
	$(BENCH) bench_window_training.py $(abspath $(CORPUS)/train.$(TARGET) $(CORPUS)/train.$(SOURCE) $(LINKS)) \
	    $(RESULTS)/window_training_$(DEVICE).json $(DEVICE)
	$(BENCH) bench_paper_model.py $(abspath $(MODEL)/phrase-table.gz) $(RESULTS) $(DEVICE) $(or $(MINUTES),600)
