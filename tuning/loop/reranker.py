"""Learned weights applied to n-best lists of other texts, for which no references are needed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import mul
from pathlib import Path
from typing import Any, Self

from moses_bridge.base.config import from_mapping
from moses_bridge.base.errors import ConfigError, InputError, arguments_named
from moses_bridge.base.json_files import open_record_of, read_json, write_json
from moses_bridge.base.lock import held_file
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.textio import (
    StrPath,
    count_lines,
    open_directory,
    read_bytes,
    temporary_directory,
    write_lines,
)
from moses_bridge.formats.nbest import NBestEntry, format_entry, parse_features, read_nbest
from moses_bridge.formats.nbest_lists import WORD_PENALTY, bars_of, checked
from moses_bridge.formats.weights import read_weights
from moses_bridge.formats.words import split_words
from tuning.loop.list_features import (
    ListFeatures,
    NBestFeature,
    best_entries,
    feature_of_model,
    weighted_sum,
)
from tuning.loop.rerank import (
    RERANKED,
    ListedText,
    Reranked,
    RerankedRun,
    rerank_lists,
    with_features,
)
from tuning.loop.run_directory import Weights, check_finite, with_caution
from tuning.loop.settings import RerankConfig

UNLISTED = "UnknownWordPenalty"  # which Moses leaves out of lists
APPLIED_NAMES = CHOSEN_NAME, SCORES_NAME = "chosen.out", "scores.tsv"
RERANKING = "the weights.json of a reranking, or a table of weights"


@dataclass(frozen=True)
class Applied:
    """The hypotheses that weights chose from a list.

    Attributes:
        texts: the chosen hypothesis of each sentence, as the list's own format has it.
        scores: its score, the sum of features times weights: comparable within a sentence alone.
        first_scores: the score of the first hypothesis of each sentence.
        summary: what changed, in three lines.
    """

    texts: Sequence[bytes]
    scores: Sequence[float]
    first_scores: Sequence[float]
    summary: str

    def __repr__(self) -> str:
        return f"<tuning.loop.reranker.Applied {self.summary}>"

    def write(self, out: Path, overwrite: bool = False) -> None:
        """Write OUT/chosen.out and scores.tsv, a line a sentence; a ConfigError if out has files."""
        replaced = APPLIED_NAMES if overwrite else ()
        pairs = zip(self.scores, self.first_scores, strict=True)
        rows = [f"{score:.6f}\t{first:.6f}".encode() for score, first in pairs]
        with held_file(out), open_directory(out, replaced) as directory:
            write_lines(directory / CHOSEN_NAME, [*self.texts])
            write_lines(directory / SCORES_NAME, [b"score\tfirst_score", *rows])


def read_reranked(path: Path) -> Reranked:
    """Read the weights.json of a reranking, or other weights as those of its only system.

    Raises:
        InputError: the file is neither, or has no learned weights.
    """
    if b'"systems"' in read_bytes(path):
        found = open_record_of(Reranked, read_json(path), path, RERANKING)
        check_finite(asdict(found), path)
    else:
        weights = {name: [*row] for name, row in read_weights(path).items()}
        run = RerankedRun(seed=0, weights=weights, dev_score=0.0, dev="")
        found = Reranked(optimizer="", metric="bleu", features=[], systems={RERANKED: [run]})
    if not (found.systems and all(found.systems.values()) and found.best.weights):
        raise InputError(path, None, "no learned weights", RERANKING)
    return found


def apply_weights(
    text: ListedText,
    reranked: Reranked,
    config: RerankConfig,
    features: Sequence[NBestFeature] = (),
    nbest_out: Path | None = None,
) -> Applied:
    """Choose the hypotheses of a list by the weights of a reranking's last system, its best run on dev.

    Args:
        text: the list and its source; the references are not read.
        reranked: see `read_reranked`.
        config: settings of lists. With `run_commands` the features kept with the weights are added.
        features: features to add instead.
        nbest_out: list to write in Moses's format, the best hypothesis of each sentence first, with the new
            scores as totals; None for none.

    Raises:
        InputError: the list is malformed, or its features are not those with weights.
        ConfigError: an added feature has the name of one of the list, or nbest_out is an input.
    """
    if nbest_out is not None:
        refuse_overwriting([nbest_out], text.files)
    n_sentences, weights = count_lines(text.source), reranked.best.weights
    if not n_sentences:
        raise InputError(text.source, None, "no lines", "a line for each sentence")
    features = features or (reranked.features if config.run_commands else ())
    mbr = config.mbr or (None if reranked.mbr == "column" else reranked.mbr)
    config = replace(config, word_penalty=WORD_PENALTY in weights, mbr=mbr)
    likeness = config.chosen_mbr.likeness()
    with temporary_directory("apply") as folder, ListFeatures(features) as added:
        listed = with_features(text, folder / "list.nbest.gz", added, likeness, config)
        _check_features(parse_features(next(read_nbest(listed)), listed), text.nbest, reranked)
        entries = read_nbest(listed)
        if features:  # a command may have added its feature to some lines alone
            entries = checked(listed, "moses", n_sentences, range(n_sentences))
        firsts, chosen = best_entries(entries, listed, [{}, weights])
        if nbest_out is not None:
            scored = [
                replace(entry, total=weighted_sum(parse_features(entry, listed), weights))
                for entry in read_nbest(listed)
            ]
            scored.sort(key=lambda entry: (entry.sentence_id, -entry.total))
            write_lines(nbest_out, map(format_entry, scored))
    pairs = [(firsts[number], chosen[number]) for number in range(n_sentences)]
    parts = [[_parts(entry, listed, weights) for entry in pair] for pair in pairs]
    unescaped = bars_of(config.list_format)
    return Applied(
        texts=[unescaped(best.words) for _, best in pairs],
        scores=[best.total for _, best in pairs],
        first_scores=[sum(first.values()) for first, _ in parts],
        summary=with_caution(_summary(pairs, parts), reranked.caution),
    )


def _check_features(
    features: Mapping[str, Sequence[float]], path: Path, reranked: Reranked
) -> None:
    """Refuse a list with other dense features than the weights; one of weight 0 may be missing."""
    found = {name: len(values) for name, values in features.items() if "_" not in name}
    expected = {
        name: len(row)
        for name, row in reranked.best.weights.items()
        if name in found or (any(row) and "_" not in name and not name.startswith(UNLISTED))
    }
    if found == expected:
        return
    hint = "Apply weights that were learned with these features"
    if missing := [name for name in expected if name not in found]:
        hint = f"Add {', '.join(missing)} with --model or --nbest-feature"
        if {feature.name for feature in reranked.features}.intersection(missing):
            hint += ", or with --run-commands, which runs the commands kept with the weights"
    shown = [", ".join(f"{name} ({n})" for name, n in each.items()) for each in (found, expected)]
    raise InputError(path, 1, f"the features {shown[0]}", f"{shown[1]}, which have weights", hint)


def _parts(entry: NBestEntry, path: Path, weights: Weights) -> dict[str, float]:
    """What each feature adds to the score of a hypothesis."""
    features = parse_features(entry, path)
    return {name: sum(map(mul, weights.get(name, ()), row)) for name, row in features.items()}


def _summary(
    pairs: Sequence[tuple[NBestEntry, NBestEntry]], parts: Sequence[Sequence[Mapping[str, float]]]
) -> str:
    n, n_changed = len(pairs), sum(first.words != best.words for first, best in pairs)
    n_words = [
        sum(len(split_words(each.words)) for each in side) for side in zip(*pairs, strict=True)
    ]
    gains = Counter[str]()
    for first, best in parts:
        gains.update(best)
        gains.subtract(first)
    by_size = sorted(gains.items(), key=lambda item: -abs(item[1]))
    shown = [f"{name} {gain / n:+.4f}" for name, gain in by_size if gain]
    return (
        f"changed: {n_changed:,} of {n:,} sentences ({100 * n_changed / n:.1f}%)\n"
        f"words: {n_words[0]:,} in the first hypotheses, {n_words[1]:,} in the chosen ones\n"
        f"score of a sentence: {sum(gains.values()) / n:+.4f} ({', '.join(shown) or 'as before'})"
    )


class Reranker:
    """Chooses from n-best lists by weights that `fit` learned or `load` read, as classes of scikit-learn do.

    Args:
        settings: what a file for the `--config` of `tuning rerank` says: {"list_format": "marian"}.
        models: directories of models whose scores are added to the lists, by the names of their features.
        nbest_features: NAME=COMMAND each, further features to add.
        seed: of the first run of the optimiser.
        jobs: threads of the optimiser.

    Raises:
        UserError: here and in the methods: settings, a file or a feature are malformed, a list has other
            features than the weights, or there are no weights yet.
    """

    @arguments_named()
    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        models: Mapping[str, StrPath] | None = None,
        nbest_features: Sequence[str] = (),
        seed: int = 1,
        jobs: int = 1,
    ) -> None:
        self._config = from_mapping(RerankConfig, settings or {}, "settings")
        self._features = [NBestFeature.parse(text) for text in nbest_features]
        named = (models or {}).items()
        self._features += [feature_of_model(f"{name}={path}") for name, path in named]
        self._seed, self._jobs = seed, jobs
        self._learned: Reranked | None = None

    def __repr__(self) -> str:
        return f"<tuning.Reranker {self._learned or 'without weights'}>"

    @property
    def weights(self) -> Weights:
        """The weights by feature: those of the run with the best dev score."""
        return self._fitted.best.weights

    @property
    def _fitted(self) -> Reranked:
        if self._learned is None:
            raise ConfigError("found a Reranker without weights; call fit or load first")
        return self._learned

    @arguments_named()
    def fit(self, nbest: StrPath, source: StrPath, references: StrPath | Sequence[StrPath]) -> Self:
        """Learn weights on the list of a text with one reference or several, tokenised as the list is."""
        files = [references] if isinstance(references, str | os.PathLike) else references
        text = ListedText(Path(nbest), Path(source), [*map(Path, files)])
        rest = (self._config, self._features, self._seed, self._jobs)
        with temporary_directory("fit") as folder:
            found = rerank_lists(text, None, folder / "out", *rest)
        self._learned = replace(found, systems={RERANKED: [replace(found.best, dev="")]})
        return self

    @arguments_named()
    def apply(self, nbest: StrPath, source: StrPath, nbest_out: StrPath | None = None) -> Applied:
        """Choose from the list of another text; `nbest_out` is a reranked list to write, in Moses's format."""
        out = None if nbest_out is None else Path(nbest_out)
        text = ListedText(Path(nbest), Path(source))
        return apply_weights(text, self._fitted, self._config, self._features, out)

    def save(self, path: StrPath) -> None:
        """Write the weights to a file for `load` and for `tuning rerank --apply`."""
        write_json(Path(path), asdict(self._fitted))

    @arguments_named()
    def load(self, path: StrPath) -> Self:
        """Read weights; commands of features kept in the file run only with the setting `run_commands`."""
        self._learned = read_reranked(Path(path))
        return self
