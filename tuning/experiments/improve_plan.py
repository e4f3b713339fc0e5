"""What `tuning run improve` tries, and how long that takes, reckoned by counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from moses_bridge.base.progress import duration
from tuning.compare.worth import FEWEST_DOCUMENTS
from tuning.experiments.description import Experiment, Network
from tuning.experiments.improve_checks import Facts
from tuning.experiments.settings import ImproveSettings

BASELINE, CONTROL, LINKS = "baseline", "random", "word links"
# What may be tried, most gain for its time first (docs/which.md); without --minutes only the first of them.
IN_SEARCH = {
    "CSLM and NNJM in the search": ("cslm", "nnjm", "cslm-nnjm"),
    "columns trained on lists of the training text": ("home-neural", "home-columns"),
    "lists reranked with RNNsearch": ("search-rnnsearch", "columns-rnnsearch"),
}
FOR_MOSES = {
    "lists reranked with CSLM": ("lists", "lists-cslm"),
    "columns trained on lists of the training text": ("home-pairs", "home-both"),
    "lists reranked with RNNsearch": ("lists-rnnsearch", "both-rnnsearch"),
    "lists reranked with RNNsearch and an RNN language model": ("lists-all",),
}
TABLE_ALONE = {"the RNN's column": ("rnn-alone",)}
# Seconds of one processor of an AMD EPYC with the settings of small.toml. Networks take 0.5 to 0.9 of them with
# AVX-512 (docs/which.md), 1.1 to 1.4 without. A million target words, rows for the texts, and words in lists.
TEXT_SECONDS = {"cslm": 72, "nnjm": 132, "rnn_lm": 350, "rnnsearch": 1500}
ROW_SECONDS = {"encdec": 240, "word_pairs": 40}
LIST_SECONDS = {"encdec": 140, "word_pairs": 28}
FOLD_SECONDS, LINK_SECONDS = 240, 140  # a million target words
FILTER_SECONDS = 4  # a million rows
TUNING_SECONDS, TRANSLATION_SECONDS = 14, 2.5  # a thousand sentences
SEARCH_FACTORS = {"cslm": 1.8, "nnjm": 2.5}  # so many times as long takes a search with it
JUDGING_SECONDS = 15  # a thousand sentences, for the lists and for each score
OTHER_SECONDS = 60  # comparing, and compiling at the first use
ROWS_SERVED = 120  # rows that serve a sentence
NETWORK_BYTES = 10**8


@dataclass(frozen=True)
class Plan:
    """What is tried.

    Attributes:
        systems: the candidates.
        seconds: of each step, on the processors to use.
        further: what more minutes would add, with the seconds.
        limits: settings that end trainings sooner, where all of it would take longer than it may.
        judged: networks whose scores are judged; a dev text of too few documents judges none.
    """

    systems: tuple[str, ...]
    seconds: dict[str, float]
    further: dict[str, float]
    limits: dict[str, dict[str, dict[str, float]]]
    judged: tuple[str, ...]


def make_plan(experiment: Experiment, settings: ImproveSettings, facts: Facts) -> Plan:
    """Choose what fits into the minutes."""
    offers = FOR_MOSES if settings.keep_search else IN_SEARCH
    limit = 60 * (settings.minutes or 0)
    systems: tuple[str, ...] = ()
    seconds: dict[str, float] = {}
    further: dict[str, float] = {}
    for offer, names in (offers if settings.train else TABLE_ALONE).items():
        possible = [n for n in names if facts.has_usual_features or not uses_lists(experiment, n)]
        tried = (*systems, *possible)
        needed = reckon(experiment, tried, facts, settings)
        total = sum(needed.values())
        if not systems or total <= limit:
            systems, seconds = tried, needed
        elif possible:
            further[offer] = total - sum(seconds.values())
    share = limit / sum(seconds.values()) if limit else 1.0
    trained = {name: each for name, each in seconds.items() if name in experiment.networks}
    limits = {
        experiment.section("networks", name): {
            "loop": {"max_minutes": max(0.01, round(share * each / 60, 2))}
        }
        for name, each in trained.items()
    }
    scored = dict.fromkeys(each for system in systems for each in judged(experiment, system))
    of_scores = (*scored,) if facts.n_documents >= FEWEST_DOCUMENTS else ()
    return Plan(systems, seconds, further, limits if share < 1 else {}, of_scores)


def bytes_needed(experiment: Experiment, plan: Plan, facts: Facts) -> int:
    """Disk for filtered tables, networks, and as large as the model: systems of folds, two scored tables."""
    has_folds = any(uses_lists(experiment, name) for name in plan.systems)
    n_models = 1 + (experiment.folds.n_folds + 2) * has_folds
    return facts.n_bytes * n_models + NETWORK_BYTES * len(plan.systems)


def plan_lines(settings: ImproveSettings, plan: Plan) -> Iterator[str]:
    """The plan for the reader."""
    total = duration(sum(plan.seconds.values()))
    yield f"to do, about {total} on {settings.jobs} processors (interrupted and repeated it goes on):"
    for name, seconds in plan.seconds.items():
        yield f"    {duration(seconds):>10}  {name}"
    if plan.limits:
        yield f"    that is more than {settings.minutes:g} minutes: trainings end earlier"
    if not plan.judged:
        yield (
            f"    the dev text has fewer than {FEWEST_DOCUMENTS} documents: no score is judged before tuning"
        )
    for offer, seconds in plan.further.items():
        yield f"    more --minutes would add: {offer}, {duration(seconds)}"
    if settings.train is None:
        yield (
            "    a training text (--train) would bring CSLM and NNJM in the search, which gained 1 to 2.6 "
            "BLEU; the column of a table alone gained nothing in its own domain"
        )


def uses_lists(experiment: Experiment, system: str) -> bool:
    """Whether a system has a network trained on n-best lists of the training text."""
    return any(network.tuned_from for network in _networks(experiment, system).values())


def reckon(
    experiment: Experiment, systems: Sequence[str], facts: Facts, settings: ImproveSettings
) -> dict[str, float]:
    """Seconds of each step for some systems, the baseline and the control, on the processors to use."""
    millions, n_seeds = facts.n_words / 1e6, len(experiment.seeds.runs)
    networks = {n: e for system in systems for n, e in _networks(experiment, system).items()}
    has_lists = any(network.tuned_from for network in networks.values())
    has_links = has_lists or any(network.data == "linked text" for network in networks.values())
    factors = {name: _search_factor(experiment, name) for name in (*systems, BASELINE, CONTROL)}
    tunings = {
        name: n_seeds * TUNING_SECONDS * factor * facts.n_dev / 1000
        for name, factor in factors.items()
    }
    translations = n_seeds * (2 + max(factors.values())) * facts.n_test / 1000
    seconds = {"filter": FILTER_SECONDS * facts.n_rows / 1e6}
    if has_links and settings.found_links() is None:
        seconds[LINKS] = LINK_SECONDS * millions
    seconds[f"baseline, {n_seeds} tunings"] = tunings[BASELINE]
    if has_lists:
        seconds["lists of the training text"] = FOLD_SECONDS * millions
    for name, network in networks.items():
        seconds[name] = _training_seconds(experiment, network, facts)
    scored = {each for system in systems for each in judged(experiment, system)}
    if facts.n_documents >= FEWEST_DOCUMENTS:
        seconds["what scores are worth"] = JUDGING_SECONDS * (1 + len(scored)) * facts.n_dev / 1000
    for name in systems:
        seconds[f"{experiment.systems[name].label}, {n_seeds} tunings"] = tunings[name]
    compared = TRANSLATION_SECONDS * translations + OTHER_SECONDS
    seconds["control and comparison"] = tunings[CONTROL] + compared
    return {name: each / settings.jobs for name, each in seconds.items()}


def judged(experiment: Experiment, system: str) -> list[str]:
    """The networks of a system whose scores it needs: not those that another one only begins with."""
    networks = _networks(experiment, system)
    return [name for name in networks if all(each.first != name for each in networks.values())]


def _networks(experiment: Experiment, system: str) -> dict[str, Network]:
    entry = experiment.systems[system]
    own = [experiment.columns[column].network for column in entry.columns]
    for feature in (*entry.search, *entry.on_lists):
        own += experiment.features[feature].networks
    names = [
        part for name in own if name for part in (experiment.networks[name].first, name) if part
    ]
    found = {name: experiment.networks[name] for name in names}
    return found if entry.reranks is None else _networks(experiment, entry.reranks) | found


def _training_seconds(experiment: Experiment, network: Network, facts: Facts) -> float:
    first = experiment.networks[network.tuned_from] if network.tuned_from else network
    arch = first.arch or "encdec"
    if network.tuned_from:
        return LIST_SECONDS[arch] * facts.n_words / 1e6
    if arch in ROW_SECONDS:
        n_rows = min(facts.n_rows, ROWS_SERVED * (facts.n_dev + facts.n_test))
        return ROW_SECONDS[arch] * n_rows / 1e6
    return TEXT_SECONDS[arch] * facts.n_words / 1e6


def _search_factor(experiment: Experiment, system: str) -> float:
    factors = [SEARCH_FACTORS[feature] for feature in experiment.systems[system].search]
    return 1 + sum(factor - 1 for factor in factors)
