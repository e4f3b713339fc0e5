"""Reading and checking experiment files: systems, networks, columns, features and tables."""

from __future__ import annotations

import difflib
import re
import tomllib
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from moses_bridge.base.config import AtLeast, Limited, from_mapping, nearest
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.experiment import experiment_files, load_experiment, merge
from moses_bridge.base.textio import StrPath

Data = Literal[
    "table",
    "table and texts",
    "whole table and texts",
    "target text",
    "parallel text",
    "linked text",
]
SeedList = Literal["runs", "noise", "optimizers"]
MAIN = "main"
# Names are parts of the names of files and rules.
NAME = re.compile(r"[\w.+-]+", re.ASCII)
NAME_FORM = "a name of letters, digits, '_', '.', '+' and '-'"
# Directories of a build, forbidden as names of networks.
BUILD_DIRECTORIES = (
    "config", "corpus", "filtered", "folds", "lists", "maps", "model", "runs", "tables", "worth",
)  # fmt: skip
# Sections of settings of the steps in every experiment.
SECTIONS = ("corpus", "build", "start", "tune", "rerank", "compare", "lists")


@dataclass(frozen=True)
class Names:
    """The kind of thing named by a value: Annotated[str, Names("networks")]."""

    kind: str


Section = Annotated[str, Names("sections")]
NetworkName = Annotated[str, Names("networks")]
ColumnName = Annotated[str, Names("columns")]
FeatureName = Annotated[str, Names("features")]
StartName = Annotated[str, Names("starts")]
SystemName = Annotated[str, Names("systems")]
TableName = Annotated[str, Names("tables")]


@dataclass(frozen=True)
class Seeds:
    """Lists of seeds, of most systems, of systems with columns of noise, and of the comparison of optimisers.

    A system has one tuning run for each seed of its list.
    """

    runs: tuple[int, ...] = (1, 2, 3)
    noise: tuple[int, ...] = (1, 2, 3)
    optimizers: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)

    def __post_init__(self) -> None:
        """Refuse a list without a seed, or with a repeated one."""
        for each in fields(self):
            seeds = getattr(self, each.name)
            if not seeds or len(set(seeds)) < len(seeds):
                raise ConfigError(f"{each.name}: found {list(seeds)}, expected distinct seeds")


@dataclass(frozen=True)
class Folds(Limited):
    """The parts of the training text translated by systems trained on the others."""

    n_folds: Annotated[int, AtLeast(2)] = 10


@dataclass(frozen=True)
class Network:
    """A network and its training data.

    Attributes:
        arch: its architecture; None takes the default of `rescorer train`.
        data: its training data; None for a network tuned from another one.
        started_from: a network of the same architecture to train further on this data.
        tuned_from: the network tuned by `rescorer expected-bleu` on n-best lists of the training text, each
            fold translated by a system trained on the others.
        settings: its section of settings; None takes the one of its own name.
        per_seed: train one network for each seed of the runs.
    """

    arch: str | None = None
    data: Data | None = None
    started_from: NetworkName | None = None
    tuned_from: NetworkName | None = None
    settings: Section | None = None
    seed: int = 1
    per_seed: bool = False

    def __post_init__(self) -> None:
        """Refuse a network without data, or with two kinds of it."""
        if (self.data is None) == (self.tuned_from is None):
            raise ConfigError("expected one of the keys 'data' and 'tuned_from'")
        if self.started_from is not None and self.data is None:
            raise ConfigError("'started_from' needs the key 'data'")

    @property
    def first(self) -> NetworkName | None:
        """The network it begins with; None for a new one."""
        return self.started_from or self.tuned_from


@dataclass(frozen=True)
class Column:
    """Columns added to the phrase table by `rescorer score`.

    Attributes:
        network: the network scoring the rows.
        control: a control instead of a network, with one table for each seed.
        unknown_words: add the counts of words unknown to the network instead of its scores.
    """

    network: NetworkName | None = None
    control: str | None = None
    unknown_words: bool = False

    def __post_init__(self) -> None:
        """Refuse a column with neither a network nor a control, or with both."""
        if (self.network is None) == (self.control is None):
            raise ConfigError("expected one of the keys 'network' and 'control'")


@dataclass(frozen=True)
class Feature:
    """A feature, like "CSLM0", of the search (one network) or of n-best lists (an ensemble, too)."""

    name: str
    networks: tuple[NetworkName, ...]

    def __post_init__(self) -> None:
        """Refuse a name not allowed in an n-best list, and a feature without networks."""
        if not NAME.fullmatch(self.name):
            raise ConfigError(f"name: found {self.name!r}, expected {NAME_FORM}")
        if not self.networks:
            raise ConfigError("networks: found none, expected one or more")


@dataclass(frozen=True)
class Start:
    """One tuning of the baseline, with some columns kept at weight 0; runs start around its weights."""

    leave_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class System:
    """A row of a table: additions to the baseline, tuned once for each seed.

    Attributes:
        label: name of its row; {left_out} is replaced by the columns left out by its start.
        reranks: the system whose lists are reranked, instead of a tuning.
        on_lists: features of these lists.
        left_out: leave out the columns left out by its start.
        optimizer: optimiser, instead of the one in the settings.
        settings: its section of settings; None takes "tune", or "rerank" for reranking.
        tables: tables with this row, besides those naming it.
    """

    label: str
    columns: tuple[ColumnName, ...] = ()
    search: tuple[FeatureName, ...] = ()
    reranks: SystemName | None = None
    on_lists: tuple[FeatureName, ...] = ()
    start: StartName = "start"
    left_out: bool = False
    optimizer: str | None = None
    settings: Section | None = None
    seeds: SeedList = "runs"
    tables: tuple[TableName, ...] = (MAIN,)

    def __post_init__(self) -> None:
        """Refuse a label impossible on a command line, and mutually exclusive keys."""
        if not self.label or "=" in self.label:
            raise ConfigError(f"label: found {self.label!r}, expected a text without '='")
        if self.reranks is None and self.on_lists:
            raise ConfigError(
                "'on_lists' needs the key 'reranks'; a tuning has features in 'search'"
            )
        if self.reranks is not None and (self.columns or self.search):
            raise ConfigError(
                "'reranks' takes the lists of a system as they are; expected no 'columns', 'search'"
            )


@dataclass(frozen=True)
class Table:
    """A table of systems; the first one is the baseline.

    Attributes:
        rows: systems; those naming the table themselves follow, in the order of the file.
        control: the system known to be useless, compared with the others, too; by default the last row.
        drop_prefix: a prefix of labels, left out in this table.
        page: whether `make table1` makes it and puts it on the page.
    """

    rows: tuple[SystemName, ...] = ()
    control: SystemName | None = None
    title: str | None = None
    drop_prefix: str = ""
    page: bool = True


@dataclass(frozen=True)
class Page:
    """Contents of the page besides the tables.

    Attributes:
        columns: columns with scores to compare with the table's own.
        maps: the network of the maps of words and phrases.
    """

    columns: tuple[ColumnName, ...] = ()
    maps: NetworkName | None = None


@dataclass(frozen=True)
class Experiment:
    """The contents of an experiment's files (bases first), with the names of sections of settings."""

    files: tuple[Path, ...]
    sections: frozenset[str]
    seeds: Seeds
    folds: Folds
    page: Page
    networks: Mapping[str, Network]
    columns: Mapping[str, Column]
    features: Mapping[str, Feature]
    starts: Mapping[str, Start]
    systems: Mapping[str, System]
    tables: Mapping[str, Table]

    def section(self, kind: str, name: str) -> str:
        """The section of settings of a network or a system."""
        entry: Network | System = getattr(self, kind)[name]
        if isinstance(entry, Network):
            return entry.settings or name
        return entry.settings or ("tune" if entry.reranks is None else "rerank")

    def rows(self, table: str) -> list[str]:
        """The systems of a table, in the order of its rows."""
        joined = [name for name, system in self.systems.items() if table in system.tables]
        control = self.tables[table].control
        names = [*self.tables[table].rows, *joined, *([control] if control else [])]
        return list(dict.fromkeys(names))

    def label(self, system: str, table: str) -> str:
        """The row of a system in a table."""
        entry = self.systems[system]
        left_out = " ".join(self.starts[entry.start].leave_out)
        return entry.label.replace("{left_out}", left_out).removeprefix(
            self.tables[table].drop_prefix
        )


KINDS: dict[str, type[Any]] = {
    "networks": Network,
    "columns": Column,
    "features": Feature,
    "starts": Start,
    "systems": System,
    "tables": Table,
}


def read_experiment(paths: Sequence[StrPath], changes: Sequence[str] = ()) -> Experiment:
    """Read experiment files, and check that all names in them are defined.

    The paths are as for `moses_bridge.base.experiment.load_experiment`; changes are lines of TOML replacing
    keys of the files, such as "seeds.runs = [1, 2]".

    Raises:
        InputError: a file is missing or is not TOML.
        ConfigError: a key or a name is unknown, a value has the wrong type, two rows of a table have one
            label, or a change is not TOML; the message about an unknown name suggests the nearest valid one.
    """
    mapping = merge([load_experiment(paths), *map(_parsed_change, changes)])
    where = ", ".join(map(str, paths))
    experiment = Experiment(
        files=tuple(experiment_files(paths)),
        sections=frozenset(mapping.keys() - {*KINDS, "seeds", "folds", "page"}),
        seeds=from_mapping(Seeds, mapping.get("seeds", {}), f"{where}: seeds"),
        folds=from_mapping(Folds, mapping.get("folds", {}), f"{where}: folds"),
        page=from_mapping(Page, mapping.get("page", {}), f"{where}: page"),
        **{kind: dict(_entries(kind, mapping.get(kind, {}), where)) for kind in KINDS},
    )
    _check_names(experiment, where)
    _check_chains(experiment, where)
    _check_labels(experiment, where)
    return experiment


def _parsed_change(line: str) -> dict[str, Any]:
    try:
        return tomllib.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"found {line!r}, expected TOML as seeds.runs = [1, 2]") from error


def _entries(kind: str, mapping: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    for name, entry in mapping.items():
        if not NAME.fullmatch(name):
            raise ConfigError(f"{where}: {kind}: found {name!r}, expected {NAME_FORM}")
        if not isinstance(entry, Mapping):
            raise ConfigError(f"{where}: {kind}: {name}: found {entry!r}, expected a table")
        found = from_mapping(KINDS[kind], entry, f"{where}: {kind}: {name}")
        for each in fields(found):
            value = getattr(found, each.name)
            texts = value if isinstance(value, tuple) else (value,)
            if not all(text.isprintable() for text in texts if isinstance(text, str)):
                raise ConfigError(
                    f"{where}: {kind}: {name}: {each.name}: found {value!r}, expected one line"
                )
        yield name, found


def _check_names(experiment: Experiment, where: str) -> None:
    for user, kind, name in _references(experiment):
        valid = getattr(experiment, kind)
        if name not in valid:
            unknown = f"unknown {kind.removesuffix('s')} {name!r}{nearest(name, valid, kind)}"
            raise ConfigError(f"{where}: {user}: {unknown}")
    # An unused section may be meant for another file; a name nearly like a kind is a slip.
    used = {experiment.section("networks", name) for name in experiment.networks}
    for name in sorted(experiment.sections - used.union(SECTIONS)):
        if difflib.get_close_matches(name, KINDS, n=1, cutoff=0.8):
            raise ConfigError(f"{where}: unknown table {name!r}{nearest(name, KINDS)}")


def _references(experiment: Experiment) -> Iterator[tuple[str, str, str]]:
    """All references: the referrer, and the kind and name of the thing referred to."""
    yield from (("tables", "sections", name) for name in ("start", "compare"))
    yield from _named("page", experiment.page)
    for kind in KINDS:
        for name, entry in getattr(experiment, kind).items():
            yield from _named(f"{kind}: {name}", entry)
            if isinstance(entry, Network | System):
                yield f"{kind}: {name}", "sections", experiment.section(kind, name)
    if any(network.tuned_from for network in experiment.networks.values()):
        yield "networks", "sections", "lists"
        yield "networks", "starts", "start"


def _named(user: str, entry: Any) -> Iterator[tuple[str, str, str]]:
    hints = typing.get_type_hints(type(entry), include_extras=True)
    for each in fields(entry):
        value = getattr(entry, each.name)
        for kind in _kinds(hints[each.name]):
            for name in (value,) if isinstance(value, str) else value or ():
                yield user, kind, name


def _kinds(hint: Any) -> Iterator[str]:
    for part in (*typing.get_args(hint), *getattr(hint, "__metadata__", ())):
        if isinstance(part, Names):
            yield part.kind
        else:
            yield from _kinds(part)


def _check_chains(experiment: Experiment, where: str) -> None:
    """Refuse things made from themselves, from a system without lists, or in place of other files."""
    for name, network in experiment.networks.items():
        if name in BUILD_DIRECTORIES or name in experiment.tables:
            raise ConfigError(f"{where}: networks: {name}: something else in a build has this name")
        if network.first is None:
            continue
        first = experiment.networks[network.first]
        if first.first is not None:
            raise ConfigError(
                f"{where}: networks: {name}: {network.first!r} begins with another network itself"
            )
        if network.started_from is not None and network.arch != first.arch:
            raise ConfigError(
                f"{where}: networks: {name}: arch is {network.arch!r}, expected {first.arch!r}, "
                f"that of {network.first!r}"
            )
    for name, system in experiment.systems.items():
        if system.reranks is not None and experiment.systems[system.reranks].reranks is not None:
            raise ConfigError(
                f"{where}: systems: {name}: {system.reranks!r} has no lists of its own"
            )
        for feature in system.search:
            if len(experiment.features[feature].networks) != 1:
                raise ConfigError(
                    f"{where}: systems: {name}: {feature!r} in the search is one network"
                )


def _check_labels(experiment: Experiment, where: str) -> None:
    for table in experiment.tables:
        labels: dict[str, str] = {}
        for system in experiment.rows(table):
            label = experiment.label(system, table)
            if label in labels:
                both = f"{labels[label]!r} and {system!r}"
                raise ConfigError(f"{where}: tables: {table}: {both} have the same label {label!r}")
            labels[label] = system
        if not labels:
            raise ConfigError(f"{where}: tables: {table}: it has no rows")
