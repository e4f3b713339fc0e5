"""The moses.ini of a table with added columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from moses_bridge.base.errors import InputError
from moses_bridge.formats.moses_ini import Feature, MosesIni
from moses_bridge.formats.moses_ini_edits import moved_to, path_like, with_added_scores, write_ini
from rescorer.tables.column import Column

TABLE_KIND = "PhraseDictionaryMemory"
# For `initial_weights`; train-model.perl gives each score of a table the weight 0.2.
SHARE_OF_LARGEST_WEIGHT = 0.1
DEFAULT_TABLE_WEIGHT = 0.2


@dataclass(frozen=True)
class IniPatch:
    """A moses.ini, read once, with the feature reading the scored table, and the ini to write.

    The place is the path of the new table as the ini to write names it.
    """

    ini: MosesIni
    out: Path
    feature: Feature
    place: Path

    @classmethod
    def of(cls, ini: MosesIni, out: Path, table: Path, new_table: Path) -> IniPatch:
        """Find the scored table in its ini; InputError if the ini has no feature for the table."""
        feature = table_feature(ini, table)
        return cls(ini, out, feature, path_like(ini, feature, new_table, out.parent))

    def check(self, n_scores: int, table: str) -> None:
        """Refuse an ini that cannot be patched for a table of n_scores dense scores.

        Raises:
            InputError: the ini has no weights for the table, or another number of scores, or a path
                contains a blank or "#", where Moses cuts it off.
        """
        found = self.feature.n_scores
        if found != n_scores:
            fault = f"num-features={found} for {self.feature.name}"
            expected = f"{n_scores}, as the rows of {table} have"
            raise InputError(self.ini.path, None, fault, expected)
        self._patched([], 0)

    def write(self, n_old_scores: int, columns: Sequence[Column]) -> str:
        """Write the ini for the new table: num-features, path and weights change together.

        Relative paths stay relative: in another directory they lead from there to the same files.
        Nothing else changes. Columns replacing earlier ones have initial weights too. Returns a
        line for the user.
        """
        old_weights = self.ini.weights.get(self.feature.name, ())[:n_old_scores]
        weights = initial_weights(old_weights, columns)
        ini = self._patched(weights, self.feature.n_scores - n_old_scores)
        write_ini(ini, self.out)
        return f"{self.out}: num-features, path and weights of the phrase table changed"

    def _patched(self, weights: Sequence[float], n_replaced: int) -> MosesIni:
        ini = moved_to(self.ini, self.out.parent)
        return with_added_scores(ini, self.feature.name, self.place, weights, n_replaced)


def table_feature(ini: MosesIni, table: Path) -> Feature:
    """The ini's feature for the table: the one with its path, else the only phrase table of the ini.

    Raises:
        InputError: the ini has no phrase table, or several and none with this path.
    """
    features = ini.of_kind(TABLE_KIND)
    for feature in features:
        if ini.file(feature.arguments.get("path", "")).resolve() == table.resolve():
            return feature
    if len(features) == 1:
        return features[0]
    found = f"{len(features)} features of type {TABLE_KIND}, none with path={table}"
    raise InputError(ini.path, None, found, "the one that reads the table")


def initial_weights(old_weights: Sequence[float], columns: Sequence[Column]) -> list[float]:
    """Weights of the added columns, small enough for the untuned system to work.

    They are a tenth of the largest weight of the table's other scores, and 0 for unknown words. A
    phrase's log-probability is larger than its other scores together, and the old weights may be
    normalised to any sum.
    """
    largest = max((abs(weight) for weight in old_weights), default=DEFAULT_TABLE_WEIGHT)
    weight = SHARE_OF_LARGEST_WEIGHT * (largest or DEFAULT_TABLE_WEIGHT)
    return [0.0 if column == "unknown-words" else weight for column in columns]
