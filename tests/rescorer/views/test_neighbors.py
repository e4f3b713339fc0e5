from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from click.testing import CliRunner, Result

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.lock import held_directory
from rescorer.cli import main
from rescorer.contract.compute import Compute
from rescorer.models.learned import Learned
from rescorer.views import neighbors as neighbors_module
from rescorer.views import phrase_vectors
from rescorer.views.neighbors import phrase_neighbors, word_neighbors


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["neighbors", *map(str, arguments)], prog_name="rescorer")


def brute_force(vectors: np.ndarray, asked: int) -> list[tuple[int, float]]:
    one = vectors[asked].astype(np.float64)
    cosines = [
        float(one @ other / np.sqrt((one @ one) * (other @ other)))
        for other in vectors.astype(np.float64)
    ]
    rows = sorted(range(len(vectors)), key=lambda row: -cosines[row])
    return [(row, cosines[row]) for row in rows if row != asked]


def test_words(encdec: Path) -> None:
    learned = Learned.load(encdec)
    words, vectors = learned.word_vectors("source")
    (found,) = word_neighbors(learned, [b"car"], "source", 3)
    expected = brute_force(vectors, words.index(b"car"))[:3]
    assert found.found == tuple(words[row] for row, _ in expected)
    np.testing.assert_allclose(found.cosines, [cosine for _, cosine in expected], atol=1e-6)
    assert found.n_candidates == 8


@pytest.mark.parametrize("at_once", [1, 5, 4096])
def test_phrases(
    encdec: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """The same on the fly, into a folder, and out of it."""
    monkeypatch.setattr(phrase_vectors, "PHRASES_AT_ONCE", at_once)
    learned, asked = Learned.load(encdec), [b"the  red car", b"a house"]
    phrases = sorted({row.split(b" ||| ")[0] for row in table_rows(table)})
    vectors = learned.summaries(Compute())(phrases)
    for keep in (None, tmp_path / "kept", tmp_path / "kept"):
        results = phrase_neighbors(learned, asked, table, "source", 4, keep)
        for result, phrase in zip(results, (b"the red car", b"a house"), strict=True):
            expected = brute_force(vectors, phrases.index(phrase))[:4]
            assert result.found == tuple(phrases[row] for row, _ in expected)
            np.testing.assert_allclose(
                result.cosines, [cosine for _, cosine in expected], atol=1e-5
            )


def table_rows(table: Path) -> list[bytes]:
    import gzip

    return gzip.decompress(table.read_bytes()).splitlines()


def test_what_is_kept_is_not_encoded_again(
    encdec: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned, keep = Learned.load(encdec), tmp_path / "kept"
    with monkeypatch.context() as full:  # no room for the vectors
        error = OSError(errno.ENOSPC, "No space left on device")
        full.setattr(phrase_vectors, "write_json", Mock(side_effect=error))
        without = phrase_neighbors(learned, [b"a car"], table, "source", 2, keep)
    first = phrase_neighbors(learned, [b"a car"], table, "source", 2, keep)
    assert without == first
    made = []
    monkeypatch.setattr(
        neighbors_module,
        "keep_vectors",
        lambda *all_of_them: made.append(1) or phrase_vectors.keep_vectors(*all_of_them),
    )
    assert phrase_neighbors(learned, [b"a car"], table, "source", 2, keep) == first
    assert not made
    os.utime(table, ns=(1, 1))
    assert phrase_neighbors(learned, [b"a car"], table, "source", 2, keep) == first
    assert made


def test_damaged_kept_vectors_are_refused(encdec: Path, table: Path, tmp_path: Path) -> None:
    learned, keep = Learned.load(encdec), tmp_path / "kept"
    phrase_neighbors(learned, [b"a car"], table, "source", 2, keep)
    vectors = keep / "vectors.npy"
    vectors.write_bytes(vectors.read_bytes()[:-8])
    with pytest.raises(InputError, match="Remove the folder"):
        phrase_neighbors(learned, [b"a car"], table, "source", 2, keep)
    (keep / "phrases.txt").write_bytes(b"a\n")
    np.save(vectors, np.zeros((2, 8), np.float32))
    with pytest.raises(InputError, match=r"1 phrases for vectors of shape \(2, 8\)"):
        phrase_neighbors(learned, [b"a car"], table, "source", 2, keep)


def test_a_second_writer_of_vectors_is_refused(encdec: Path, table: Path, tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    asked = (encdec, table, "--phrase", "a car", "--device", "cpu")
    with held_directory(keep):
        before = [*keep.iterdir()]
        result = run(*asked, "--cache", keep)
        assert [*keep.iterdir()] == before
    assert result.exit_code == 1 and result.stdout == ""
    *_, line = result.stderr.splitlines()
    assert line.startswith(f"rescorer: error: {keep}: another command writes there (process")
    assert run(*asked, "--cache", keep).stdout == run(*asked).stdout != ""


@pytest.mark.parametrize(
    ("phrase", "message"), [(b" ", "has no word"), (b"the zebra", "the words 'zebra'")]
)
def test_phrases_that_the_model_cannot_read(
    encdec: Path, table: Path, phrase: bytes, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        phrase_neighbors(Learned.load(encdec), [phrase], table, "source", 2)


def test_the_command(encdec: Path, table: Path) -> None:
    arguments = (encdec, table, "--word", "car", "--phrase", "a car", "-n", 2)
    text = run(*arguments)
    assert text.exit_code == 0, text.output
    lines = text.stdout.splitlines()
    assert lines[0] == "car (among 8)" and lines[3].startswith("a car (among ")
    found = json.loads(run(*arguments, "--format", "json").stdout)
    assert [row["asked"] for row in found] == ["car", "a car"]
    first = found[0]["neighbors"][0]
    assert lines[1] == f"  {first['cosine']:6.3f}  {first['text']}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing is asked for"),
        (["--phrase", "a"], "name it behind the model"),
        (["--word", "zebra"], "no source word 'zebra'"),
    ],
)
def test_faults_of_the_command(encdec: Path, arguments: list[str], message: str) -> None:
    result = run(encdec, *arguments)
    assert result.exit_code == 1 and message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_model_without_phrases(cslm: Path, table: Path) -> None:
    result = run(cslm, table, "--phrase", "a")
    assert result.exit_code == 1 and "makes no vector of a phrase" in result.stderr
