"""An n-best list as a pandas DataFrame, and a DataFrame as an n-best list in Moses's format."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moses_bridge.base.choices import ListFormat
from moses_bridge.base.errors import InputError, UserError
from moses_bridge.base.textio import StrPath, open_write
from moses_bridge.formats.nbest import NBestEntry, check_feature_name, format_entry, parse_features
from moses_bridge.formats.nbest_lists import read_list
from moses_bridge.formats.python_text import decoded, encoded
from moses_bridge.formats.table_frame import finite_number, is_missing

if TYPE_CHECKING:
    import pandas as pd

SENTENCE, TARGET, TOTAL, REST = COLUMNS = ("sentence", "target", "total", "rest")
SPARSE_NAME = re.compile(r"[^\s|=]+_[^\s|=]*")
BARS = " ||| "


def read_nbest_frame(
    path: StrPath, list_format: ListFormat = "moses", list_size: int = 0
) -> pd.DataFrame:
    """Read an n-best list, one row of the frame for each hypothesis; see `rescorer.read_nbest`."""
    import pandas as pd

    rows = list[dict[str, object]]()
    for entry in read_list(path, list_format, list_size):
        row: dict[str, object] = {SENTENCE: entry.sentence_id, TARGET: decoded(entry.words)}
        for name, values in parse_features(entry, path).items():
            if name in COLUMNS:
                found, expected = f"a feature {name}", f"another name than {', '.join(COLUMNS)}"
                raise InputError(path, entry.line_number, found, expected)
            several = {f"{name}_{place}": value for place, value in enumerate(values)}
            row |= several if len(values) > 1 else {name: values[0]}
        rows.append(row | {TOTAL: entry.total, REST: BARS.join(map(decoded, entry.rest))})
    # Texts are plain objects, as in the frame of a table.
    frame = pd.DataFrame(rows, columns=None if rows else [*COLUMNS], dtype=object)
    kinds = {name: float for name in frame if name not in (TARGET, REST)}
    return frame.astype({**kinds, SENTENCE: int})


def write_nbest_frame(frame: pd.DataFrame, path: StrPath) -> None:
    """Write an n-best list in Moses's format; see `rescorer.write_nbest`."""
    names = [*map(str, frame.columns)]
    if not {SENTENCE, TARGET} <= {*names} or len({*names}) < len(names):
        expected = f"expected {', '.join(COLUMNS)} and features, each once"
        raise UserError(f"an n-best list: found the columns {', '.join(names)}, {expected}")
    labels = {name: _label(name, names) for name in names if name not in COLUMNS}
    with open_write(path) as stream:
        for place, values in enumerate(frame.itertuples(index=False, name=None)):
            entry = _entry(dict(zip(names, values, strict=True)), labels, f"row {place}")
            stream.write(format_entry(entry) + b"\n")


def _label(name: str, names: Sequence[str]) -> str:
    """What a feature has before a value: nothing before the second value and further ones."""
    stem, _, number = name.rpartition("_")
    if number.isdecimal() and {f"{stem}_0", f"{stem}_1"} <= {*names}:
        return "" if number != "0" else f"{stem}= "
    if not SPARSE_NAME.fullmatch(name):
        check_feature_name(name)
    return f"{name}= "


def _entry(row: Mapping[str, Any], labels: Mapping[str, str], where: str) -> NBestEntry:
    sentence = finite_number(row[SENTENCE], f"{where}, {SENTENCE}")
    if sentence < 0 or sentence != int(sentence):
        raise UserError(f"{where}, {SENTENCE}: found {sentence}, expected a whole number from 0")
    fields = [
        f"{label}{finite_number(row[name], f'{where}, {name}'):.12g}"
        for name, label in labels.items()
        if not is_missing(row[name]) or not label
    ]
    total = finite_number(row.get(TOTAL, 0.0), f"{where}, {TOTAL}")
    words, rest = encoded(row[TARGET], f"{where}, {TARGET}"), row.get(REST)
    further = [] if is_missing(rest) or rest == "" else str(rest).split(BARS)
    parts = tuple(encoded(part, f"{where}, {REST}") for part in further)
    return NBestEntry(int(sentence), words, " ".join(fields).encode(), total, parts, 0)
