# A little translated text of another domain joins the table and the language model in the ways that practitioners have, and
# phrase models trained on lists of it join the best of these. A text of your own: BUILD/domain/NAME/{train-SIZE,dev,test}
# with the suffixes SOURCE, TARGET and groups (the document of each sentence), and ORIGIN=NAME. `make domain` runs it with the
# variables of ../rules.mk; BUILD, the folder of B; and RUN, `tuning run` of the default experiment.
DOMAIN_FILES := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
override PLAN := /dev/null
PROCESSORS := $(or $(JOBS),$(shell nproc))
JOBS := $(PROCESSORS)
domain:
include $(DOMAIN_FILES)/../rules.mk
ORIGIN ?= libreoffice
SIZE ?= 1000
# Ways to combine what is there with the new text; times-K: all text, the new one K times.
WAYS ?= times-1 times-5 times-20 mixture fill-up two-models
# Ways that make one phrase table, which columns can join.
WAYS_WITH_COLUMNS := $(filter-out two-models,$(WAYS))
DOMAINS := $(BUILD)/domain
D := $(DOMAINS)/$(ORIGIN)-$(SIZE)
REORDERING := reordering-table.wbe-msd-bidirectional-fe.gz
SIDES := $(SOURCE) $(TARGET)
LANGUAGES := --source-language $(SOURCE) --target-language $(TARGET)
comma := ,
space := $() $()
SEEDS_OF_ROWS := $(or $(SEEDS),1 2 3)
FIRST_NETWORKS := word_pairs cptm encdec
DOMAIN_NETWORKS := pairs-bleu cptm-bleu rnn-bleu
DOMAIN_TEXTS := $(foreach part,train dev test,$(D)/corpus/$(part).$(SOURCE))
# $(call domain_model,CORPUS,LINKS,NAME): tables and a language model of a text.
domain_model = $(BIN)/moses-bridge build $(LANGUAGES) --config $(CONFIG)/build.toml --jobs $(JOBS) --corpus $(1) $(2) --out $(@D) $(call named,$(3))
# $(call of_domain,BUILD,MODEL,FILES,OPTIONS): what an experiment of the domain makes of a model.
of_domain = $(RUN) $(DOMAIN_FILES)/lists.toml --out $(1)/$(notdir $(B)) --model $(2) --corpus $(D)/corpus $(4) $(3:%=--goal %)
# $(call of_table_alone,FILES,OPTIONS): the same of the table without the text, on its rows for all of the domain's texts.
of_table_alone = $(call of_domain,$(D)/without,$(MODEL),$(1),$(DOMAIN_TEXTS:%=--input %) $(2))
# $(call again,VARIABLES): this file, for other goals or texts.
again = $(MAKE) --no-print-directory -f $(DOMAIN_FILES)/domain.mk $(1)
# $(call of_seeds,NETWORKS): the files that say that they are trained.
of_seeds = $(foreach network,$(1),$(SEEDS_OF_ROWS:%=$(network)-%/trained))
# $(call runs_of,WAY): the tunings of a way, as `tuning compare` takes them.
runs_of = $(subst $(space),$(comma),$(SEEDS_OF_ROWS:%=$(D)/$(1)/$(notdir $(B))/runs/baseline-%))

# --- Texts and their word links

# What no rule here makes: the file of digests is new if it changes, whatever its dates say. The first one is as old as the text.
GIVEN = $(wildcard $(CORPUS)/train.* $(MODEL)/*.gz $(DOMAIN_FILES)/*.toml \
    $(if $(wildcard $(DOMAIN_FILES)/$(ORIGIN).toml),,$(DOMAINS)/$(ORIGIN)/*.*))
$(D)/given: always
	mkdir -p $(@D); sha256sum $(GIVEN) > $@.new; [ -e $@ ] || touch -r $(CORPUS)/train.$(SOURCE) $@.new
	cmp -s $@.new $@ || mv $@.new $@; rm -f $@.new
$(DOMAINS)/$(ORIGIN)/train-$(SIZE).$(SOURCE): $(wildcard $(DOMAIN_FILES)/$(ORIGIN).toml)
	$(BIN)/moses-bridge corpus $(LANGUAGES) --out $(@D) --config $(DOMAIN_FILES)/$(ORIGIN).toml $(call named,$(ORIGIN))
$(D)/corpus/train.$(SOURCE): $(DOMAINS)/$(ORIGIN)/train-$(SIZE).$(SOURCE) $(D)/given
	mkdir -p $(@D)
	cp $(<D)/dev.* $(<D)/test.* $(@D)
	for suffix in groups $(TARGET) $(SOURCE); do cp $(<D)/train-$(SIZE).$$suffix $(@D)/train.$$suffix; done
# All texts are linked together, that of dev for the weights of mixtures.
$(D)/links/$(SOURCE): $(D)/corpus/train.$(SOURCE) $(CORPUS)/train.$(SOURCE)
	mkdir -p $(@D)
	for side in $(TARGET) $(SOURCE); do \
	    cat $(CORPUS)/train.$$side $(D)/corpus/train.$$side $(D)/corpus/dev.$$side > $(@D)/text.$$side; \
	done
	cp $(@D)/text.$(SOURCE) $@
$(D)/links/model/moses.ini: $(D)/links/$(SOURCE) $(CONFIG)/build.toml
	$(call domain_model,$(D)/links/text,,links)
$(D)/links/dev: $(D)/links/model/moses.ini
	gzip -dc $(@D)/model/aligned.grow-diag-final-and.gz > $(@D)/all
	n=$$(wc -l < $(CORPUS)/train.$(SOURCE)); \
	    head -n $$n $(@D)/all > $(@D)/general; \
	    sed -n "$$((n + 1)),$$((n + $$(wc -l < $(D)/corpus/train.$(SOURCE))))p" $(@D)/all > $(@D)/own
	tail -n $$(wc -l < $(D)/corpus/dev.$(SOURCE)) $(@D)/all > $@

# --- Models

$(D)/own/model/moses.ini: $(D)/links/dev
	$(call domain_model,$(D)/corpus/train,--links $(D)/links/own,own)
$(D)/dev/model/moses.ini: $(D)/links/dev
	$(call domain_model,$(D)/corpus/dev,--links $(D)/links/dev,dev)
$(D)/times-%/model/moses.ini: $(D)/links/dev
	mkdir -p $(D)/times-$*
	for side in $(SIDES); do \
	    { cat $(CORPUS)/train.$$side; for i in $$(seq $*); do cat $(D)/corpus/train.$$side; done; } > $(D)/times-$*/train.$$side; \
	done
	{ cat $(D)/links/general; for i in $$(seq $*); do cat $(D)/links/own; done; } > $(D)/times-$*/links
	$(call domain_model,$(D)/times-$*/train,--links $(D)/times-$*/links,times-$*)

# Both language models as one, and both reordering tables as one, whatever is made of the phrase tables.
MIXED := $(D)/mixed/lm.arpa.gz
$(MIXED): $(D)/own/model/moses.ini $(MODEL)/moses.ini
	mkdir -p $(@D)
	$(BIN)/moses-bridge mix-models $(D)/own/model/lm.arpa.gz $(MODEL)/lm.arpa.gz --dev $(D)/corpus/dev.$(TARGET) --out $@ $(call named,mixed)
$(D)/mixed/$(REORDERING): $(D)/own/model/moses.ini $(MODEL)/moses.ini
	mkdir -p $(@D)
	$(BIN)/moses-bridge combine $(D)/own/model/$(REORDERING) $(MODEL)/$(REORDERING) --how first-found --out $@ $(call named,mixed)
# $(call combine,OPTIONS): one phrase table; $(call ini,EDITS): the ini of the new text's own model, changed.
combine = mkdir -p $(@D); $(BIN)/moses-bridge combine $(D)/own/model/phrase-table.gz $(WHOLE_TABLE) $(1) \
    --out $(@D)/phrase-table.gz $(call named,$(notdir $(@D:/model=)))
ini = sed -e 's|path=.*/phrase-table.gz|path=$(abspath $(@D))/phrase-table.gz|' \
    -e 's|path=.*/$(REORDERING)|path=$(abspath $(D))/mixed/$(REORDERING)|' $(1) $(D)/own/model/moses.ini > $@
WITH_MIXED := -e 's|path=.*/lm.arpa.gz|path=$(abspath $(MIXED))|'

$(D)/mixture/model/moses.ini: $(D)/dev/model/moses.ini $(MIXED) $(D)/mixed/$(REORDERING)
	$(call combine,--how mixture --dev $(D)/dev/model/phrase-table.gz)
	$(call ini,$(WITH_MIXED))
$(D)/fill-up/model/moses.ini: $(MIXED) $(D)/mixed/$(REORDERING)
	$(call combine,--how fill-up)
	$(call ini,$(WITH_MIXED) -e 's|num-features=4|num-features=5|' -e '/^TranslationModel0=/s|$$| 0.2|')
# Two phrase tables as alternative decoding paths, and two language models.
$(D)/two-models/model/moses.ini: $(D)/mixed/$(REORDERING)
	mkdir -p $(@D)
	cp $(D)/own/model/phrase-table.gz $(@D)
	$(call ini,-e '/^0 T 0/a 1 T 1' \
	    -e '/^PhraseDictionaryMemory/{p;s|TranslationModel0|TranslationModel1|;s|path=.*/phrase-table.gz|path=$(abspath $(WHOLE_TABLE))|}' \
	    -e '/^KENLM/{p;s|LM0|LM1|;s|path=.*/lm.arpa.gz|path=$(abspath $(MODEL))/lm.arpa.gz|}' \
	    -e '/^TranslationModel0=/{p;s|0=|1=|}' -e '/^LM0=/{p;s|LM0|LM1|}')

# --- Tables of ways

$(D)/without.translated: $(D)/corpus/train.$(SOURCE) $(MODEL)/moses.ini
	$(call of_table_alone,runs/baseline.translated $(call of_seeds,$(FIRST_NETWORKS)))
	@touch $@
$(WAYS:%=$(D)/%.translated): $(D)/%.translated: $(D)/%/model/moses.ini
	$(call of_domain,$(D)/$*,$(<D),runs/baseline.translated)
	@touch $@
$(D)/ways/table.json: TEST = $(D)/corpus/test
$(D)/ways/table.json: TRAINED = $(CORPUS)/train.$(SOURCE) $(D)/corpus/train.$(SOURCE)
$(D)/ways/table.json: $(WAYS:%=$(D)/%.translated) $(D)/without.translated
	$(COMPARE) --out $(@D) $(foreach way,$(WAYS) without,'$(way)=$(call runs_of,$(way))') > /dev/null
# Of the ways that make one table, the one with the highest dev BLEU gets the columns.
$(D)/best: $(D)/ways/table.json
	$(BIN)/python -c 'import json, sys; print(max((row["dev_bleu"], row["system"]) for row in json.load(open(sys.argv[1]))["rows"] \
	    if row["system"] in sys.argv[2:])[1])' $< $(WAYS_WITH_COLUMNS) > $@

# --- Columns beside the best way, BEST
# It knows the new text by heart. So each fold of the text, by document, is translated by what the way makes of the table
# and the other folds. A fold is a domain of its own, whose text is the rest.

FOLDS := $(D)/folds
# The table's rows for the domain's texts, since each fold combines them anew.
GENERAL := $(D)/general
ifdef BEST
# Few documents make fewer folds.
N_FOLDS := $(or $(N_FOLDS),$(shell sort -u $(DOMAINS)/$(ORIGIN)/train-$(SIZE).groups | head -n 5 | wc -l))
EACH_FOLD := $(shell seq $(N_FOLDS))
OF_BEST := $(D)/$(BEST)/$(notdir $(B))
$(GENERAL)/moses.ini: $(MODEL)/moses.ini $(DOMAIN_TEXTS)
	$(BIN)/moses-bridge filter --ini $< $(DOMAIN_TEXTS:%=--source %) --out $(@D) $(call named,general)
	ln -sf $(abspath $(MODEL))/lm.arpa.gz $(@D)
$(FOLDS)/folds: $(D)/links/dev
	rm -rf $(@D)
	$(BIN)/moses-bridge folds --corpus $(D)/corpus/train $(LANGUAGES) \
	    --groups $(D)/corpus/train.groups --links $(D)/links/own --folds $(N_FOLDS) --out $(@D) $(call named,folds)
	cd $(@D); for fold in $(EACH_FOLD); do \
	    mkdir -p $$fold/corpus $$fold/links; \
	    for side in $(SIDES); do ln -sf ../rest.$$side $$fold/corpus/train.$$side; ln -sf ../../../corpus/dev.$$side $$fold/corpus; done; \
	    ln -sf ../rest.links $$fold/links/own; \
	    ln -sf ../../../links/general ../../../links/dev $$fold/links; \
	    ln -sfn ../../dev $$fold/dev; \
	done
$(EACH_FOLD:%=$(FOLDS)/%/$(BEST)/model/moses.ini): $(FOLDS)/%/$(BEST)/model/moses.ini: $(FOLDS)/folds $(GENERAL)/moses.ini $(D)/dev/model/moses.ini
	+$(call again,D=$(FOLDS)/$* MODEL=$(GENERAL) WHOLE_TABLE=$(GENERAL)/phrase-table.gz BEST=) \
	    --assume-old=$(FOLDS)/$*/links/dev --assume-old=$(FOLDS)/$*/dev/model/moses.ini $@
$(EACH_FOLD:%=$(FOLDS)/%/$(BEST)/lists.gz): $(FOLDS)/%/$(BEST)/lists.gz: $(FOLDS)/%/$(BEST)/model/moses.ini $(D)/$(BEST).translated
	$(BIN)/moses-bridge filter --ini $< --source $(FOLDS)/$*/fold.$(SOURCE) --out $(@D)/filtered $(call named,fold-$*)
	$(BIN)/moses-bridge decode --ini $(@D)/filtered/moses.ini --source $(FOLDS)/$*/fold.$(SOURCE) --out $(@D)/fold.out.$(TARGET) --nbest $@ \
	    --nbest-size 50 --weights $(OF_BEST)/runs/start/weights.json --config $(OF_BEST)/config/lists.toml --jobs $(JOBS) $(call named,fold-$*)
$(FOLDS)/$(BEST).gz: $(FOLDS)/folds $(EACH_FOLD:%=$(FOLDS)/%/$(BEST)/lists.gz)
	$(BIN)/moses-bridge join-folds $^ --out $@
# $(call of_best,FILES,OPTIONS): what joins the best way; the networks of columns are those of the table alone.
of_best = $(call of_domain,$(D)/$(BEST),$(D)/$(BEST)/model,$(1),--networks $(D)/without/$(notdir $(B)) --lists $(FOLDS)/$(BEST).gz \
    --links $(D)/links/own --trained $(CORPUS)/train.$(SOURCE) --trained $(D)/corpus/train.$(SOURCE))
# $(call copied,TABLE): a table of the best way, beside that of the ways.
copied = rm -rf $(@D); cp -r $(OF_BEST)/$(1) $(@D)
$(D)/columns/table.json: $(FOLDS)/$(BEST).gz
	$(call of_table_alone,$(call of_seeds,$(DOMAIN_NETWORKS)),--lists $<)
	$(call of_best,domain/table.json)
	$(call copied,domain)
# The NNJM of the table's text is there already, and is not made anew from the domain's: a copy is newer than the domain's model
# and links.
$(D)/nnjm/table.json: $(D)/columns/table.json $(B)/nnjm/trained
	rm -rf $(OF_BEST)/nnjm; cp -r $(B)/nnjm $(OF_BEST)/nnjm
	$(call of_best,domain-nnjm/table.json)
	$(call copied,domain-nnjm)
endif

.PHONY: domain always
domain: $(D)/best
	+$(call again,BEST=$$(cat $<)) $(D)/columns/table.json $(D)/nnjm/table.json
	@cat $(D)/ways/table.txt; echo; echo "Columns beside $$(cat $<):"; cat $(D)/columns/table.txt; \
	    echo; echo 'NNJM:'; cat $(D)/nnjm/table.txt
