"""A system of letters as a person makes and uses one, on made-up words with two spellings."""

from __future__ import annotations

import math
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from moses_bridge.base.errors import ConfigError, InputError, ToolError
from moses_bridge.base.textio import read_lines
from moses_bridge.formats.nbest import NBestEntry
from tuning.cli import main
from tuning.experiments.letters import (
    _scale,
    _write_texts,
    evaluate,
    predict,
    read_pairs,
    split_units,
    train,
)
from tuning.experiments.settings import LettersSettings

QUICK = "[tune]\nmax_iterations = 2\nnbest_size = 20\n"


def old_spelling(word: str) -> str:
    return word.replace("f", "ph").replace("c", "ck").replace("u", "v")


def made_up_words(n_words: int) -> list[str]:
    draw = random.Random(1)
    syllables = [a + b for a in "bcdfklmnst" for b in "aeiou"]
    return [
        "".join(draw.choice(syllables) for _ in range(draw.randint(2, 4))) for _ in range(n_words)
    ]


def call(*arguments: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["-q", *map(str, arguments)], input=stdin)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pairs, and a system trained on them: modern/."""
    folder = tmp_path_factory.mktemp("letters")
    pairs = [(old_spelling(word), word) for word in made_up_words(300)]
    several = [("vno", "uno"), ("vno", "vno"), ("vno", "uno"), ("a phone", "a fone")]
    lines = [f"{source}\t{target}\n" for source, target in [*pairs, *several]]
    (folder / "pairs.tsv").write_text("".join(lines))
    (folder / "quick.toml").write_text(QUICK)
    options = ("--out", folder / "made", "--config", folder / "quick.toml", "--jobs", 1)
    result = call("letters", "train", folder / "pairs.tsv", *options)
    assert result.exit_code == 0, result.output
    assert "% of 30 held-out sources have a right target" in result.output
    assert sorted(path.name for path in folder.iterdir()) == ["made", "pairs.tsv", "quick.toml"]
    (folder / "made").rename(folder / "modern")  # a system may be moved
    return folder


def test_unseen_words_are_spelled_by_the_rules(folder: Path) -> None:
    unseen = ["tophocka", "sv phe"]
    found = predict(folder / "modern", unseen)
    assert [found[word][0][0] for word in unseen] == ["tofoca", "su fe"]
    for predictions in found.values():
        probs = [prob for _, prob in predictions]
        assert probs == sorted(probs, reverse=True) and sum(probs) == pytest.approx(1)


def test_the_model_has_learned_from_held_out_pairs_too(folder: Path) -> None:
    sources = {old_spelling(word) for word in made_up_words(300)}
    short = {split_units(source, "letters") for source in sources if len(source) <= 10}
    rows = read_lines(folder / "modern" / "phrase-table.gz")
    assert len(short) > 200 and short <= {row.split(b" ||| ")[0] for row in rows}


def test_a_seen_source_has_its_targets_with_their_shares(folder: Path) -> None:
    found = predict(folder / "modern", ["vno", ""])
    assert found["vno"] == [("uno", 2 / 3), ("vno", 1 / 3)]
    assert found[""] == [("", 1.0)]


def test_a_hypothesis_that_is_alone_has_no_probability(folder: Path) -> None:
    """Its share would be 1, whatever it is."""
    result = call("letters", "predict", folder / "modern", "--jobs", 1, stdin="ж\n")
    assert result.stdout == "ж\tж\tnan\n"


def test_the_files_of_a_system_are_its_own_wherever_one_is(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("phrase-table.gz", "lm.arpa.gz"):
        (tmp_path / name).write_bytes(b"another one")
    monkeypatch.chdir(tmp_path)
    assert predict(folder / "modern", ["tophocka"])["tophocka"][0][0] == "tofoca"


def test_predictions_are_lines_of_three_columns(folder: Path) -> None:
    arguments = ("letters", "predict", folder / "modern", "-n", 2, "--jobs", 1)
    result = call(*arguments, stdin="vno\ntophocka\nvno\n")
    assert result.exit_code == 0, result.output
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert lines[:2] == lines[4:] == [["vno", "uno", "0.6667"], ["vno", "vno", "0.3333"]]
    assert lines[2][:2] == ["tophocka", "tofoca"] and len(lines) == 6


def test_scores_are_apart_for_seen_and_unseen_sources(folder: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.tsv"
    test.write_text("vno\tuno\nvno\tvno\ntophocka\ttofoca\ntophe\ttofe\n")
    header, *rows = evaluate(folder / "modern", test).splitlines()
    assert header.split() == ["lines", "right", "edits", "look-up:", "right", "edits"]
    # vno for uno, then tophocka, tophe for tofoca, tofe: 1, 3 and 2 edits of 3 + 3 + 6 + 4 letters.
    assert [row.split() for row in rows] == [
        ["all", "4", "75.00%", "6.25%", "25.00%", "37.50%"],
        ["seen", "2", "50.00%", "16.67%", "50.00%", "16.67%"],
        ["unseen", "2", "100.00%", "0.00%", "0.00%", "50.00%"],
    ]
    options = (folder / "modern", test, "--dictionary", "--jobs", 1)
    result = call("letters", "evaluate", *options)
    assert result.stdout.splitlines()[1].split()[:3] == ["all", "3", "100.00%"]
    # Fewer edits from n, but uno is nearer to unoabc: 3 of 6 letters.
    test.write_text("vno\tn\nvno\tunoabc\n")
    row = evaluate(folder / "modern", test, dictionary=True).splitlines()[1]
    assert row.split() == ["all", "1", "0.00%", "50.00%", "0.00%", "50.00%"]


def test_held_out_sources_are_not_trained_on(folder: Path, tmp_path: Path) -> None:
    settings = LettersSettings(pairs=folder / "pairs.tsv", out=tmp_path)
    _write_texts(settings, read_pairs(settings.pairs), tmp_path)
    parts = [{*read_lines(tmp_path / f"{part}.source")} for part in ("train", "dev")]
    assert len(parts[1]) == 30 and not parts[0] & parts[1]


def test_a_tenth_of_the_sources_is_held_out_with_all_targets(tmp_path: Path) -> None:
    """Every third source has two targets; where there is one alone, it is in both files of references."""
    targets = {f"s{n}": [f"t{n}", f"u{n}"][: 1 + (n % 3 == 0)] for n in range(45)}
    lines = [f"{source}\t{each}\n" for source, found in targets.items() for each in found]
    (tmp_path / "pairs").write_text("".join(lines))
    chosen = set()
    for seed in range(4):
        settings = LettersSettings(pairs=tmp_path / "pairs", out=tmp_path, seed=seed)
        references = _write_texts(settings, read_pairs(settings.pairs), tmp_path)
        assert len([*read_lines(tmp_path / "all.target")]) == len(lines)
        sources = [line.decode().replace(" ", "") for line in read_lines(tmp_path / "dev.source")]
        chosen.add(tuple(sources))
        assert len(sources) == 4
        for place, source in enumerate(sources):
            expected = [split_units(target, "letters") for target in targets[source]]
            assert references[place] == expected
            for number in range(max(map(len, references))):
                written = [*read_lines(tmp_path / f"dev.target{number}")][place]
                assert written == (expected * 2 if len(expected) == 1 else expected)[number]
    assert len(chosen) == 4


def test_symbols_of_both_sides_with_a_network_in_the_search(tmp_path: Path) -> None:
    pairs = [(" ".join(old_spelling(word)), " ".join(word)) for word in made_up_words(60)]
    (tmp_path / "pairs").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    (tmp_path / "quick.toml").write_text(
        f"{QUICK}[nnjm]\nn_held_out = 5\nloop = {{ n_epochs = 1 }}\n"
        "model = { first_width = 8, second_width = 8 }\n"
    )
    settings = LettersSettings(
        pairs=tmp_path / "pairs", out=tmp_path / "out", jobs=1, nnjm=True,
        units=("symbols", "symbols"), metric="word-accuracy", config=tmp_path / "quick.toml",
    )  # fmt: skip
    assert "have a right target" in train(settings)
    (tmp_path / "out").rename(tmp_path / "moved")
    found = predict(tmp_path / "moved", ["t o m v"])["t o m v"]
    assert found[0][0] == "t o m u"
    shutil.rmtree(tmp_path / "moved" / "nnjm")
    with pytest.raises(ConfigError, match="NNJM0"):
        predict(tmp_path / "moved", ["t o m v"])


@pytest.mark.parametrize(
    ("changes", "error", "found"),
    [
        ({"pairs": "few.tsv"}, InputError, "few.tsv: found 2 different sources, expected 20 at"),
        ({"out": "modern"}, ConfigError, "modern: found files in it, expected a new or an empty"),
        (
            {"config": "odd.toml"},
            ConfigError,
            r"odd.toml: found \['tun'\], expected build, nnjm, tune",
        ),
        ({"config": "wrong.toml"}, ToolError, "build .*lm_order is 99; the largest value is 16"),
    ],
)
def test_what_cannot_be_trained_on_is_refused_and_nothing_is_left(
    changes: dict[str, str], error: type[Exception], found: str, folder: Path, tmp_path: Path
) -> None:
    (folder / "few.tsv").write_text("a\tb\nc\td\n")
    (folder / "odd.toml").write_text("[tun]\n")
    (folder / "wrong.toml").write_text("[build]\nlm_order = 99\n")
    given: dict[str, Any] = {"pairs": folder / "pairs.tsv", "out": tmp_path / "out"}
    given |= {key: folder / name for key, name in changes.items()}
    before = sorted(folder.iterdir())
    with pytest.raises(error, match=found):
        train(LettersSettings(**given))
    assert sorted(folder.iterdir()) == before and not (tmp_path / "out").exists()


def test_a_directory_that_is_no_system_is_refused(tmp_path: Path) -> None:
    result = call("letters", "predict", tmp_path, stdin="a\n")
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1 and "letters.json: found No such file" in result.stderr


@pytest.mark.parametrize("accuracy", [0.4, 0.7, 0.95])
def test_first_hypotheses_are_as_probable_as_they_are_right(accuracy: float) -> None:
    draw = np.random.default_rng(1)
    totals = [-np.sort(draw.exponential(1.0, 20)) for _ in range(50)]
    lists = [[NBestEntry(0, b"", b"", total, (), 1) for total in row] for row in totals]
    scale = _scale(lists, accuracy)
    firsts = [math.exp(scale * row[0]) / sum(math.exp(scale * t) for t in row) for row in totals]
    assert np.mean(firsts) == pytest.approx(accuracy, abs=0.02)
