"""Features that no decoder computes, added to n-best lists by an external command; reranking by them."""

from __future__ import annotations

import math
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from moses_bridge.errors import ConfigError
from moses_bridge.formats.nbest import parse_features, read_nbest
from moses_bridge.programs import run_program
from moses_bridge.textio import StrPath, count_lines, write_lines

PLACEHOLDERS = ("{nbest}", "{out}")


@dataclass(frozen=True)
class NBestFeature:
    """A feature of n-best lists.

    Attributes:
        name: as it stands in the list, without "=".
        command: adds the feature to a list; {nbest}, {source} and {out} are replaced by paths.
        initial_weight: weight at the start of tuning.
    """

    name: str
    command: str
    initial_weight: float = 0.0

    def __post_init__(self) -> None:
        for placeholder in PLACEHOLDERS:
            if placeholder not in self.command:
                raise ConfigError(
                    f"the command of {self.name} has no {placeholder}: {self.command}"
                )

    @classmethod
    def parse(cls, text: str) -> NBestFeature:
        """Make one of NAME=COMMAND.

        Raises:
            ConfigError: the name or the command is missing.
        """
        name, equals, command = text.partition("=")
        if not (equals and name.isalnum()):
            raise ConfigError(
                f"found {text!r}, expected NAME=COMMAND, a name of letters and digits"
            )
        return cls(name, command)


def add_features(nbest: Path, source: Path, features: Sequence[NBestFeature], out: Path) -> None:
    """Run the command of each feature, one after the other.

    Raises:
        ToolError: a command failed.
    """
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".features.") as directory:
        current = nbest
        for number, feature in enumerate(features):
            following = Path(directory) / f"{number}.nbest.gz"
            places = {"nbest": str(current), "source": str(source), "out": str(following)}
            run_program([part.format(**places) for part in shlex.split(feature.command)])
            current = following
        current.replace(out)


def rerank(
    nbest: StrPath, weights: Mapping[str, Sequence[float]], source: StrPath, out: StrPath
) -> None:
    """Write the best hypothesis of each source line; an empty line where the list has none.

    Args:
        nbest: an n-best list.
        weights: by feature; features without a weight do not count.
        source: the source text, for the number of lines.
        out: one translation a line.
    """
    best: dict[int, tuple[float, bytes]] = {}
    for entry in read_nbest(nbest):
        features = parse_features(entry, nbest)
        score = sum(
            weight * value
            for name, values in features.items()
            for weight, value in zip(weights.get(name, ()), values, strict=False)
        )
        if score > best.get(entry.sentence_id, (-math.inf, b""))[0]:
            best[entry.sentence_id] = (score, entry.words)
    write_lines(out, [best.get(number, (0.0, b""))[1] for number in range(count_lines(source))])
