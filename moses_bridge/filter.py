"""The rows of a model's tables that given input can use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from moses_bridge.formats.moses_ini import MosesIni, read_ini, with_path, write_ini
from moses_bridge.progress import track
from moses_bridge.textio import StrPath, read_lines, write_lines

MAX_PHRASE_WORDS = 7
TABLE_KINDS = ("PhraseDictionaryMemory", "LexicalReordering")
INI_NAME = "moses.ini"


def filter_model(
    ini_path: Path, inputs: Sequence[Path], out: Path, max_phrase_words: int = MAX_PHRASE_WORDS
) -> None:
    """Write OUT/moses.ini and tables with only the rows whose source phrase occurs in the inputs.

    Rows keep their bytes and their order; the language model is not copied. The written ini names
    absolute paths, since Moses looks from its working directory.

    Raises:
        InputError: a file is missing or the ini is not one of Moses's.
    """
    phrases = source_phrases(inputs, max_phrase_words)
    ini = _with_absolute_paths(read_ini(ini_path))
    for feature in ini.features:
        if feature.kind in TABLE_KINDS:
            table = Path(feature.arguments["path"])
            filtered = (out / table.name).absolute()
            rows = track(read_lines(table), f"filter {table.name}", unit="rows")
            write_lines(filtered, usable_rows(rows, phrases))
            ini = with_path(ini, feature.name, filtered)
    write_ini(ini, out / INI_NAME)


def source_phrases(inputs: Sequence[StrPath], max_phrase_words: int) -> set[bytes]:
    """All runs of at most max_phrase_words words of the inputs, joined by single blanks."""
    phrases: set[bytes] = set()
    for path in inputs:
        for line in read_lines(path):
            words = line.split()
            for start in range(len(words)):
                for end in range(start + 1, min(start + max_phrase_words, len(words)) + 1):
                    phrases.add(b" ".join(words[start:end]))
    return phrases


def usable_rows(rows: Iterator[bytes], phrases: set[bytes]) -> Iterator[bytes]:
    """The rows whose first column is one of the phrases."""
    for row in rows:
        if b" ".join(row.partition(b"|||")[0].split()) in phrases:
            yield row


def _with_absolute_paths(ini: MosesIni) -> MosesIni:
    for feature in ini.features:
        if "path" in feature.arguments:
            ini = with_path(ini, feature.name, _existing(ini, feature.arguments["path"]).absolute())
    return ini


def _existing(ini: MosesIni, argument: str) -> Path:
    """The file of an argument; Moses also takes a stem to which it adds ".gz"."""
    path = ini.resolve(argument)
    return path if path.exists() else ini.resolve(f"{argument}.gz")
