from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, InputError
from rescorer.cli import main
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import NamedScorer
from rescorer.contract.vocabulary import Vocabulary
from rescorer.models.model_directory import scorer_of_model
from rescorer.views.preferences import (
    Preference,
    Preferences,
    PreferencesConfig,
    Preferred,
    SourcePhrase,
    as_json,
    check_names,
    markdown_cell,
    preferences,
    to_markdown,
)

# 10 source phrases of two words with counts 1 to 10; of each three targets, the second the best.
CONFIG = PreferencesConfig(min_words=2, min_targets=3, share=0.2, n_phrases=2, n_best=2)


def row(source: bytes, target: bytes, prob: float, count: int) -> bytes:
    return b"%s ||| %s ||| 0.5 0.5 %.3f 0.5 ||| 0-0 ||| 9 %d 1" % (source, target, prob, count)


def rows() -> list[bytes]:
    long = [
        row(b"s%d x" % n, target, prob, n)
        for n in range(1, 11)
        for target, prob in ((b"one", 0.2), (b"two two", 0.5), (b"x|y <b>", 0.2))
    ]
    short = [row(b"short", b"t%d" % n, 0.1, 99) for n in range(5)]
    few = [row(b"few targets", b"t%d" % n, 0.1, 99) for n in range(2)]
    return sorted([*long, *short, *few])


def write(path: Path, lines: list[bytes]) -> Path:
    path.write_bytes(gzip.compress(b"".join(line + b"\n" for line in lines)))
    return path


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescorer.views.preferences.ROWS_AT_ONCE", 4)


class Shortest:
    """The shorter a target, the better."""

    shortlist: Vocabulary | None = None
    needs_links = False

    def values(self, batch: Batch) -> NDArray[np.float64]:
        return -np.array([len(target) for target in batch.targets], float)


SHORTEST = NamedScorer("short", Shortest(), "")


@pytest.fixture
def drawn(tmp_path: Path) -> Preferences:
    return preferences(write(tmp_path / "t.gz", rows()), [SHORTEST], CONFIG)


def test_what_is_frequent_and_what_is_rare(drawn: Preferences) -> None:
    """A fifth of ten: counts 9 and 10 are frequent, 1 and 2 rare; as many are drawn."""
    assert (drawn.n_long, drawn.least_frequent, drawn.most_rare) == (10, 9, 2)
    assert [(r.phrase.kind, r.phrase.source, r.phrase.count) for r in drawn.rows] == [
        ("frequent", b"s10 x", 10),
        ("frequent", b"s9 x", 9),
        ("rare", b"s1 x", 1),
        ("rare", b"s2 x", 2),
    ]


def test_what_is_preferred(drawn: Preferences) -> None:
    """Equal probabilities keep the order of the table."""
    for found in drawn.rows:
        assert found.table.targets == (b"two two", b"one")
        assert found.table.values == (0.5, 0.2)
        assert found.models["short"].targets == (b"one", b"two two")
        assert found.models["short"].values == (-3, -7)
    assert drawn.agreement == {"short": 0}


def test_one_of_several_best_targets_agrees(tmp_path: Path) -> None:
    lines = [line.replace(b" 0.200 ", b" 0.500 ") for line in rows()]
    result = preferences(write(tmp_path / "t.gz", lines), [SHORTEST], CONFIG)
    assert result.agreement == {"short": 1}


def test_the_seed_draws(tmp_path: Path) -> None:
    table = write(tmp_path / "t.gz", rows())
    draws = set()
    for seed in (1, 1, 2, 3, 4):
        config = PreferencesConfig(2, 3, 0.5, 2, 1, seed)
        draws.add(tuple(r.phrase.source for r in preferences(table, [SHORTEST], config).rows))
    assert 2 <= len(draws) <= 4


def test_markdown(drawn: Preferences) -> None:
    text = to_markdown(drawn)
    assert (
        "| s10 x | 10 | two two (0.5) | one (-3.00) |\n|  |  | one (0.2) | two two (-7.00) |"
        in text
    )
    assert "frequent: extracted at least 9 times, rare: at most 2 times" in text
    assert "short prefers the table's best target, or one of several best ones, for 0 of 4." in text


def test_json(drawn: Preferences) -> None:
    found = json.loads(json.dumps(as_json(drawn)))
    assert found["phrases"][0] == {
        "source": "s10 x",
        "kind": "frequent",
        "count": 10,
        "n_targets": 3,
        "table": [{"target": "two two", "prob": 0.5}, {"target": "one", "prob": 0.2}],
        "models": {
            "short": [{"target": "one", "log_prob": -3}, {"target": "two two", "log_prob": -7}]
        },
    }


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([row(b"a b", b"x", 0.5, 3)], "no source phrase of 2 words or more with 3 targets"),
        (
            [row(b"%d b" % n, t, 0.5, 3) for n in range(4) for t in (b"x", b"y", b"z")],
            "a count of 3",
        ),
        ([b"a b ||| %s ||| 1 1 1 1" % t for t in (b"x", b"y", b"z")], "in column 5"),
        ([*rows(), *(row(b"s9 x", t, 0.1, 9) for t in (b"u", b"v", b"w"))], "'s9 x' again"),
    ],
)
def test_tables_that_do_not_fit(tmp_path: Path, lines: list[bytes], message: str) -> None:
    with pytest.raises(InputError, match=message):
        preferences(write(tmp_path / "t.gz", lines), [], CONFIG)


def test_a_name_that_says_no_format() -> None:
    with pytest.raises(ConfigError, match=r"ends in \.md or \.json"):
        check_names([Path("a.md"), Path("a.txt")])


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["preferences", *map(str, arguments)], prog_name="rescorer")


SMALL = ("--min-words", 2, "--min-targets", 2, "--phrases", 3)


def test_the_command(encdec: Path, nnjm: Path, table: Path, tmp_path: Path) -> None:
    models = ("--model", f"RNN={encdec}", "--model", f"NNJM={nnjm}")
    printed = run(table, *models, *SMALL)
    assert printed.exit_code == 0, printed.output
    outs = ("--out", tmp_path / "p.md", "--out", tmp_path / "p.json")
    written = run(table, *models, *SMALL, *outs)
    assert (written.exit_code, written.stdout) == (0, "")
    assert (tmp_path / "p.md").read_text() == printed.stdout
    found = json.loads((tmp_path / "p.json").read_bytes())
    scorer = scorer_of_model(encdec, Compute()).scorer
    for phrase in found["phrases"]:
        best = phrase["models"]["RNN"]
        source = phrase["source"].encode()
        batch = Batch([source] * len(best), [pair["target"].encode() for pair in best])
        expected = scorer.values(batch)
        np.testing.assert_allclose([pair["log_prob"] for pair in best], expected, atol=1e-5)
        assert list(expected) == sorted(expected, reverse=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "rnn"], "write NAME=DIR"),
        (["--model", "A=none"], "a JSON file"),
        (["--model", "A=DIR", "--model", "A=DIR"], "stands twice"),
        (["--model", "A=DIR", "--out", "p.txt"], ".md or .json"),
        (["--model", "A=DIR", "--share", "0.6"], "share"),
        (["--model", "A=DIR", "--min-words", "0"], "min_words"),
    ],
)
def test_faults_of_the_command(encdec: Path, table: Path, options: list[str], message: str) -> None:
    result = run(table, *(option.replace("DIR", str(encdec)) for option in options))
    assert result.exit_code == 1 and message in result.stderr, result.output
    assert "Traceback" not in result.stderr


HOSTILE = b"<script>|[a](b) &#124; `c`"


def one_row() -> Preferences:
    phrase = SourcePhrase(HOSTILE, "rare", 2.0, (b"x", HOSTILE), (0.25, 0.5), (b"", b""))
    table = Preferred((HOSTILE, b"x"), (0.5, 0.25))
    network = Preferred((b"x", HOSTILE), (-1.25, -20.0))
    row = Preference(phrase, table, {"A|B": network})
    return Preferences(PreferencesConfig(), 1234, 9, 2, (row,))


def test_hostile_text_stays_in_its_cell() -> None:
    shown = r"\<script\>\|\[a\]\(b\) \| \`c\`"
    lines = to_markdown(one_row()).splitlines()
    assert r"| source phrase | count | table p | A\|B log p |" in lines
    assert f"| {shown} | 2 | {shown} (0.5) | x (-1.25) |" in lines
    assert f"|  |  | x (0.25) | {shown} (-20.00) |" in lines


def test_what_was_drawn_is_said() -> None:
    text = to_markdown(one_row())
    assert "Drawn by seed 1 from 1,234 source phrases of 4 words or more with 3 targets" in text
    assert "**Long, frequent source phrases**" in text and "for 0 of 1." in text


def test_nothing_is_markup() -> None:
    assert markdown_cell(b"<script> a|b *c* `d` [e](f)") == (
        r"\<script\> a\|b \*c\* \`d\` \[e\]\(f\)"
    )
