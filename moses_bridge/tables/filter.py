"""Filtering a model's tables for given input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.lock import held_directory
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.progress import track_lines
from moses_bridge.base.text_lines import read_text_lines
from moses_bridge.base.textio import StrPath, read_lines, write_lines
from moses_bridge.formats.moses_ini import Feature, read_ini
from moses_bridge.formats.moses_ini_edits import moved_to, path_like, with_path, write_ini
from moses_bridge.formats.phrase_table import columns_of, n_columns_of, refuse_rule, source_column
from moses_bridge.formats.row_columns import BAR, FEWEST_COLUMNS
from moses_bridge.formats.words import split_words

MAX_PHRASE_WORDS = 7  # the longest phrases that Moses extracts by default
INI_NAME = "moses.ini"
TEXT_TABLES = ("LexicalReordering", "PhraseDictionaryMemory")


class SourcePhrases:
    """All runs of words of tokenised sentences, up to a length growing with the longest run looked up."""

    def __init__(
        self, sentences: Iterable[bytes], max_phrase_words: int = MAX_PHRASE_WORDS
    ) -> None:
        self._sentences = [
            words for words in {tuple(split_words(line)) for line in sentences} if words
        ]
        self._n_words = 0
        self._phrases: set[tuple[bytes, ...]] = set()
        self._grow(max_phrase_words)

    def __contains__(self, words: Sequence[bytes]) -> bool:
        if len(words) > self._n_words:
            self._grow(len(words))
        return tuple(words) in self._phrases

    def _grow(self, n_words: int) -> None:
        for sentence in self._sentences:
            for length in range(self._n_words + 1, min(n_words, len(sentence)) + 1):
                self._phrases.update(zip(*(sentence[i:] for i in range(length)), strict=False))
        self._n_words = n_words


def filter_model(
    ini_path: Path, inputs: Sequence[Path], out: Path, max_phrase_words: int = MAX_PHRASE_WORDS
) -> None:
    """Write OUT/moses.ini, and tables with only the rows whose source phrase is in the tokenised inputs.

    Rows stay unchanged and in order; language models and binary tables are not copied. The written ini has
    absolute paths, since Moses resolves paths from its working directory.

    Raises:
        InputError: a file is missing or the ini is not one of Moses's.
        ConfigError: a table, an input or the ini would be overwritten.
        UserError: another command writes into the directory.
    """
    ini = read_ini(ini_path)
    text_tables = [feature for feature in ini.features if _is_text_table(feature)]
    tables = {feature.name: ini.file(feature.arguments["path"]) for feature in text_tables}
    filtered = _places(tables, out.resolve())
    refuse_overwriting([*filtered.values(), out / INI_NAME], [*inputs, *ini.files()])
    new_ini = moved_to(ini, out)
    for name, place in filtered.items():
        new_ini = with_path(new_ini, name, path_like(ini, ini.feature(name), place, out))
    with held_directory(out):
        phrases = SourcePhrases(chain.from_iterable(map(read_text_lines, inputs)), max_phrase_words)
        for feature in text_tables:
            rows = usable_rows(tables[feature.name], phrases, _n_columns(feature))
            write_lines(filtered[feature.name], rows)
        write_ini(new_ini, out / INI_NAME)


def usable_rows(table: StrPath, phrases: SourcePhrases, n_columns: int = 2) -> Iterator[bytes]:
    """The rows of a table whose first column is one of the phrases; rows have n_columns at least.

    Raises:
        InputError: a row to keep has fewer columns, a row has none, or the table is hierarchical.
    """
    # Most rows have the source of the previous row.
    beginning, usable = None, False
    rows = track_lines(read_lines(table), f"filter {Path(table).name}", table)
    for line_number, row in enumerate(rows, start=1):
        if beginning is None or not row.startswith(beginning):
            column = source_column(row)
            if n_columns_of(row) == 1:
                raise _too_few_columns(table, line_number, 1, n_columns)
            if b"]" in column:
                refuse_rule(columns_of(row), table, line_number)
            beginning, usable = column + BAR, split_words(column) in phrases
        if usable:
            if n_columns_of(row) < n_columns:
                raise _too_few_columns(table, line_number, n_columns_of(row), n_columns)
            yield row


def _too_few_columns(table: StrPath, line_number: int, found: int, expected: int) -> InputError:
    columns = f"{found} column{'s' if found > 1 else ''}"
    at_least = f"at least {expected}, with ||| between"
    return InputError(table, line_number, columns, at_least, "Remove or mend the row")


def _n_columns(feature: Feature) -> int:
    """Least number of columns in a row: the phrases used as its key, and scores."""
    is_by_source_alone = "-f-" in f"{feature.arguments.get('type', '')}-"
    return FEWEST_COLUMNS - 1 if is_by_source_alone else FEWEST_COLUMNS


def _is_text_table(feature: Feature) -> bool:
    """Whether a feature has a text table by source phrase; of reordering types "-fe-" and "-f-", not "-e-"."""
    if feature.kind == "LexicalReordering" and "-e-" in f"{feature.arguments.get('type', '')}-":
        return False
    return feature.kind in TEXT_TABLES and "path" in feature.arguments


def _places(tables: dict[str, Path], out: Path) -> dict[str, Path]:
    """The path of each filtered table: its own name, with its feature's if two are alike."""
    names = [table.name for table in tables.values()]
    places = {}
    for feature_name, table in tables.items():
        clash = names.count(table.name) > 1
        places[feature_name] = out / (f"{feature_name}.{table.name}" if clash else table.name)
        if places[feature_name].resolve() == table.resolve():
            raise ConfigError(f"{table} would be overwritten. Choose another directory than {out}")
    return places
