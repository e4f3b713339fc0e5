"""The plan of an experiment: flat rules for make, one for each file made by a command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from moses_bridge.base.errors import ConfigError
from tuning.experiments.description import MAIN, Data, Experiment

HEADER = """\
# The plan of {files}.
# Variables are those of rules.mk.
"""
FILTERED_INI = "$(B)/filtered/moses.ini"
TRAINING_SOURCE = "$(CORPUS)/train.$(SOURCE)"
TRAINING_TARGET = "$(CORPUS)/train.$(TARGET)"
COMPARE_CONFIG = "$(CONFIG)/compare.toml"
FOLDS = "$(B)/folds"
LISTS_OF_FOLDS = "$(B)/lists/folds.gz"
LANGUAGES = "--source-language $(SOURCE) --target-language $(TARGET)"
# Below the folder of a build.
PAGE, TABLE = "report.html", "table.json"
JUDGED = "Judged0"  # name of a score in the list that it is judged on


@dataclass(frozen=True)
class Rule:
    """One rule of make.

    Attributes:
        target: the file to make.
        needs: the files it is made from.
        recipe: lines of shell.
    """

    target: str
    needs: tuple[str, ...]
    recipe: tuple[str, ...]

    def __str__(self) -> str:
        # Made by the rule of what it needs: with "+" make looks at its date in a dry run, too.
        recipe = "".join(f"\n\t{line}" for line in self.recipe or ("+@:",))
        return f"{self.target}: {' '.join(self.needs)}{recipe}\n"


@dataclass(frozen=True)
class TrainingData:
    """The training data of a network: table or text, required files, and options naming other files."""

    file: str
    needs: str
    options: str = ""


# Shortlists cover a share of the running words of the training text, of which a table has only phrases; so
# texts are given, too.
DATA: dict[Data, TrainingData] = {
    "table": TrainingData("$(FILTERED)", FILTERED_INI),
    "table and texts": TrainingData(
        "$(FILTERED)", FILTERED_INI, f"--texts {TRAINING_SOURCE} {TRAINING_TARGET}"
    ),
    "whole table and texts": TrainingData(
        "$(WHOLE_TABLE)", "$(MODEL)/moses.ini", f"--texts {TRAINING_SOURCE} {TRAINING_TARGET}"
    ),
    "target text": TrainingData(TRAINING_TARGET, TRAINING_TARGET),
    "parallel text": TrainingData(TRAINING_TARGET, TRAINING_TARGET, f"--source {TRAINING_SOURCE}"),
    "linked text": TrainingData(
        TRAINING_TARGET, "$(MODEL)/moses.ini", f"--source {TRAINING_SOURCE} --links $(LINKS)"
    ),
}


def plan_rules(experiment: Experiment) -> list[Rule]:
    """The rules of all tables of an experiment and of its page, each after the rules it needs."""
    return list(_Planner(experiment).planned().values())


def plan_text(experiment: Experiment) -> str:
    """The plan as a makefile, included by rules.mk: the tables of the page, its maps, and the rules."""
    pages = [name for name, table in experiment.tables.items() if table.page]
    lines = [HEADER.format(files=", ".join(repr(str(path)) for path in experiment.files))]
    lines += [f"\nTABLES := {' '.join(map(_table_file, pages))}\n"]
    if experiment.page.maps is not None:
        lines += ["MAPS := $(B)/maps/words.json $(B)/maps/phrases.json\n"]
    return "".join(lines) + "".join(f"\n{rule}" for rule in plan_rules(experiment))


def plan_graph(experiment: Experiment) -> str:
    """The plan for readers: each file in order of making with its needs; a star replaces seeds."""
    graph: dict[str, dict[str, None]] = {}
    for rule in plan_rules(experiment):
        needs = graph.setdefault(_short(rule.target), {})
        needs.update(dict.fromkeys(map(_short, rule.needs)))
    width = max(map(len, graph))
    return "".join(f"{target:{width}}  <-  {', '.join(needs)}\n" for target, needs in graph.items())


def _short(path: str) -> str:
    """A path for readers: relative to the build, without the seeds of runs."""
    plain = path.removeprefix("$(B)/").replace("$(", "").replace(")", "")
    return re.sub(r"-\d+/", "-*/", plain)


def table_path(table: str) -> str:
    """The file of a table, below the folder of a build."""
    return TABLE if table == MAIN else f"{table}/{TABLE}"


def _table_file(table: str) -> str:
    return f"$(B)/{table_path(table)}"


def _word(text: str) -> str:
    return shlex.quote(text).replace("$", "$$")


def _quoted(text: str, paths: str) -> str:
    """Text, followed by paths with variables of make, as one word of a shell."""
    return "'" + text.replace("'", "'\"'\"'").replace("$", "$$") + paths + "'"


def _line(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _step(name: str, command: str, *parts: str) -> str:
    """A step of the log; a variable of make puts its name before each line that it prints."""
    return _line("$(STEP)", command, *parts, f"$(call named,{name})")


@dataclass
class _Planner:
    """Collects rules; each method plans one thing with all its needs and returns its file."""

    experiment: Experiment
    rules: dict[str, Rule] = field(default_factory=dict)

    def planned(self) -> dict[str, Rule]:
        self.model()
        for table in self.experiment.tables:
            self.table(table)
        self.page()
        for network in self.experiment.networks if "worth" in self.experiment.sections else ():
            self.worth(network)
        return self.rules

    def add(self, target: str, needs: Sequence[str], *recipe: str) -> str:
        rule = Rule(target, tuple(dict.fromkeys(needs)), recipe)
        if self.rules.setdefault(target, rule) != rule:
            raise ConfigError(
                f"two things of the experiment are the file {_short(target)}; rename one"
            )
        return target

    # --- Corpus, model and lists

    def model(self) -> None:
        """The corpus and the tables, unless CORPUS and MODEL name others."""
        corpus, config = "$(B)/corpus/train.$(SOURCE)", "$(CONFIG)/corpus.toml"
        line = f"$(BIN)/moses-bridge corpus {LANGUAGES} --out $(@D) --config {config}"
        self.add(corpus, [config], _step("corpus", line))
        self.add("$(B)/corpus/%", [corpus])
        config = "$(CONFIG)/build.toml"
        line = f"$(BIN)/moses-bridge build --corpus $(CORPUS)/train {LANGUAGES} --out $(@D)"
        needs = [TRAINING_SOURCE, TRAINING_TARGET, config]
        # All but the networks of plain text wait for it, so it has all processors.
        step = _step("build", line, f"--config {config} --jobs $(PROCESSORS)")
        self.add("$(B)/model/moses.ini", needs, step)
        line = (
            "$(BIN)/moses-bridge filter --ini $(MODEL)/moses.ini $(INPUTS:%=--source %) --out $(@D)"
        )
        self.add(FILTERED_INI, ["$(MODEL)/moses.ini", "$(INPUTS)"], _step("filter", line))

    def lists_of_folds(self) -> str:
        """N-best lists of the training text by fold, unless LISTS names others."""
        folds = f"{FOLDS}/folds"
        numbers = range(1, self.experiment.folds.n_folds + 1)
        line = _step(
            "folds",
            f"$(BIN)/moses-bridge folds --corpus $(CORPUS)/train {LANGUAGES}",
            f"--folds {len(numbers)} --links $(LINKS)",
            "$(call given,--groups,$(CORPUS)/train.groups) --out $(@D)",
        )
        needs = [TRAINING_SOURCE, TRAINING_TARGET, "$(MODEL)/moses.ini"]
        self.add(folds, needs, line)
        lists = [self.list_of_fold(number, folds) for number in numbers]
        line = f"$(BIN)/moses-bridge join-folds {folds} {_line(*lists)} --out $@"
        self.add(LISTS_OF_FOLDS, [folds, *lists], _step("lists", line))
        return "$(LISTS)"

    def list_of_fold(self, number: int, folds: str) -> str:
        """N-best lists of one fold, under the weights of the start."""
        fold, weights, name = f"{FOLDS}/{number}", self.start("start"), f"fold-{number}"
        model, filtered = f"{fold}/model/moses.ini", f"{fold}/filtered/moses.ini"
        build = f"$(BIN)/moses-bridge build --corpus {fold}/rest {LANGUAGES} --out $(@D)"
        options = f"--links {fold}/rest.links --config $(CONFIG)/build.toml --jobs $(JOBS)"
        self.add(model, [folds, "$(CONFIG)/build.toml"], _step(name, build, options))
        text = f"{fold}/fold.$(SOURCE)"
        line = f"$(BIN)/moses-bridge filter --ini {model} --source {text} --out $(@D)"
        self.add(filtered, [model, folds], _step(name, line))
        line = _step(
            name,
            f"$(BIN)/moses-bridge decode --ini {filtered} --source {text}",
            f"--out $(@D)/fold.out.$(TARGET) --nbest $@ --nbest-size 50 --weights {weights}",
            "--config $(CONFIG)/lists.toml --jobs $(JOBS)",
        )
        return self.add(f"{fold}/lists.gz", [filtered, weights, "$(CONFIG)/lists.toml"], line)

    # --- Networks, and the tables they score

    def network(self, name: str, seed: int) -> str:
        """A trained network; the seed is that of a run, for networks trained per seed."""
        network = self.experiment.networks[name]
        if not self.is_per_seed(name):
            seed = network.seed
        config = f"$(CONFIG)/{self.experiment.section('networks', name)}.toml"
        if network.data is not None:
            data = DATA[network.data]
            needs = [data.needs, config]
            command = f"$(BIN)/rescorer train {data.file}"
            arch = f"--arch {_word(network.arch)}" if network.arch else ""
            start = ""
            if network.started_from is not None:
                needs.append(self.network(network.started_from, seed))
                start = f"--start $(B)/{self.directory(network.started_from, seed)}"
            options = _line(arch, data.options, start)
        else:
            first = str(network.tuned_from)
            lists = self.lists_of_folds()
            needs = [self.network(first, seed), lists, config]
            command = f"$(BIN)/rescorer expected-bleu $(B)/{self.directory(first, seed)} {lists}"
            options = _line(
                f"--source {TRAINING_SOURCE} --reference {TRAINING_TARGET}",
                "$(call given,--groups,$(CORPUS)/train.groups)",
            )
        directory = self.directory(name, seed)
        shared = f"--out $(@D) --config {config} --resume --seed {seed}"
        line = _step(directory, command, shared, options)
        return self.add(f"$(B)/{directory}/trained", needs, "$(FRESH)", line, "@touch $@")

    def is_per_seed(self, network: str) -> bool:
        entry = self.experiment.networks[network]
        return entry.per_seed or (entry.first is not None and self.is_per_seed(entry.first))

    def directory(self, network: str, seed: int) -> str:
        return f"{network}-{seed}" if self.is_per_seed(network) else network

    def models(self, feature: str, seed: int) -> list[str]:
        names = self.experiment.features[feature].networks
        return [f"$(B)/{self.directory(name, seed)}" for name in names]

    def trained(self, features: Sequence[str], seed: int) -> list[str]:
        of = self.experiment.features
        return [self.network(name, seed) for each in features for name in of[each].networks]

    def scored(self, columns: tuple[str, ...], seed: int) -> str:
        """The moses.ini of a table with added columns."""
        if not columns:
            return FILTERED_INI
        before = self.scored(columns[:-1], seed)
        own = before.replace("moses.ini", "phrase-table.gz")
        table = "$(FILTERED)" if before == FILTERED_INI else own
        column = self.experiment.columns[columns[-1]]
        if column.network is None:
            needs = [before]
            options = f"--control {_word(str(column.control))} --seed {seed}"
        else:
            # NETWORKS may be another build, with the rules of its networks.
            self.network(column.network, seed)
            model = f"$(NETWORKS)/{self.directory(column.network, seed)}"
            needs = [f"{model}/trained", before]
            unknown = "--columns unknown-words" if column.unknown_words else ""
            options = _line(f"--model {model}", unknown)
        name = "+".join(columns) + (f"-{seed}" if any(map(self.is_seeded, columns)) else "")
        line = _step(
            name,
            f"$(BIN)/rescorer score {table} --out $(@D)/phrase-table.gz --ini {before} --ini-out $@",
            f"--resume --jobs $(JOBS) {options}",
        )
        return self.add(f"$(B)/tables/{name}/moses.ini", needs, line)

    def is_seeded(self, column: str) -> bool:
        network = self.experiment.columns[column].network
        return network is None or self.is_per_seed(network)

    # --- Runs

    def start(self, name: str) -> str:
        config = "$(CONFIG)/start.toml"
        line = f"$(TUNE) --ini {FILTERED_INI} --out $(@D) --seed 0 --config {config}"
        step = _step(name, line, self.left_out(name))
        needs = [FILTERED_INI, config]
        return self.add(f"$(B)/runs/{name}/weights.json", needs, "$(FRESH)", step)

    def left_out(self, start: str) -> str:
        names = self.experiment.starts[start].leave_out
        return _line(*(f"--leave-out {_word(name)}" for name in names))

    def run(self, name: str, seed: int) -> str:
        """The weights of one run of a system."""
        system = self.experiment.systems[name]
        config = f"$(CONFIG)/{self.experiment.section('systems', name)}.toml"
        if system.reranks is None:
            ini, start = self.scored(system.columns, seed), self.start(system.start)
            needs = [ini, start, *self.trained(system.search, seed), config]
            command = f"$(TUNE) --ini {ini} --out $(@D) --seed {seed} --init-weights {start} --config {config}"
            features = [self.in_search(feature, seed) for feature in system.search]
        else:
            lists = self.run(system.reranks, seed)
            needs = [lists, *self.trained(system.on_lists, seed), config]
            run = lists.removesuffix("/weights.json")
            command = f"$(RERANK) {run} --out $(@D) --seed {seed} --config {config}"
            features = [self.on_lists(feature, seed) for feature in system.on_lists]
        optimizer = f"--optimizer {_word(system.optimizer)}" if system.optimizer else ""
        left_out = self.left_out(system.start) if system.left_out else ""
        line = _step(f"{name}-{seed}", command, optimizer, left_out, *features)
        return self.add(f"$(B)/runs/{name}-{seed}/weights.json", needs, "$(FRESH)", line)

    def in_search(self, feature: str, seed: int) -> str:
        (model,) = self.models(feature, seed)
        name = self.experiment.features[feature].name
        return f'--neural-lm "{name}=$(BIN)/rescorer serve {model} --unnormalized"'

    def on_lists(self, feature: str, seed: int) -> str:
        models = _line(*(f"--model {model}" for model in self.models(feature, seed)))
        name = self.experiment.features[feature].name
        command = f"$(BIN)/rescorer nbest {{nbest}} --source {{source}} {models} --feature {name}"
        return f'--nbest-feature "{name}={command} --out {{out}} --precision fastest"'

    def translated(self, name: str) -> str:
        """The test text under the weights of all runs of a system."""
        runs = [self.run(name, seed) for seed in self.seeds(name)]
        line = _step(name, "$(TRANSLATE)", *self.run_directories(name))
        needs = [*runs, "$(TEST).$(SOURCE)"]
        return self.add(f"$(B)/runs/{name}.translated", needs, line, "@touch $@")

    def seeds(self, system: str) -> tuple[int, ...]:
        seeds: tuple[int, ...] = getattr(
            self.experiment.seeds, self.experiment.systems[system].seeds
        )
        return seeds

    def run_directories(self, system: str) -> list[str]:
        return [f"$(B)/runs/{system}-{seed}" for seed in self.seeds(system)]

    # --- Tables and the page

    def table(self, name: str) -> str:
        """A table; its command alone has the row labels for table and page."""
        systems = self.experiment.rows(name)
        rows = [
            _quoted(
                f"{self.experiment.label(system, name)}=", ",".join(self.run_directories(system))
            )
            for system in systems
        ]
        control = self.experiment.tables[name].control
        against = f"--control {_word(self.experiment.label(control, name))}" if control else ""
        entries = (self.experiment.systems[system] for system in systems)
        has_commands = any(entry.search or entry.on_lists for entry in entries)
        commands = "--run-commands" if has_commands else ""
        needs = [*map(self.translated, systems), "$(TEST).$(TARGET)", COMPARE_CONFIG]
        line = _line("$(STEP) $(COMPARE) --out $(@D)", commands, *rows, against, ">/dev/null")
        return self.add(_table_file(name), needs, line)

    def worth(self, network: str) -> None:
        """What the score of a network is worth, on dev lists of the first run of the first system."""
        system, lists = next(iter(self.experiment.systems)), "$(B)/worth/dev.nbest.gz"
        seed, config = self.seeds(system)[0], "$(CONFIG)/worth.toml"
        decode = f"$(BIN)/moses-bridge decode --ini $(B)/runs/{system}-{seed}/moses.ini --nbest $@"
        options = "--source $(DEV).$(SOURCE) --out $(@D)/dev.$(TARGET) --jobs $(JOBS)"
        step = _step("worth", decode, options, f"--config {config}")
        self.add(lists, [self.run(system, seed), config], step)
        judge = f"$(STEP) $(BIN)/tuning worth --list {lists} $(DEV_TEXTS) $(call given,--groups,$(DEV).groups)"
        options = f"--model {JUDGED}=$(B)/{self.directory(network, seed)}"
        step = _line(judge, options, "--format json >$@.new && mv $@.new $@")
        self.add(f"$(B)/worth/{network}.json", [lists, self.network(network, seed)], step)

    def page(self) -> None:
        shown = self.experiment.page
        seed = self.experiment.seeds.runs[0]
        scored = [self.scored((column,), seed) for column in shown.columns]
        if shown.maps is not None:
            model = f"$(B)/{self.directory(shown.maps, seed)}"
            needs = [self.network(shown.maps, seed), FILTERED_INI]
            step = _step("maps", f"$(BIN)/rescorer map {model} $(FILTERED) --out $(@D)")
            phrases = self.add("$(B)/maps/phrases.json", needs, step)
            self.add("$(B)/maps/words.json", [phrases])
        columns = (f"--scored {ini.replace('moses.ini', 'phrase-table.gz')}" for ini in scored)
        line = _line("$(STEP) $(REPORT)", *columns, ">/dev/null")
        self.add(f"$(B)/{PAGE}", ["$(TABLES)", *scored, "$(MAPS)"], line)
