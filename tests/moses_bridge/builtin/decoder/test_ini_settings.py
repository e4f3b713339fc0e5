from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.builtin.decoder import ini_settings
from moses_bridge.builtin.decoder.ini_settings import IniValues, check_settings, read_values
from moses_bridge.builtin.decoder.jumps import early_cost
from moses_bridge.builtin.decoder.model import load_model
from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.formats.moses_ini import parse_ini

Write = Callable[[str], Path]
TABLE = "u ||| a ||| 0.5\nu ||| b a ||| 0.4\nv ||| b ||| 0.3\nv ||| c ||| 0.2\nw ||| c b ||| 0.6\n"


def check(text: str) -> None:
    check_settings(parse_ini(tuple(text.encode().split(b"\n")), Path("moses.ini")))


@pytest.mark.parametrize(
    "text",
    [
        "[early-distortion-cost]\nfalse",
        "[drop-unknown]\nNo",
        "[beam-threshold]\n1e-5",
        "[beam-threshold]\n0.00001",
        "[stack]\n2000\n[verbose]\n2\n[threads]\nall\n[v]\n0",
        "[stack-diversity]\n2\n[early-discarding-threshold]\n0.1\n[search-algorithm]\n1",
        "[mapping]\nT 0\n[input-factors]\n0\n[inputtype]\n0",
        "[xml-input]\npass-through",
        "[time-out]\n-1",
        "[mbr-size]\n200",
        "# [early-distortion-cost]\n[mapping]\n# nothing\n",
        "",
    ],
)
def test_what_is_as_moses_has_it_or_changes_nothing_is_taken(text: str) -> None:
    check(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[consensus-decoding]\ntrue", "no \\[consensus-decoding\\]"),
        ("[minimum-bayes-risk]", "no \\[minimum-bayes-risk\\]"),  # without a value it is on
        ("[mira]\n0\n1", "no \\[mira\\]"),
        ("[phrase-drop-allowed]\nyes", "no \\[phrase-drop-allowed\\]"),
        ("[translation-option-threshold]\n0.1", "is 0.1; the built-in decoder knows 0 only"),
        ("[search-algorithm]\n3", "\\[search-algorithm\\] is 3"),
        ("[output-factors]\n0\n1", "\\[output-factors\\] is 0, 1"),
        ("[time-out]\n5", "\\[time-out\\] is 5"),
        ("[alternate-weight-setting]\nid=a", "no \\[alternate-weight-setting\\]"),
        ("[weight-add]\nsparse", "no \\[weight-add\\]; remove it"),
        ("[constraint]\nfile", "does not know \\[constraint\\]"),
        ("[distortion-limits]\n3", "does not know .*; did you mean \\[distortion-limit\\]"),
        ("[mbr]\ntrue", "does not know \\[mbr\\]; did you mean \\[minimum-bayes-risk\\]"),
        ("[WEIGHT]\nLM0= 1", "does not know \\[WEIGHT\\]; did you mean \\[weight\\]"),
        ("[dl]\n3", "does not know \\[dl\\]; did you mean \\[distortion-limit\\]"),
    ],
)
def test_settings_that_would_change_translations_are_refused_by_name(
    text: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check(text)


def test_each_section_has_one_meaning() -> None:
    groups = [
        *(ini_settings.HONOURED, ini_settings.REPLACED, ini_settings.IDLE, ini_settings.REFUSED),
        *(ini_settings.OF_STACK_SEARCH, set(ini_settings.ONLY_AS), ini_settings.ONLY_OFF),
    ]
    assert sum(map(len, groups)) == len(frozenset().union(*groups))


def test_a_model_with_a_refused_section_is_not_loaded(toy_ini: Path) -> None:
    toy_ini.write_text("[consensus-decoding]\ntrue\n" + toy_ini.read_text())
    with pytest.raises(ConfigError, match="consensus-decoding"):
        load_model(toy_ini, None, None)


@pytest.mark.parametrize("arguments", ["num-features=2", "num-features=2 oov-feature=0"])
def test_a_language_model_with_two_scores_is_refused(toy_ini: Path, arguments: str) -> None:
    text = toy_ini.read_text().replace("LM0= 0.4", "LM0= 0.4 0.1")
    toy_ini.write_text(text.replace("KENLM ", f"KENLM {arguments} "))
    with pytest.raises(
        ConfigError, match="LM0 has num-features=2; in the built-in decoder KENLM has 1"
    ):
        load_model(toy_ini, None, None)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Distortion\n", "Distortion sparse=1\n", "Distortion0 with sparse=1"),
        (
            "num-features=6 type",
            "default-scores=1,1,1,1,1,1 type",
            "LexicalReordering0 with default-sc",
        ),
        (
            "num-features=6 type",
            "sparse-weights=f type",
            "LexicalReordering0 with sparse-weights=f",
        ),
        ("PhrasePenalty\n", "PhrasePenalty per-phrase-table=true\n", "with per-phrase-table=true"),
        ("num-features=1 path", "num-features=1 tabel-limit=5 path", "did you mean 'table-limit'"),
        (
            "factor=0 path=lm",
            "factor=0 tuneable-components=1 path=lm",
            "LM0 with tuneable-components",
        ),
    ],
)
def test_an_argument_that_would_be_left_out_is_refused_with_its_line(
    toy_ini: Path, old: str, new: str, message: str
) -> None:
    """All but a misspelt one change scores or lists in Moses."""
    text = toy_ini.read_text()
    assert text.count(old) == 1
    toy_ini.write_text(text.replace(old, new))
    with pytest.raises(InputError, match=message):
        load_model(toy_ini, None, None)


def test_arguments_without_effect_pass(toy_ini: Path) -> None:
    text = toy_ini.read_text().replace(
        "path=lm.arpa", "lazyken=1 load=read verbosity=1 path=lm.arpa"
    )
    toy_ini.write_text(text.replace("path=table", "cache-size=5 filterable=true path=table"))
    assert load_model(toy_ini, None, None).n_features == 13


def test_without_a_distortion_limit_there_is_none_as_in_moses(toy_ini: Path) -> None:
    toy_ini.write_text(toy_ini.read_text().replace("[distortion-limit]\n3\n", ""))
    assert load_model(toy_ini, None, None).distortion_limit == -1
    assert load_model(toy_ini, None, 4).distortion_limit == 4


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
    ("text", "message"),
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
def test_a_value_of_another_kind_is_reported_by_its_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
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
