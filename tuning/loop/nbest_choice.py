"""Features of n-best lists computed outside the decoder, and reranking the lists with them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.progress import track_lines
from moses_bridge.base.textio import StrPath, count_lines, write_lines
from moses_bridge.formats.nbest import check_feature_name, parse_features, read_nbest

PLACEHOLDERS = ("{nbest}", "{source}", "{out}")
NEEDED = ("{nbest}", "{out}")


@dataclass(frozen=True)
class NBestFeature:
    """A feature of n-best lists.

    Attributes:
        name: name in the list, without "="; see `check_feature_name`.
        command: command for adding the feature to a list, with {nbest}, {source} and {out} in the place of
            paths. A command without any of them is a process scoring n-grams
            (`moses_bridge.formats.ngram_scorer`).
        initial_weight: weight at the start of tuning.
        stand_in: a feature of the decoder replacing this one during search, with the sum of both weights.
            Without one ("") the search lacks this feature's weight, so its lists differ from those of the
            tuned system.

    Raises:
        ConfigError: the name or the command is malformed.
    """

    name: str
    command: str
    initial_weight: float = 0.0
    stand_in: str = ""

    def __post_init__(self) -> None:
        check_feature_name(self.name)
        for placeholder in () if self.is_scorer else NEEDED:
            if placeholder not in self.command:
                raise ConfigError(
                    f"the command of {self.name} has no {placeholder}: {self.command}"
                )
        try:
            self.words("", "", "")
        except (LookupError, AttributeError, ValueError) as error:
            raise ConfigError(
                f"the command of {self.name}: found {self.command!r} ({error}), expected closed quotes "
                "and {nbest}, {source}, {out} in braces; double any other braces"
            ) from error

    @property
    def is_scorer(self) -> bool:
        """Whether the command is a process scoring n-grams, instead of a command writing a list."""
        return not any(placeholder in self.command for placeholder in PLACEHOLDERS)

    def words(self, nbest: str, source: str, out: str) -> list[str]:
        """The command and its arguments for these paths."""
        places = {"nbest": nbest, "source": source, "out": out}
        return [word.format(**places) for word in shlex.split(self.command)]

    @classmethod
    def parse(cls, text: str) -> NBestFeature:
        """Parse NAME=COMMAND or NAME:STAND_IN=COMMAND.

        Raises:
            ConfigError: the name or the command is missing or malformed.
        """
        names, equals, command = text.partition("=")
        name, colon, stand_in = names.partition(":")
        if not equals or bool(colon) != bool(stand_in):
            raise ConfigError(f"found {text!r}, expected NAME=COMMAND or NAME:STAND_IN=COMMAND")
        return cls(name, command, stand_in=stand_in)


def feature_of_model(text: str) -> NBestFeature:
    """The feature of a model directory, NAME=DIRECTORY, whose values `rescorer nbest` computes.

    Raises:
        ConfigError: the name or the directory is missing, or the name is malformed.
    """
    name, _, directory = text.partition("=")
    if not (name and directory):
        raise ConfigError(f"found {text!r}, expected NAME=DIRECTORY")
    model = shlex.quote(directory).replace("{", "{{").replace("}", "}}")
    command = f"rescorer nbest {{nbest}} --source {{source}} --model {model} --feature {name}"
    return NBestFeature(name, f"{command} --out {{out}}")


def search_weights(
    weights: Mapping[str, Sequence[float]], features: Sequence[NBestFeature]
) -> dict[str, list[float]]:
    """Weights for a decoder without the features: a stand-in has the sum of both weights.

    Args:
        weights: weights by feature.
        features: features computed outside the decoder.

    Raises:
        ConfigError: a stand-in is not a feature of the decoder with one value.
    """
    added = {feature.name for feature in features}
    known = {name: [*values] for name, values in weights.items() if name not in added}
    for feature in features:
        if feature.stand_in:
            if len(known.get(feature.stand_in, ())) != 1:
                raise ConfigError(
                    f"{feature.name}: the stand-in {feature.stand_in} is no feature of one value; "
                    f"there are {', '.join(known)}"
                )
            known[feature.stand_in][0] += weights[feature.name][0]
    return known


def choose_best(
    nbest: StrPath, weights: Mapping[str, Sequence[float]], source: StrPath, out: StrPath
) -> None:
    """Write the best hypothesis of each source line; an empty line where the list has none.

    Args:
        nbest: an n-best list.
        weights: weights by feature; a feature without a weight is ignored.
        source: the source text, for the number of lines.
        out: one translation a line.
    """
    (chosen,) = best_of_each(nbest, [weights], count_lines(source))
    write_lines(out, chosen)


def best_of_each(
    nbest: StrPath, rows: Sequence[Mapping[str, Sequence[float]]], n_sentences: int
) -> list[list[bytes]]:
    """The words of the best hypothesis of each sentence, for several weights; empty where there is none.

    Args:
        nbest: an n-best list.
        rows: weights by feature; a feature without a weight is ignored, so that {} takes the first hypotheses.
        n_sentences: number of sentences.

    Returns:
        For each of the weights the words of each sentence.
    """
    best: list[dict[int, tuple[float, bytes]]] = [{} for _ in rows]
    for entry in track_lines(read_nbest(nbest), "rerank", nbest, "hypotheses"):
        features = parse_features(entry, nbest)
        for weights, found in zip(rows, best, strict=True):
            score = sum(
                weight * value
                for name, values in features.items()
                for weight, value in zip(weights.get(name, ()), values, strict=False)
            )
            if score > found.get(entry.sentence_id, (-math.inf, b""))[0]:
                found[entry.sentence_id] = (score, entry.words)
    return [[found.get(number, (0.0, b""))[1] for number in range(n_sentences)] for found in best]
