"""What an ini asks of the search and of unknown words: read, and seen in what comes out."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.builtin.decoder.ini_settings import IniValues, read_values
from moses_bridge.builtin.decoder.jumps import early_cost
from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.formats.moses_ini import parse_ini

Write = Callable[[str], Path]
TABLE = "u ||| a ||| 0.5\nu ||| b a ||| 0.4\nv ||| b ||| 0.3\nv ||| c ||| 0.2\nw ||| c b ||| 0.6\n"


def values(text: str) -> IniValues:
    return read_values(parse_ini(tuple(text.encode().split(b"\n")), Path("moses.ini")))


def decode(ini: Path, text: str, sections: str, **settings: int) -> tuple[list[str], list[str]]:
    """The translations and the n-best list of a text under an ini with further sections."""
    ini.write_text(sections + ini.read_text())
    source, out, nbest = (ini.parent / name for name in ("in", "out", "nbest"))
    source.write_text(text)
    config = DecoderConfig(kind="builtin", segmentation=True, nbest_factor=0, **settings)
    with open_decoder(ini, config, 1) as decoder:
        decoder.decode(source, out, None, nbest, 100)
    return out.read_text().split("\n")[:-1], nbest.read_text().split("\n")[:-1]


def test_values_are_those_of_the_ini_or_of_moses() -> None:
    assert values("") == IniValues()
    assert values("").beam == math.log(1e-5)
    found = values(
        "[stack]\n0\n[cube-pruning-pop-limit]\n70\n[beam-threshold]\n0.000\n[early-distortion-cost]\n"
        "[drop-unknown]\nno\n[mark-unknown]\nyes\n[unknown-word-suffix]\n!\n[input-factors]\n0\n1\n"
        "[factor-delimiter]\n++\n[xml-input]\nexclusive\n"
    )
    assert found == IniValues(0, 70, -math.inf, True, False, (b"UNK", b"!"), 2, b"++", "exclusive")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[beam-threshold]\nwide", "moses.ini:2: found beam-threshold: 'wide', expected a number"),
        ("[beam-threshold]\n2", "a number from 0 to 1"),
        ("[drop-unknown]\nperhaps", "moses.ini:2: found drop-unknown: 'perhaps', expected true or"),
        ("\n[stack]\n-1", "moses.ini:3: found stack: '-1', expected a whole number from 0 on"),
        ("[input-factors]\n1", "input-factors: 1, expected 0, 1 and so on"),
        (
            "[xml-input]\nboth",
            "moses.ini:2: found xml-input: 'both', expected pass-through, ignore",
        ),
    ],
)
def test_a_value_of_another_kind_is_told_by_its_line(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        values(text)


@pytest.mark.parametrize(
    (
        "spans",
        "moses",
    ),  # segmentations of Moses's phrase.early-distortion-cost.kenlm, and its values
    [
        ("1-3 0 4-5 6-7 8", -8),
        ("2-3 4 0 1", -10),
        ("0-2 7-8 3 4-5 6", -12),
        ("0-3 7 8 4 5 6", -10),
        ("0 1 2-3 7 8 9 4-6", -12),
    ],
)
def test_early_costs_are_those_of_moses(spans: str, moses: int) -> None:
    covered: set[int] = set()
    previous_end = total = 0
    for span in spans.split():
        start, _, last = span.partition("-")
        end = int(last or start) + 1
        gap = next(i for i in range(99) if i not in covered)
        total -= early_cost(previous_end, gap, int(start), end)
        covered |= set(range(int(start), end))
        previous_end = end
    assert total == moses


def test_a_search_with_early_costs_counts_them(write_bigram_model: Write) -> None:
    _, nbest = decode(write_bigram_model(TABLE), "u v w\n", "[early-distortion-cost]\nyes\n")
    found = {
        line.split(" ||| ")[4].replace("=", ":").split(":")[0] + line.split(" ||| ")[4]: float(
            line.split("Distortion0= ")[1].split()[0]
        )
        for line in nbest
    }
    assert {value for key, value in found.items() if key.startswith("22=")} == {-6.0, -8.0}
    assert {value for key, value in found.items() if key.startswith("00=")} == {0.0, -4.0}


def test_a_threshold_keeps_hypotheses_near_the_best_one_only(write_bigram_model: Write) -> None:
    ini = write_bigram_model(TABLE)
    wide, all_of_them = decode(ini, "u v w\n", "")
    narrow, few = decode(ini, "u v w\n", "[beam-threshold]\n0.5\n")
    assert set(few) < set(all_of_them)
    assert len(few) < len(all_of_them) / 4
    assert wide == narrow


def test_the_sizes_of_a_search_are_those_of_the_ini_unless_set(write_bigram_model: Write) -> None:
    ini = write_bigram_model(TABLE)
    text = "u v w u\n"
    small = decode(ini, text, "", stack_size=1, pop_limit=2)
    large = decode(ini, text, "")
    assert small != large
    assert decode(ini, text, "[stack]\n1\n[cube-pruning-pop-limit]\n2\n") == small
    assert decode(ini, text, "", stack_size=200, pop_limit=400) == large


def test_unknown_words_are_marked_or_dropped_but_for_those_with_digits(
    write_bigram_model: Write,
) -> None:
    ini = write_bigram_model(TABLE)
    marked, nbest = decode(ini, "u x7 a\n", "[mark-unknown]\n[distortion-limit]\n0\n")
    assert marked == ["a UNKx7 UNKa"]
    (plain, _), total = decode(ini, "u x7 a\n", "[mark-unknown]\nno\n[drop-unknown]\n1\n"), None
    assert plain == ["a x7"]
    assert len({line.split(" ||| ")[2] for line in nbest}) == len(nbest), total


def test_dropped_words_have_the_penalty_of_unknown_words_alone(write_bigram_model: Write) -> None:
    _, nbest = decode(write_bigram_model(TABLE), "zz\n", "[drop-unknown]\n1\n")
    (line,) = nbest
    # log10 p(</s>) = -0.3 - 1 by backing off from <s>; unknown word -100, a phrase 0.1
    assert float(line.split(" ||| ")[3]) == pytest.approx(
        0.4 * -1.3 * math.log(10) - 100 + 0.1, 1e-5
    )
    assert " WordPenalty0= 0 " in line.replace("-0 ", "0 ")
