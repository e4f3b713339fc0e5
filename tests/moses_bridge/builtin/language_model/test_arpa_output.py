from __future__ import annotations

from pathlib import Path

from moses_bridge.builtin.language_model.arpa import read_arpa
from moses_bridge.builtin.language_model.arpa_output import write_arpa

TINY = b"""free text before the header
\\data\\
ngram 1=5
ngram 2=4
ngram 3=2

\\1-grams:
-1.5\t<unk>\t0
0\t<s>\t-0.3
-0.9\t</s>
-0.7\ta\t-0.2
-0.8\tb\t-0.4

\\2-grams:
-0.5\t<s> a\t-0.1
-0.25\ta b\t-0.125
-4e-1\tb </s>
-0.6\tb a

\\3-grams:
-0.05\t<s> a b
-0.0625\ta b </s>

\\end\\
"""


def tiny(tmp_path: Path, *changes: tuple[bytes, bytes]) -> Path:
    text = TINY
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    path = tmp_path / "tiny.arpa"
    path.write_bytes(text)
    return path


def test_writing_and_reading_keep_the_model(tmp_path: Path) -> None:
    first = read_arpa(tiny(tmp_path))
    write_arpa(tmp_path / "again.arpa.gz", first)
    second = read_arpa(tmp_path / "again.arpa.gz")
    assert second.words == first.words == [b"<unk>", b"<s>", b"</s>", b"a", b"b"]
    for ours, theirs in zip(first.sections, second.sections, strict=True):
        assert ours.ids.tolist() == theirs.ids.tolist()
        assert ours.log_probs.tolist() == theirs.log_probs.tolist()
        assert ours.backoffs.tolist() == theirs.backoffs.tolist()
