from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.textio import count_lines, read_lines
from moses_bridge.cli import main
from moses_bridge.corpus.selection import Domain, SelectConfig, choose, select_text

NUMBERS = [b"one", b"two", b"three", b"four", b"five", b"six"]
COLOURS = [b"red", b"green", b"blue", b"brown", b"black", b"white"]


def lines_of(words: list[bytes], n: int, seed: int, prefix: bytes = b"") -> list[bytes]:
    """Sentences that share their function words with those of other domains."""
    chance = random.Random(seed)
    return [
        b" ".join(prefix + word for word in [b"the", *chance.choices(words, k=4), b"."])
        for _ in range(n)
    ]


def write(path: Path, lines: list[bytes]) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


@pytest.fixture
def mixed(tmp_path: Path) -> list[Path]:
    """Parallel text of two domains, in turn; line i is of numbers where i is even."""
    paths = []
    for side, prefix in (("en", b""), ("fr", b"f-")):
        numbers, colours = (lines_of(w, 150, 1, prefix) for w in (NUMBERS, COLOURS))
        rows = [line for pair in zip(numbers, colours, strict=True) for line in pair]
        paths.append(write(tmp_path / f"mixed.{side}", rows))
    return paths


@pytest.fixture
def domain(tmp_path: Path) -> list[Path]:
    """Other sentences of the domain of numbers."""
    return [
        write(tmp_path / f"domain.{side}", lines_of(NUMBERS, 60, 9, prefix))
        for side, prefix in (("en", b""), ("fr", b"f-"))
    ]


@pytest.mark.parametrize("n_sides", [1, 2])
def test_two_domains_are_told_apart(
    tmp_path: Path, mixed: list[Path], domain: list[Path], n_sides: int
) -> None:
    texts, outs = mixed[:n_sides], [tmp_path / "out.en", tmp_path / "out.fr.gz"][:n_sides]
    scores = tmp_path / "scores"
    report = select_text(
        texts, Domain(tuple(domain[:n_sides])), SelectConfig(share=0.5), outs, scores
    )
    for text, out in zip(texts, outs, strict=True):
        assert list(read_lines(out)) == list(read_lines(text))[::2]
    values = np.loadtxt(scores)
    assert values[::2].max() < values[1::2].min()
    assert (report.n_lines, report.n_chosen, report.n_chosen_words) == (300, 150, 900)


def test_each_size_of_a_choice() -> None:
    scores = np.array([0.5, -1.0, 0.5, -2.0, np.inf])
    words = np.array([3, 2, 2, 4, 0], np.int32)
    chosen = {
        (name, size): choose(scores, words, SelectConfig(**{name: size})).nonzero()[0].tolist()
        for name, size in [
            ("n_lines", 3),
            ("n_lines", 9),
            ("share", 0.4),
            ("n_words", 8),
            ("n_words", 9),
            ("n_words", 3),
        ]
    }
    assert chosen == {
        ("n_lines", 3): [0, 1, 3],  # of equal ones the first
        ("n_lines", 9): [0, 1, 2, 3, 4],
        ("share", 0.4): [1, 3],
        ("n_words", 8): [1, 3],
        ("n_words", 9): [0, 1, 3],
        ("n_words", 3): [],
    }


def test_lines_keep_their_bytes_and_empty_ones_come_last(
    tmp_path: Path, domain: list[Path]
) -> None:
    rows = [b"", b"the  one\xff two", b"red green", b"two\rone ."]
    text, out = write(tmp_path / "text", rows), tmp_path / "out"
    select_text([text], Domain((domain[0],)), SelectConfig(n_lines=3), [out])
    assert list(read_lines(out)) == rows[1:]


def test_scores_are_differences_of_cross_entropy_in_nats_by_the_word(tmp_path: Path) -> None:
    """Of "a": (-0.6 - 0.123456 + 0.5 + 0.25) ln 10 / 2, with </s> as a word."""
    models = []
    for name, (end, a, other) in {"in": (0.5, 0.25, 1), "out": (0.6, 0.123456, 2)}.items():
        rows = f"-99\t<s>\n-{end}\t</s>\n-{a}\ta\n-{other}\t<unk>\n"
        models.append(tmp_path / f"{name}.arpa")
        models[-1].write_text(f"\\data\\\nngram 1=4\n\n\\1-grams:\n{rows}\n\\end\\\n")
    text, scores = write(tmp_path / "text", [b"a", b"a a", b"b", b""]), tmp_path / "scores"
    domain = Domain((), (models[0],), (models[1],))
    select_text([text], domain, SelectConfig(), [], scores)
    assert scores.read_text().split() == ["0.030560", "0.117499", "-1.266422", "inf"]


def test_the_command_with_scores_alone_and_with_models(
    tmp_path: Path, mixed: list[Path], domain: list[Path]
) -> None:
    from moses_bridge.builtin.language_model.kneser_ney import estimate

    estimate(domain[0], tmp_path / "in.arpa", 2, ())
    estimate(mixed[0], tmp_path / "out.arpa.gz", 2, ())
    models = ["--domain-model", tmp_path / "in.arpa", "--general-model", tmp_path / "out.arpa.gz"]
    arguments = ["select", mixed[0], *models, "--scores-out", tmp_path / "scores"]
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    assert count_lines(tmp_path / "scores") == 300
    arguments += ["--out", tmp_path / "best", "--words", 60]
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert "10 of 300 lines chosen, 60 of 1,800 words" in result.stderr
    assert all(set(line.split()[1:-1]) <= set(NUMBERS) for line in read_lines(tmp_path / "best"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"share": 1.5}, "largest value is 1"),
        ({"n_lines": 0}, "smallest value is 1"),
        ({"n_lines": 5, "share": 0.5}, "set one of"),
        ({"order": 0}, "order is 0"),
    ],
)
def test_settings_must_make_sense(change: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SelectConfig(**change)  # type: ignore[arg-type]


def test_files_must_fit_together(tmp_path: Path, mixed: list[Path], domain: list[Path]) -> None:
    half, text = SelectConfig(share=0.5), Domain((domain[0],))
    outs = [tmp_path / "a", tmp_path / "b"]
    cases = [
        ([], text, half, [], None, "0 texts"),
        (mixed, text, half, outs, None, "own file of the domain"),
        (mixed[:1], Domain(), half, outs[:1], None, "give a text of the domain"),
        (mixed[:1], Domain((domain[0],), (domain[0],)), half, outs[:1], None, "give a text"),
        (mixed[:1], Domain((), (domain[0],)), half, outs[:1], None, "own file of the domain"),
        (mixed[:1], text, half, [], None, "a file for its chosen lines"),
        (mixed[:1], text, SelectConfig(), outs[:1], None, "how much to choose"),
        (mixed[:1], text, SelectConfig(), [], None, "how much to choose"),
        (mixed[:1], text, half, mixed[:1], None, "named twice"),
        (mixed[:1], text, half, outs[:1], outs[0], "named twice"),
        ([Path("-")], text, half, outs[:1], None, "read more than once"),
    ]
    for texts, given, config, written, scores, message in cases:
        with pytest.raises(ConfigError, match=message):
            select_text(texts, given, config, written, scores)


def test_faulty_texts_are_named_and_nothing_is_written(
    tmp_path: Path, mixed: list[Path], domain: list[Path]
) -> None:
    write(mixed[1], lines_of(NUMBERS, 299, 1))
    outs = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(InputError, match=r"mixed\.fr:300: found the end of the file"):
        select_text(mixed, Domain(tuple(domain)), SelectConfig(share=0.5), outs, tmp_path / "s")
    write(domain[0], [])
    with pytest.raises(InputError, match=r"domain\.en: found no words"):
        select_text(mixed[:1], Domain((domain[0],)), SelectConfig(share=0.5), outs[:1])
    assert not any(path.exists() for path in (*outs, tmp_path / "s"))
