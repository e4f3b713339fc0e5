"""Given translations: as good as rows of the table with their probability, as scores and in the search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.given_translations import force_translations
from moses_bridge.decoding.interface import DecoderConfig

Write = Callable[[str], Path]
TABLE = (
    "u ||| a ||| 0.5\nu ||| b a ||| 0.4\nu v ||| a c ||| 0.1\nv ||| b ||| 0.3\nw ||| c b ||| 0.6\n"
)
CONFIG = DecoderConfig(kind="builtin", nbest_factor=0)


def nbest_of(
    ini: Path, line: str, xml_input: str = "pass-through", config: DecoderConfig = CONFIG
) -> list[str]:
    text = ini.read_text()
    ini.write_text(f"[xml-input]\n{xml_input}\n{text}")
    source, out, nbest = (ini.parent / name for name in ("in", "out", "nbest"))
    source.write_text(line + "\n")
    with open_decoder(ini, config, 1) as decoder:
        decoder.decode(source, out, None, nbest, 500)
    ini.write_text(text)
    return nbest.read_text().split("\n")[:-1]


@pytest.mark.parametrize(
    ("xml_input", "line", "table"),
    [
        (
            "inclusive",
            'u <n translation="z c||b" prob="0.7||0.2">v</n> w',
            TABLE + "v ||| z c ||| 0.7\nv ||| b ||| 0.2\n",
        ),
        (
            "exclusive",
            'u <n translation="z c" prob="0.7">v</n> w',
            "u ||| a ||| 0.5\nu ||| b a ||| 0.4\nv ||| z c ||| 0.7\nw ||| c b ||| 0.6\n",
        ),
        (
            "constraint",  # "u v" stays: its translation "a c" has the given "c"
            'u <n translation="c">v</n> w',
            "u ||| a ||| 0.5\nu ||| b a ||| 0.4\nu v ||| a c ||| 0.1\nv ||| c ||| 1\nw ||| c b ||| 0.6\n",
        ),
        (
            "inclusive",
            '<n translation="c c c" prob="0.3" span="0-2"/>u v w',
            TABLE + "u v w ||| c c c ||| 0.3\n",
        ),
        ("ignore", 'u <n translation="z" prob="0.7">v</n> w', TABLE),
    ],
)  # fmt: skip
def test_it_is_like_a_row_of_the_table(
    write_bigram_model: Write, xml_input: str, line: str, table: str
) -> None:
    found = nbest_of(write_bigram_model(TABLE), line, xml_input)
    assert len(found) > 3
    assert found == nbest_of(write_bigram_model(table), "u v w")


def test_it_has_no_word_links_as_an_unknown_word_has(write_bigram_model: Write) -> None:
    line, config = 'q <n translation="z">v</n>', replace(CONFIG, alignment=True)
    found = nbest_of(write_bigram_model(TABLE), line, "exclusive", config)
    links = {entry.split(" ||| ")[1].strip(): entry.rpartition("|||")[2] for entry in found}
    assert links == {"q z": " 0-0 ", "z q": " 0-1 "}


def in_four(ini: Path) -> Path:
    """The model with the fourth root of each probability as each of four scores."""
    text = ini.read_text().replace("num-features=1", "num-features=4")
    ini.write_text(text.replace("TranslationModel0= 0.3", "TranslationModel0= 0.3 0.1 -0.2 0.4"))
    rows = [row.split(" ||| ") for row in (ini.parent / "table").read_text().splitlines()]
    roots = [" ".join([repr(float(row[2]) ** 0.25)] * 4) for row in rows]
    lines = [f"{row[0]} ||| {row[1]} ||| {root}\n" for row, root in zip(rows, roots, strict=True)]
    (ini.parent / "table").write_text("".join(lines))
    return ini


def test_its_probability_is_in_equal_parts_in_all_scores(write_bigram_model: Write) -> None:
    line = 'u <n translation="z c" prob="0.7">v</n> w'
    found = nbest_of(in_four(write_bigram_model(TABLE)), line, "inclusive")
    expected = nbest_of(in_four(write_bigram_model(TABLE + "v ||| z c ||| 0.7\n")), "u v w")
    assert found == expected and any(" z c " in entry for entry in found)


def test_words_that_only_a_longer_span_translates_are_copied_as_unknown(
    write_bigram_model: Write,
) -> None:
    ini = write_bigram_model(TABLE)
    ini.write_text("[beam-threshold]\n0\n" + ini.read_text())
    found = nbest_of(ini, '<n translation="z">u v</n>', "exclusive")
    texts = {line.split(" ||| ")[1].strip(): line for line in found}
    assert set(texts) == {"z", "u v", "v u"}
    assert found[0] == texts["z"]


def test_without_the_setting_tags_are_words(write_bigram_model: Write) -> None:
    first = nbest_of(write_bigram_model(TABLE), '<n translation="z">u</n>')[0]
    assert 'translation="z">u</n>' in first


def test_a_given_translation_can_be_forced(write_bigram_model: Write, tmp_path: Path) -> None:
    ini = write_bigram_model(TABLE)
    ini.write_text("[xml-input]\ninclusive\n" + ini.read_text())
    paths = [tmp_path / name for name in ("source", "target", "forced", "forced.nbest")]
    paths[0].write_text('u <n translation="z" prob="0.5">v</n>\n')
    paths[1].write_text("a z\n")
    report = force_translations(ini, CONFIG, 1, paths[0], paths[1], paths[2], None, paths[3])
    assert report.n_missed == 0
    expected = nbest_of(write_bigram_model(TABLE + "v ||| z ||| 0.5\n"), "u v")
    assert paths[3].read_text().strip("\n") in expected


def test_a_faulty_line_is_reported_before_any_is_translated(write_bigram_model: Write) -> None:
    ini = write_bigram_model(TABLE)
    with pytest.raises(InputError, match="in:2: found no end of the tag 'n'"):
        nbest_of(ini, "u\n<n>v", "inclusive")
    assert not (ini.parent / "out").exists()


def test_more_words_than_a_phrase_may_have_cannot_be_given(write_bigram_model: Write) -> None:
    line = f'<n translation="z">{"u " * 21}</n>'
    with pytest.raises(
        InputError, match=r"in:1: found a translation of 21 source words, .* most 20"
    ):
        nbest_of(write_bigram_model(TABLE), line, "exclusive")
