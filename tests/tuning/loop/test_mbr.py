"""How much hypotheses are like each other, against the metrics' own counts."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics.chrf import CHRF as SacreChrf

from moses_bridge.base.errors import ConfigError, InputError
from tuning.loop import mbr as mbr_by_command
from tuning.loop.mbr import MbrChoice, add_mbr, likeness_by_metric, mbr_values
from tuning.metrics.bleu import BLEU, References
from tuning.metrics.by_name import MbrMetricName

TEXTS = [b"a b c d e", b"a b c x e f", b"q", "é b c d".encode(), b"a b c d e", b""]


def test_values_by_chrf_are_means_of_sacrebleus_numbers() -> None:
    texts = [text.decode() for text in TEXTS]
    expected = []
    for own, text in enumerate(texts):
        others = (other for place, other in enumerate(texts) if place != own)
        scores = [SacreChrf().sentence_score(text, [other]).score / 100 for other in others]
        expected.append(np.mean(scores))
    assert mbr_values(TEXTS, "chrf").tolist() == pytest.approx(expected)


def test_values_by_bleu_are_means_of_the_qualities_of_pairs() -> None:
    expected = []
    for own, text in enumerate(TEXTS):
        others = [[other] for place, other in enumerate(TEXTS) if place != own]
        pairs = [(place, text) for place in range(len(others))]
        expected.append(BLEU.quality(References(others).statistics(pairs)).mean())
    assert mbr_values(TEXTS, "bleu").tolist() == pytest.approx(expected)


def test_a_list_gets_the_feature_and_a_single_hypothesis_has_0(tmp_path: Path) -> None:
    nbest, out = tmp_path / "list", tmp_path / "out"
    nbest.write_text(
        "0 ||| a b ||| LM0= -1 ||| -1\n1 ||| c ||| LM0= -2 ||| -2\n0 ||| a b ||| LM0= -3 ||| 0\n"
    )
    source = tmp_path / "source"
    source.write_text("x\ny\n")
    add_mbr(nbest, source, likeness_by_metric("chrf"), out)
    assert out.read_text().splitlines() == [
        "0 ||| a b ||| LM0= -1 MBR0= 1.000000 ||| -1",
        "1 ||| c ||| LM0= -2 MBR0= 0.000000 ||| -2",
        "0 ||| a b ||| LM0= -3 MBR0= 1.000000 ||| 0",
    ]
    nbest.write_text("0 ||| a b\n")
    with pytest.raises(InputError, match="list:1: found 2 fields, expected at least 4"):
        add_mbr(nbest, source, likeness_by_metric("bleu"), out)
    nbest.write_text("2 ||| a b ||| LM0= -1 ||| -1\n")
    with pytest.raises(InputError, match="list:1: found the sentence 2, expected 0 to 1, as in"):
        add_mbr(nbest, source, likeness_by_metric("bleu"), out)


# Ten times the words of the source, plus those of the hypothesis; this times the words of the other one.
PROGRAM = """\
import sys
from pathlib import Path
texts = [Path(name).read_text().split("\\n")[:-1] for name in sys.argv[1:4]]
sizes = [[len(line.split()) for line in text] for text in texts]
numbers = [(10 * source + own) * other for source, own, other in zip(*sizes, strict=True)]
Path(sys.argv[4]).write_text("".join(f"{number}\\n" for number in numbers[SKIPPED:]))
with open(sys.argv[5], "a") as log:
    log.write(f"{len(numbers)}\\n")
"""
SENTENCES = [(b"x y", [b"a", b"b c", b"a"]), (b"z", [b"d"]), (b"z", [b"e f g", b""])]
# By hand: the mean over the others, (10 s + own) * mean words of the others.
LIKENESS = [[21 * 1.5, 22 * 1.0, 21 * 1.5], [0.0], [13 * 0.0, 10 * 3.0]]


def choice(tmp_path: Path, skipped: int = 0, cache: str = "") -> MbrChoice:
    script = tmp_path / "pairs.py"
    script.write_text(PROGRAM.replace("SKIPPED", str(skipped)))
    command = f"{sys.executable} {script} {{source}} {{hypotheses}} {{reference}} {{out}} {tmp_path / 'log'}"
    return MbrChoice("column", command, cache)


@pytest.mark.parametrize("pairs_a_call", [1, 500_000])
def test_values_by_a_command_are_means_over_the_other_hypotheses(
    pairs_a_call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mbr_by_command, "PAIRS_A_CALL", pairs_a_call)
    likeness = choice(tmp_path).likeness()
    assert likeness is not None
    assert [values.tolist() for values in likeness(SENTENCES)] == LIKENESS
    calls = (tmp_path / "log").read_text().split()
    assert calls == (["4", "1", "4"] if pairs_a_call == 1 else ["9"])


def test_a_cache_keeps_the_numbers_of_pairs(tmp_path: Path) -> None:
    for _ in range(2):
        likeness = choice(tmp_path, cache=str(tmp_path / "cache")).likeness()
        assert likeness is not None
        assert [values.tolist() for values in likeness(SENTENCES)] == LIKENESS
    assert (tmp_path / "log").read_text() == "9\n"
    assert len((tmp_path / "cache").read_text().splitlines()) == 9
    (tmp_path / "cache").write_text("key\n")
    with pytest.raises(InputError, match="cache:1: found '', expected a finite number"):
        choice(tmp_path, cache=str(tmp_path / "cache")).likeness()


def test_a_command_that_writes_too_few_lines_is_refused(tmp_path: Path) -> None:
    likeness = choice(tmp_path, skipped=2).likeness()
    assert likeness is not None
    message = "the numbers of the command of MBR0: found 7 lines, expected 9, one a hypothesis"
    with pytest.raises(InputError, match=message):
        list(likeness(SENTENCES))


@pytest.mark.parametrize(
    ("name", "command", "message"),
    [
        ("column", "", 'mbr = "column" needs a command: set mbr_command'),
        ("chrf", "x", 'a command belongs to mbr = "column"; leave mbr_command out'),
        (None, "x", 'a command belongs to mbr = "column"; leave mbr_command out'),
        ("column", "x {hypotheses} {out}", r"the command of MBR0 has no {reference}: 'x {hyp"),
        (
            "column",
            "x {hypotheses} {reference} {out} {b}",
            r"the command of MBR0: found .* \('b'\)",
        ),
    ],
)
def test_a_command_that_does_not_fit_is_refused(
    name: MbrMetricName | None, command: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        MbrChoice(name, command).likeness()
    assert MbrChoice().likeness() is None
