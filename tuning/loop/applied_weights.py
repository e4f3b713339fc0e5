"""Learned weights applied to other n-best lists, for which no references are needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from moses_bridge.base.choices import ListFormat
from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import open_record_of, read_json
from moses_bridge.base.lock import held_file
from moses_bridge.base.progress import track_lines
from moses_bridge.base.textio import (
    count_lines,
    open_directory,
    read_bytes,
    temporary_directory,
    write_lines,
)
from moses_bridge.formats.nbest import (
    NBestEntry,
    format_entry,
    parse_features,
    read_nbest,
    without_escaped_bars,
)
from moses_bridge.formats.nbest_lists import ESCAPES_BARS, READERS, WORD_PENALTY
from moses_bridge.formats.weights import read_weights
from moses_bridge.formats.words import split_words
from tuning.loop.list_features import ListFeatures, NBestFeature
from tuning.loop.mbr import FEATURE as MBR_FEATURE
from tuning.loop.rerank import (
    RERANKED,
    ListedText,
    Reranked,
    RerankedRun,
    with_features,
)
from tuning.loop.run_directory import check_finite
from tuning.loop.settings import RerankConfig

if TYPE_CHECKING:
    import pandas as pd

CHOSEN_NAME, SCORES_NAME = "chosen.out", "scores.tsv"
RERANKING = "the weights.json of a reranking, or a table of weights"


class Choice(NamedTuple):
    """A hypothesis of a list.

    Attributes:
        score: sum of its features, times their weights.
        rank: its place among the hypotheses of its sentence, from 1.
        words: the words, as the list's own format has them.
        parts: what each feature adds to the score.
    """

    score: float
    rank: int
    words: bytes
    parts: Mapping[str, float]


@dataclass(frozen=True)
class Applied:
    """The result of applying weights: the first and the chosen hypothesis of each sentence."""

    firsts: Sequence[Choice]
    chosen: Sequence[Choice]

    def frame(self) -> pd.DataFrame:
        """A row for each sentence: text, rank in the list (from 1), score, and that of the first hypothesis."""
        import pandas as pd

        columns = {
            "text": [each.words.decode("utf-8", "replace") for each in self.chosen],
            "rank": [each.rank for each in self.chosen],
            "score": [each.score for each in self.chosen],
            "first_score": [each.score for each in self.firsts],
        }
        return pd.DataFrame(columns)

    def summary(self) -> str:
        """What changed, in three lines; without references nothing says that it is better."""
        n = len(self.chosen)
        changed = [each.rank for each in self.chosen if each.rank > 1]
        n_words = [
            sum(len(split_words(each.words)) for each in side)
            for side in (self.firsts, self.chosen)
        ]
        gains = Counter[str]()
        for first, best in zip(self.firsts, self.chosen, strict=True):
            gains.update(best.parts)
            gains.subtract(first.parts)
        by_size = sorted(gains.items(), key=lambda item: -abs(item[1]))
        parts = ", ".join(f"{name} {gain / n:+.4f}" for name, gain in by_size)
        rank = f", with the mean rank {sum(changed) / len(changed):.1f}" if changed else ""
        return (
            f"changed: {len(changed):,} of {n:,} sentences ({100 * len(changed) / n:.1f}%){rank}\n"
            f"words: {n_words[0]:,} in the first hypotheses, {n_words[1]:,} in the chosen ones\n"
            f"score of a sentence: {sum(gains.values()) / n:+.4f}, of which {parts}\n"
        )

    def write(self, out: Path, overwrite: bool = False) -> None:
        """Write the chosen words, one sentence a line, and scores.tsv into a directory.

        Raises:
            ConfigError: the directory has files.
        """
        replaced = (CHOSEN_NAME, SCORES_NAME) if overwrite else ()
        with held_file(out), open_directory(out, replaced) as directory:
            write_lines(directory / CHOSEN_NAME, [each.words for each in self.chosen])
            rows = zip(self.chosen, self.firsts, strict=True)
            lines = [f"{best.rank}\t{best.score:.6f}\t{first.score:.6f}" for best, first in rows]
            header = "rank\tscore\tfirst_score"
            write_lines(directory / SCORES_NAME, [line.encode() for line in (header, *lines)])


def read_reranked(path: Path) -> Reranked:
    """Read the weights.json of a reranking, or other weights as those of its only system.

    Raises:
        InputError: the file is neither, or has no learned weights.
    """
    if b'"systems"' in read_bytes(path):
        found = open_record_of(Reranked, read_json(path), path, RERANKING)
        check_finite([run.weights for runs in found.systems.values() for run in runs], path)
    else:
        weights = {name: [*row] for name, row in read_weights(path).items()}
        run = RerankedRun(seed=0, weights=weights, dev_score=0.0, dev="")
        found = Reranked(optimizer="", metric="bleu", features=[], systems={RERANKED: [run]})
    if not (all(found.systems.values()) and found.systems and found.best.weights):
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
        config: settings of lists. With `run_commands` the features recorded with the weights are added.
        features: features to add instead.
        nbest_out: list to write in Moses's format, the best hypothesis of each sentence first, with the new
            scores as totals; None for none.

    Raises:
        InputError: the list is malformed, or its features are not those with weights.
        ConfigError: an added feature has the name of one of the list.
    """
    if not count_lines(text.source):
        raise InputError(text.source, None, "no lines", "a line for each sentence")
    features = features or (reranked.features if config.run_commands else ())
    config = replace(config, word_penalty=WORD_PENALTY in reranked.best.weights)
    if config.mbr is None and reranked.mbr in ("bleu", "chrf") and _lacks_mbr(text, config):
        config = replace(config, mbr=reranked.mbr)
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_directory("apply"))
        added = stack.enter_context(ListFeatures(features))
        listed = with_features(
            text, folder / "list.nbest.gz", added, config.chosen_mbr.likeness(), config
        )
        return _choose(listed, text.nbest, reranked, config.list_format, nbest_out)


def _lacks_mbr(text: ListedText, config: RerankConfig) -> bool:
    first = next(READERS[config.list_format](text.nbest), None)
    return first is not None and MBR_FEATURE not in parse_features(first, text.nbest)


def _choose(
    listed: Path, path: Path, reranked: Reranked, form: ListFormat, nbest_out: Path | None
) -> Applied:
    """Score the hypotheses of a list in Moses's format, made from `path`; write them in their new order."""
    unescaped = without_escaped_bars if form in ESCAPES_BARS else bytes
    weights = reranked.best.weights
    checked: dict[str, int] = {}
    n_seen = Counter[int]()
    firsts, chosen = dict[int, Choice](), dict[int, Choice]()
    kept: list[tuple[int, float, int, NBestEntry]] = []
    for entry in track_lines(read_nbest(listed), "apply", listed, "hypotheses"):
        features = parse_features(entry, listed)
        sizes = {name: len(values) for name, values in features.items() if "_" not in name}
        if sizes != checked:
            _check_features(sizes, path, entry.line_number, reranked)
            checked = sizes
        number = entry.sentence_id
        n_seen[number] += 1
        parts = {
            name: sum(map(mul, weights[name], values))
            for name, values in features.items()
            if name in weights
        }
        each = Choice(sum(parts.values()), n_seen[number], unescaped(entry.words), parts)
        firsts.setdefault(number, each)
        if each.score > chosen.setdefault(number, each).score:
            chosen[number] = each
        if nbest_out is not None:
            kept.append((number, -each.score, each.rank, replace(entry, total=each.score)))
    if nbest_out is not None:
        write_lines(nbest_out, [format_entry(entry) for *_, entry in sorted(kept)])
    numbers = range(len(chosen))
    return Applied([firsts[number] for number in numbers], [chosen[number] for number in numbers])


def _check_features(sizes: Mapping[str, int], path: Path, place: int, reranked: Reranked) -> None:
    """Refuse a hypothesis with other dense features than the weights; one of weight 0 may be missing."""
    weights = reranked.best.weights
    expected = {
        name: len(row)
        for name, row in weights.items()
        if "_" not in name and (name in sizes or any(row))
    }
    if sizes == expected:
        return
    hint = "Apply weights that were learned with these features"
    if missing := [name for name in expected if name not in sizes]:
        hint = f"Add {', '.join(missing)} with --model or --nbest-feature"
        if {feature.name for feature in reranked.features}.intersection(missing):
            hint += ", or with --run-commands, which runs the commands kept with the weights"
    found = f"hypothesis {place} with the features {_shown(sizes)}"
    raise InputError(path, None, found, f"{_shown(expected)}, which have weights", hint)


def _shown(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({n_values})" for name, n_values in sizes.items()) or "none"
