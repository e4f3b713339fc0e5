from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.builtin.language_model.arpa import read_arpa, write_arpa
from tests.moses_bridge.builtin.language_model.test_lm_index import tiny


def test_writing_and_reading_keep_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moses_bridge.builtin.language_model.arpa.ROWS_AT_ONCE", 2)
    first = read_arpa(tiny(tmp_path))
    write_arpa(tmp_path / "again.arpa.gz", first)
    second = read_arpa(tmp_path / "again.arpa.gz")
    assert second.words == first.words == [b"<unk>", b"<s>", b"</s>", b"a", b"b"]
    for ours, theirs in zip(first.sections, second.sections, strict=True):
        assert ours.ids.tolist() == theirs.ids.tolist()
        assert ours.log_probs.tolist() == theirs.log_probs.tolist()
        assert ours.backoffs.tolist() == theirs.backoffs.tolist()
