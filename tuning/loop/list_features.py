"""Adding features to n-best lists outside the decoder: by commands, or by scorer processes kept running."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Self

from moses_bridge.base.blocks import blocks_of
from moses_bridge.base.errors import ConfigError, InputError, shown
from moses_bridge.base.programs import run_program
from moses_bridge.base.progress import LineProgress
from moses_bridge.base.textio import open_write, read_lines
from moses_bridge.decoding.text_values import TextValues
from moses_bridge.formats.nbest import BAR, parse_entry, parse_features, read_nbest, with_feature
from moses_bridge.formats.ngram_scorer import ScorerProcesses
from tuning.loop.nbest_choice import NBestFeature

# Hypotheses per call of a scorer: few, compared with those whose n-grams are remembered.
HYPOTHESES_AT_ONCE = 1_000


class ListFeatures:
    """Adds features to n-best lists, inside a `with` block.

    Scorer processes start with the first list. They and their values are kept until the end of the block.

    Args:
        features: the features to add, in this order.
    """

    def __init__(self, features: Sequence[NBestFeature]) -> None:
        self.features = features
        self._processes = ScorerProcesses()
        self._values: dict[str, TextValues] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes."""
        self._processes.end()

    def add(self, nbest: Path, source: Path, out: Path) -> None:
        """Write a list with the features added.

        Args:
            nbest: the list; without features to add, it is moved to `out`.
            source: the translated sentences.
            out: the list to write, compressed by suffix.

        Raises:
            ToolError: a command failed.
            InputError: a command wrote no n-best list, or one with other sentence ids or lines.
            ConfigError: a command did not add its feature.
            UserError: a scorer fails, or sees the source.
        """
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".features.") as directory:
            current = nbest
            for number, feature in enumerate(self.features):
                following = Path(directory) / f"{number}.nbest.gz"
                if feature.is_scorer:
                    self._ask(feature, current, following)
                else:
                    _run(feature, current, source, following)
                current = following
            current.replace(out)

    def _ask(self, feature: NBestFeature, nbest: Path, out: Path) -> None:
        if feature.name not in self._values:
            process = self._processes.of(tuple(shlex.split(feature.command)))
            self._values[feature.name] = TextValues(process)
        values = self._values[feature.name]
        with open_write(out) as stream, LineProgress(feature.name, nbest, "hypotheses") as progress:
            for lines in blocks_of(enumerate(read_lines(nbest), start=1), HYPOTHESES_AT_ONCE):
                texts = [parse_entry(line, nbest, number).words for number, line in lines]
                for (_, line), value in zip(lines, values(texts).tolist(), strict=True):
                    stream.write(with_feature(line, feature.name, value) + b"\n")
                progress.update(len(lines))


def _run(feature: NBestFeature, nbest: Path, source: Path, out: Path) -> None:
    run_program(feature.words(str(nbest), str(source), str(out)))
    first = next(read_nbest(out), None)
    if first is not None and feature.name not in parse_features(first, out):
        raise ConfigError(
            f"the command of {feature.name} wrote a list without {feature.name}=: {feature.command}"
        )
    _check_same_entries(feature, nbest, out)


def _check_same_entries(feature: NBestFeature, nbest: Path, out: Path) -> None:
    """Refuse a list with entries missing, added or in another order: sentences would become empty."""
    what = f"the list written by the command of {feature.name}"
    for number, (old, new) in enumerate(zip_longest(read_lines(nbest), read_lines(out)), start=1):
        if new is None or old is None:
            found, expected = ("the end", "a line") if new is None else ("a line", "the end")
            hint = f"The command of {feature.name} must write one line for each line it reads"
            raise InputError(what, number, found, f"{expected}, as in the list it read", hint)
        expected_id, found_id = old.partition(BAR)[0].strip(), new.partition(BAR)[0].strip()
        if found_id != expected_id:
            hint = f"The command of {feature.name} must keep the order of the lines"
            found = f"the sentence id {shown(found_id)}"
            raise InputError(what, number, found, shown(expected_id), hint)
