from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.builtin.decoder import ini_settings
from moses_bridge.builtin.decoder.ini_settings import check_settings
from moses_bridge.builtin.decoder.model import load_model
from moses_bridge.formats.moses_ini import parse_ini


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
    ("text", "told"),
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
        ("[dl]\n3", "does not know \\[dl\\]; did you mean \\[distortion-limit\\]"),
    ],
)
def test_what_would_change_translations_is_refused_by_name(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
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
    ("old", "new", "told"),
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
    toy_ini: Path, old: str, new: str, told: str
) -> None:
    """All but a misspelt one change scores or lists in Moses."""
    text = toy_ini.read_text()
    assert text.count(old) == 1
    toy_ini.write_text(text.replace(old, new))
    with pytest.raises(InputError, match=told):
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
