"""N-best lists of several programs, read as those of Moses."""

from __future__ import annotations

import gzip
import json
import math
import os
from pathlib import Path

import pytest

from moses_bridge.base.choices import ListFormat
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.formats.nbest import without_escaped_bars
from moses_bridge.formats.nbest_lists import checked, read_list, write_moses_list

MOSES = b"""\
0 ||| the house .  ||| Distortion0= 0 LM0= -12.5 TranslationModel0= -1 -2 ||| -3.5
0 ||| a house .  ||| Distortion0= 0 LM0= -13.5 TranslationModel0= -1 -3 ||| -4.5
1 ||| yes  ||| Distortion0= -2 LM0= -2 TranslationModel0= 0 0 WT_a~b= 1 ||| -5 ||| 0-0=0 |||
"""
# As marian-decoder --n-best prints it: with --alignment, with --word-scores, with neither; the last one is of
# a model without a breakdown of its score.
MARIAN = b"""\
0 ||| the house . ||| 0-0 1-1 ||| WordScores= -0.1 -0.2 -0.3 ||| F0= -1.25 F1= -2 ||| -0.8125
0 ||| a house . ||| WordScores= -0.5 -0.2 -0.3 ||| F0= -2.25 F1= -3 ||| -1.3125
1 |||  ||| F0= -0.5 F1= -0.25 ||| -0.75
"""
MARIAN_GLUED = b"0 ||| yes ||| F0=-1.25 ||| -0.625\n"
# As fairseq-generate --nbest 2 --remove-bpe prints it: the sentences by length, and lines for people.
FAIRSEQ = b"""\
2021-03-04 10:00:00 | INFO | fairseq_cli.generate | loading model(s) from model.pt
S-1\toui
T-1\tyes
H-1\t-0.5\ty@@ es
D-1\t-0.5\tyes
P-1\t-0.4000 -0.2000 -0.9000
A-1\t0-0
H-1\t-2.0\tno
D-1\t-2.0\tno
P-1\t-3.0000 -1.0000
S-0\tla maison
T-0\tthe house
H-0\t-0.25\tthe house
H-0\t-1.0\ta ||| house
2021-03-04 10:00:01 | INFO | fairseq_cli.generate | Generate test with beam=5: BLEU4 = 30.00
"""
JSON = """\
{"source": "la maison", "hypotheses": [{"text": "the house", "features": {"LM0": -1.5, "QE": 2}}, \
{"text": "maison |||", "features": {"LM0": -0.1, "QE": 1e-7}}]}
{"hypotheses": [{"text": "", "features": {"LM0": -3, "QE": 0.0}}]}
"""
# As sockeye.translate --output-type json prints it: scores are lists since version 3, also of target factors; a
# sentence of one hypothesis and one without words have no lists.
SOCKEYE = """\
{"score": 0.5, "scores": [[0.5, 0.25], [2.0, 1.5]], "sentence_id": 1, "translation": "the house", \
"translations": ["the house", "a ||| house"], "translations_factors": [{"factor1": "O O"}, {"factor1": "O"}]}
{"score": Infinity, "sentence_id": 2, "translation": ""}
"""
SOCKEYE_2 = (
    b'{"scores": [0.5, 2], "translations": ["a", "b"]}\n{"score": 1.5, "translation": "c"}\n'
)
# cdec leaves out features of value 0.
CDEC = b"""\
0 ||| the house ||| LanguageModel=-3.5 PassThrough=1 WordPenalty=-0.868589 ||| -4.3
0 ||| a house ||| LanguageModel=-4.5 PhraseModel_0=0.25 WordPenalty=-0.868589 ||| -4.5
"""

Read = list[tuple[int, bytes, bytes]]


def read(
    content: bytes, form: ListFormat, folder: Path, n_sentences: int = 2, size: int = 0
) -> Read:
    path = folder / "list"
    path.write_bytes(content)
    return [
        (each.sentence_id, each.words, each.features)
        for each in checked(path, form, n_sentences, {0, 1}, size)
    ]


def test_marians_features_are_found_after_links_and_scores_of_words(tmp_path: Path) -> None:
    assert read(MARIAN, "marian", tmp_path) == [
        (0, b"the house .", b"F0= -1.25 F1= -2"),
        (0, b"a house .", b"F0= -2.25 F1= -3"),
        (1, b"", b"F0= -0.5 F1= -0.25"),
    ]
    assert read(MARIAN_GLUED, "marian", tmp_path, 1) == [(0, b"yes", b"F0= -1.25")]


def test_scores_of_words_among_the_features_of_older_versions_of_marian(tmp_path: Path) -> None:
    lines = b"""\
0 ||| a ||| F0= -1 WordScores= -0.5 -2e-05 ||| -1
0 ||| a b ||| WordScores= -1.5 -0.2 -inf F0= -2 ||| -2
"""
    found = read(lines, "marian", tmp_path, 1)
    assert [features.split() for _, _, features in found] == [[b"F0=", b"-1"], [b"F0=", b"-2"]]


def test_names_of_features_keep_their_letters_and_digits(tmp_path: Path) -> None:
    """In JSON lines, and in lists as Joshua and cdec print them."""
    line = '{"hypotheses": [{"text": "a", "features": {"comet-qe": 0.5, "lm_score": -2, "1": 3}}]}'
    assert read(line.encode(), "jsonl", tmp_path, 1) == [
        (0, b"a", b"cometqe= 0.5 lmscore= -2.0 F1= 3.0")
    ]
    lines = b"""\
0 ||| the house ||| lm_0=-3.0 tm_pt_0=-1.5 WordPenalty=-0.86 ||| -4.36
0 ||| a=b ||| lm_0=-2.0 tm_pt_0=-2.5 WordPenalty= 1 ||| -4.5
"""
    assert read(lines, "joshua", tmp_path, 1) == [
        (0, b"the house", b"lm0= -3.0 tmpt0= -1.5 WordPenalty= -0.86"),
        (0, b"a=b", b"lm0= -2.0 tmpt0= -2.5 WordPenalty= 1.0"),
    ]
    old = b"0 ||| a ||| d: 0 -1.6 lm: -3.5 tm: -1 -2 ||| -4.4\n"  # Moses before 2013
    assert read(old, "joshua", tmp_path, 1) == [(0, b"a", b"d= 0.0 -1.6 lm= -3.5 tm= -1.0 -2.0")]
    with pytest.raises(InputError, match="list:1: found lm0 twice"):
        read(b"0 ||| a ||| lm_0=-3.0 lm0=-1.5 ||| -4.36\n", "joshua", tmp_path, 1)


def test_features_that_cdec_leaves_out_are_0(tmp_path: Path) -> None:
    rows = [
        (b"-3.5", b"1.0", b"-0.868589", b"0.0"),
        (b"-4.5", b"0.0", b"-0.868589", b"0.25"),
    ]
    expected = [
        b"LanguageModel= %b PassThrough= %b WordPenalty= %b PhraseModel0= %b" % row for row in rows
    ]
    assert [features for _, _, features in read(CDEC, "joshua", tmp_path, 1)] == expected


def test_a_list_that_is_read_twice_is_no_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match=r"pipe: found a pipe, expected a file. .* read twice"):
        next(checked(pipe, "joshua", 1))


def test_sockeyes_scores_are_turned_so_that_more_is_better(tmp_path: Path) -> None:
    """sockeye/inference.py: a score is minus a log-probability."""
    factors = SOCKEYE.replace("Infinity", "[0, 0]").encode()
    assert read(factors, "sockeye", tmp_path) == [
        (0, b"the house", b"Score0= -0.5 Score1= -0.25"),
        (0, b"a &#124;&#124;&#124; house", b"Score0= -2.0 Score1= -1.5"),
        (1, b"", b"Score0= 0.0 Score1= 0.0"),
    ]
    assert read(SOCKEYE_2, "sockeye", tmp_path) == [
        (0, b"a", b"Score0= -0.5"),
        (0, b"b", b"Score0= -2.0"),
        (1, b"c", b"Score0= -1.5"),
    ]


def test_a_plain_list_has_as_many_lines_for_each_sentence(tmp_path: Path) -> None:
    lines = b"\xef\xbb\xbfa b\r\nc|||d\n\n \n"
    assert read(lines, "plain", tmp_path, 2, 2) == [
        (0, b"a b", b""),
        (0, b"c&#124;&#124;&#124;d", b""),
        (1, b"", b""),
        (1, b"", b""),
    ]
    with pytest.raises(InputError, match="list: found 4 lines, expected 3 for each sentence, as"):
        read(lines, "plain", tmp_path, 2, 3)
    with pytest.raises(InputError, match="list:3: found the sentence id 2, expected an id below 2"):
        read(lines, "plain", tmp_path, 2, 1)
    unfit: list[tuple[ListFormat, int]] = [("plain", 0), ("jsonl", 4)]
    for form, size in unfit:
        message = f"found the list format {form} and the list size {size}, expected a size above 0"
        with pytest.raises(ConfigError, match=message):
            read_list(tmp_path / "list", form, size)


def test_fairseqs_text_is_that_without_subwords_and_its_logarithms_become_natural(
    tmp_path: Path,
) -> None:
    plain = FAIRSEQ.replace(b"H-0\t-0.25\tthe house\n", b"H-0\t-0.25\tthe house\nP-0\t-1 -1\n")
    plain = plain.replace(b"a ||| house\n", b"a ||| house\nP-0\t-2\n")
    found = read(plain, "fairseq", tmp_path)
    assert [(number, words) for number, words, _ in found] == [
        (1, b"yes"),
        (1, b"no"),
        (0, b"the house"),
        (0, b"a &#124;&#124;&#124; house"),
    ]
    values = [[float(value) for value in features.split()[1::2]] for _, _, features in found]
    in_bits = [[-0.5, -1.5], [-2.0, -4.0], [-0.25, -2.0], [-1.0, -2.0]]
    assert values == [pytest.approx([bits * math.log(2) for bits in row]) for row in in_bits]


def test_natural_logarithms_have_nine_digits(tmp_path: Path) -> None:
    """-1.23456789 ln 2 = -0.855737252..., -2 ln 2 = -1.386294361..."""
    plain = b"S-0\ta\nH-0\t-1.23456789\tb\nP-0\t-0.5 -1.5\n"
    assert (
        read(plain, "fairseq", tmp_path, 1)[0][2] == b"Score0= -0.855737252 LogProb0= -1.38629436"
    )


def test_json_lines_give_features_to_the_last_digit(tmp_path: Path) -> None:
    found = read(JSON.encode(), "jsonl", tmp_path)
    assert found == [
        (0, b"the house", b"LM0= -1.5 QE= 2.0"),
        (0, b"maison &#124;&#124;&#124;", b"LM0= -0.1 QE= 1e-07"),
        (1, b"", b"LM0= -3.0 QE= 0.0"),
    ]
    assert without_escaped_bars(found[1][1]) == b"maison |||"
    turned = "".join(
        json.dumps(json.loads(line) | {"id": 1 - place}) + "\n"
        for place, line in enumerate(JSON.splitlines())
    )
    assert [number for number, _, _ in read(turned.encode(), "jsonl", tmp_path)] == [1, 1, 0]


def test_the_keys_of_features_in_json_have_no_order(tmp_path: Path) -> None:
    turned = JSON.replace('"LM0": -0.1, "QE": 1e-7', '"QE": 1e-7, "LM0": -0.1')
    assert turned != JSON
    assert read(turned.encode(), "jsonl", tmp_path) == read(JSON.encode(), "jsonl", tmp_path)


def test_links_of_no_word_are_links(tmp_path: Path) -> None:
    line = b"0 ||| yes |||  ||| F0= -1 ||| -1\n"
    assert read(line, "marian", tmp_path, 1) == [(0, b"yes", b"F0= -1")]


@pytest.mark.parametrize(
    "line",
    [
        "0 ||| the house ||| LanguageModel=-3 PhraseModel=-2 ||| -5",  # cdec and Joshua
        "0 ||| the house ||| lm: -3 tm: -1 -2 ||| -5",  # Moses before 2013
        "0 ||| the house ||| -3.5",  # Nematus
        "0 ||| the house ||| WordScores= -1 -2 ||| F0= -3 ||| -5",  # Marian
        "H-0\t-0.25\tthe house",  # fairseq
        '{"hypotheses": [{"text": "the house", "features": {"LM0": -3}}]}',
    ],
)
def test_lists_of_other_programs_name_the_option_that_reads_them(tmp_path: Path, line: str) -> None:
    with pytest.raises(
        InputError, match=r"list:1: .* --list-format reads .*Joshua and cdec"
    ) as error:
        read(line.encode(), "moses", tmp_path, 1)
    assert "LM0= -3.5" in error.value.hint


def test_a_list_is_written_as_moses_writes_it_with_a_count_of_words(tmp_path: Path) -> None:
    path, out = tmp_path / "list", tmp_path / "out.gz"
    path.write_bytes(MARIAN)
    write_moses_list(path, "marian", 2, out, word_penalty=True, blank={1})
    assert gzip.decompress(out.read_bytes()).splitlines() == [
        b"0 ||| the house .  ||| F0= -1.25 F1= -2 WordPenalty0= -3 ||| -0.8125",
        b"0 ||| a house .  ||| F0= -2.25 F1= -3 WordPenalty0= -3 ||| -1.3125",
        b"1 |||  ||| F0= -0.5 F1= -0.25 WordPenalty0= 0 ||| -0.75",
    ]
    path.write_bytes(MOSES)
    write_moses_list(path, "moses", 2, out)
    assert gzip.decompress(out.read_bytes()) == MOSES


@pytest.mark.parametrize(
    ("form", "old", "new", "message"),
    [
        ("moses", "LM0= -13.5", "LM1= -13.5", r"list:2: found the features .*LM1 \(1\).*LM0 \(1\)"),
        ("moses", "= -1 -3", "= -1", r"list:2: found .*TranslationModel0 \(1\), expected"),
        ("moses", "1 ||| yes", "2 ||| yes", "list:3: found the sentence id 2, expected an id below 2"),
        ("moses", "1 ||| yes", "0 ||| yes", "list: found no hypothesis of sentence 1, expected one"),
        ("moses", "LM0= -13.5", "LM0= nan", "list:2: found the value 'nan'"),
        ("marian", " ||| F0= -2.25 F1= -3 ||| -1.3125", "", "list:2: found 3 fields"),
        ("marian", "a house .", "a ||| house .", "list:2: found the field 'house .' between words and"),
        ("marian", "0-0 1-1", "0-0 1-x", "list:1: found the field '0-0 1-x' between .* links .0-0 1-2"),
        ("marian", "F1= -3", "", r"list:2: found the features F0 \(1\), expected F0 \(1\), F1"),
        ("fairseq", "S-0\tla maison\n", "", "list:12: found a hypothesis of sentence 0, expected S-0"),
        ("fairseq", "D-1\t-2.0", "D-2\t-2.0", "list:9: found D-2, expected the hypothesis H-2"),
        ("fairseq", "H-1\t-2.0\tno", "H-1\tno", "list:8: found 'H-1.tno', expected H-id or D-id <tab>"),
        ("fairseq", "D-1\t-2.0\tno", "D-1\tno", "list:9: found 'D-1.tno', expected H-id or D-id <tab>"),
        ("fairseq", "-3.0000", "x", "list:10: found the value 'x', expected a finite"),
        ("fairseq", "P-1\t-3.0000 -1.0000\n", "", r"list:8: found the features Score0 \(1\), exp"),
        ("jsonl", ', "QE": 0.0', "", r"list:2: found the features LM0 \(1\), expected"),
        ("jsonl", '"LM0": -3', '"LM0": 1, "LM_0": -3', "list:2: .*LM0, QE, LM_0, expected names that"),
        ("jsonl", '"LM0": -3', '"LM0": NaN', "list:2: found nan as LM0, expected a finite"),
        ("jsonl", '"LM0": -3', '"LM0": "x"', "list:2: found 'x' in .*LM0.*, expected float"),
        ("jsonl", '"text": ""', '"words": ""', "list:2: .*text"),
        ("jsonl", '{"text": ""', '{"text": "a\\nb"', "list:2: found a text of several lines"),
        ("jsonl", '{"text": ""', r'{"text": "\ud83d"', r"list:2: .*half a character: '.ud83d'"),
        ("jsonl", '"QE": 0.0}}]}', '"QE": 0.', "list:2: .* expected a sentence"),
        ("sockeye", '"translation": ""', '"translation": "a"', "list:2: found -inf as Score0, expected a"),
        ("sockeye", '"translation": ""', '"text": ""', "list:2: found None in .*text.* a line of sockeye"),
        ("sockeye", ", [2.0, 1.5]]", "]", r"list:1: found '\{.*', expected a line of sockeye: \{.transl"),
        ("sockeye", "[0.5, 0.25]", '"x"', r"list:1: found '\{.*', expected a line of sockeye"),
        ("sockeye", SOCKEYE.splitlines()[1], "[]", r"list:2: found '\[\]', expected a line of sockeye"),
    ],
)  # fmt: skip
def test_a_malformed_list_is_refused_with_its_line(
    form: ListFormat, old: str, new: str, message: str, tmp_path: Path
) -> None:
    lists = {"moses": MOSES, "marian": MARIAN, "fairseq": FAIRSEQ, "jsonl": JSON.encode()}
    lists["sockeye"] = SOCKEYE.encode()
    assert old.encode() in lists[form]
    path, out = tmp_path / "list", tmp_path / "out"
    path.write_bytes(lists[form].replace(old.encode(), new.encode()))
    with pytest.raises(InputError, match=message):
        write_moses_list(path, form, 2, out, blank={1})
    assert not out.exists()


def test_a_line_without_hypotheses_and_a_file_cut_short_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="list:1: found no hypotheses, expected one at least"):
        read(b'{"hypotheses": []}\n', "jsonl", tmp_path)
    with pytest.raises(InputError, match="found no hypothesis of sentence 0"):
        read(b"", "moses", tmp_path)
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(MOSES * 100)[:-20])
    with pytest.raises(InputError, match=r"cut.gz:\d+: found damaged data"):
        list(checked(path, "moses", 2))


def test_an_empty_hypothesis_of_a_sentence_with_words_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "list", tmp_path / "out"
    path.write_bytes(b"0 |||  ||| A= 1 ||| 0\n0 ||| a ||| A= 2 ||| 0\n1 ||| b ||| A= 3 ||| 0\n" * 2)
    write_moses_list(path, "moses", 2, out)
    assert out.read_bytes() == b"0 ||| a  ||| A= 2 ||| 0\n1 ||| b  ||| A= 3 ||| 0\n" * 2
    told = "list:1: the first of 2 hypotheses without words, which are left out\n"
    assert told in capsys.readouterr().err
    path.write_bytes(b"0 ||| a ||| A= 1 ||| 0\n1 |||  ||| A= 2 ||| 0\n")
    with pytest.raises(InputError, match="list: found no hypothesis of sentence 1 with words"):
        write_moses_list(path, "moses", 2, out)
