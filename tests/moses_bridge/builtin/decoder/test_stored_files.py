"""The files of a model kept for the next command: what comes back is what was read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.builtin.decoder import model as model_module
from moses_bridge.builtin.decoder.model import Model, load_model

ModelWriter = Callable[[bytes, str], Path]
TABLE = b"x ||| a ||| 0.5 0.25 ||| 0-0\nx y ||| b a ||| 1 0.125 ||| 0-1\n"


def facts(model: Model) -> list[object]:
    """All of a model that its files decide."""
    table, lm = model.table, model.lm
    arrays = [*table.rows, *table.trie, *table.source_words, table.node_starts, table.node_rows]
    arrays += [table.first_rows, model.reordering, lm.tables.entries]
    return [
        [(array.dtype, array.shape, array.tobytes()) for array in arrays],
        (model.target_words, model.source_ids, model.target_ids, table.files),
        (lm.vocabulary, lm.order, lm.unk_id, lm.bos_id, lm.eos_id, lm.tables[3:]),
    ]


def no_reading(*_: object) -> None:
    raise AssertionError("the files are read again")


def test_a_stored_model_is_the_one_that_was_read(
    write_model: ModelWriter, small_ini: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ini, cache = write_model(TABLE, small_ini), tmp_path / "cache"
    plain = facts(load_model(ini, None, None))
    assert facts(load_model(ini, None, None, cache)) == plain
    monkeypatch.setattr(model_module, "_read_files", no_reading)
    stored = load_model(ini, None, None, cache)
    assert facts(stored) == plain
    assert stored.table.rows.scores.flags.writeable
    assert len([*cache.iterdir()]) == 1


def test_other_files_and_another_word_about_them_are_read(
    write_model: ModelWriter, small_ini: str, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    load_model(write_model(TABLE, small_ini), None, None, cache)
    changed = load_model(write_model(TABLE.replace(b"0.25", b"0.5"), small_ini), None, None, cache)
    assert changed.table.rows.scores[0, 1] == np.float32(np.log(0.5))
    with pytest.raises(InputError, match="3 scores"):
        more = small_ini.replace("num-features=2", "num-features=3").replace("0.25\n", "0.25 1\n")
        load_model(write_model(TABLE, more), None, None, cache)
    assert len([*cache.iterdir()]) == 2


@pytest.mark.parametrize("n_bytes", [0, 100, -8])
def test_a_damaged_file_is_made_anew(
    write_model: ModelWriter, small_ini: str, tmp_path: Path, n_bytes: int
) -> None:
    ini = write_model(TABLE, small_ini)
    expected = facts(load_model(ini, None, None, tmp_path / "cache"))
    (stored,) = (tmp_path / "cache").iterdir()
    whole = stored.read_bytes()
    stored.write_bytes(whole[:n_bytes])
    assert facts(load_model(ini, None, None, tmp_path / "cache")) == expected
    assert stored.read_bytes() == whole


def test_files_written_to_while_they_are_read_are_not_stored(
    write_model: ModelWriter, small_ini: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ini, read = write_model(TABLE, small_ini), model_module._read_files

    def overtaken(*arguments: object) -> object:
        files = read(*arguments)  # type: ignore[arg-type]
        write_model(TABLE + b"y ||| a ||| 1 1\n", small_ini)
        return files

    monkeypatch.setattr(model_module, "_read_files", overtaken)
    load_model(ini, None, None, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_directory_that_cannot_be_is_an_error(
    write_model: ModelWriter, small_ini: str, tmp_path: Path
) -> None:
    (tmp_path / "cache").touch()
    with pytest.raises(OSError, match="cache"):
        load_model(write_model(TABLE, small_ini), None, None, tmp_path / "cache")
