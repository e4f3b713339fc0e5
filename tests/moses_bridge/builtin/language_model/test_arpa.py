from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.builtin.language_model.arpa import read_arpa

MODEL = b"""What stands before the header is passed over.

\\data\\
ngram 1=4
ngram  2 = 2

\\1-grams:
-1.25\t<unk>
0 <s> -0.3
-9E-1\t</s>\t0
-.7\tpart\xc3\xa9 -2.5e-1

\\2-grams:
-0.5\t<s> part\xc3\xa9
-0.123456789\tpart\xc3\xa9 </s>

\\end\\
"""


def written(folder: Path, *changes: tuple[bytes, bytes]) -> Path:
    text = MODEL
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "lm.arpa").write_bytes(text)
    return folder / "lm.arpa"


def test_ngrams_are_those_of_the_file(tmp_path: Path) -> None:
    arpa = read_arpa(written(tmp_path))
    assert arpa.words == [b"<unk>", b"<s>", b"</s>", b"part\xc3\xa9"]
    assert arpa.order == 2
    unigrams, bigrams = arpa.sections
    assert (unigrams.first_line, bigrams.first_line) == (8, 14)
    assert unigrams.ids.tolist() == [[0], [1], [2], [3]]
    assert bigrams.ids.tolist() == [[1, 3], [3, 2]]
    assert unigrams.log_probs.tolist() == np.float32([-1.25, 0, -0.9, -0.7]).tolist()
    assert unigrams.backoffs.tolist() == np.float32([0, -0.3, 0, -0.25]).tolist()
    assert bigrams.log_probs.tolist() == np.float32([-0.5, -0.123456789]).tolist()
    assert bigrams.backoffs.tolist() == [0, 0]


def test_carriage_returns_are_blanks(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    arpa = read_arpa(path)
    assert arpa.words == [b"<unk>", b"<s>", b"</s>", b"part\xc3\xa9"]
    unigrams, bigrams = arpa.sections
    assert unigrams.log_probs.tolist() == np.float32([-1.25, 0, -0.9, -0.7]).tolist()
    assert unigrams.backoffs.tolist() == np.float32([0, -0.3, 0, -0.25]).tolist()
    assert bigrams.ids.tolist() == [[1, 3], [3, 2]]
    assert bigrams.log_probs.tolist() == np.float32([-0.5, -0.123456789]).tolist()


def test_unknown_words_in_capitals_are_unknown_words(tmp_path: Path) -> None:
    arpa = read_arpa(
        written(tmp_path, (b"<unk>", b"<UNK>"), (b"0.5\t<s> part\xc3\xa9", b"0.5\t<s> <UNK>"))
    )
    assert arpa.words == [b"<unk>", b"<s>", b"</s>", b"part\xc3\xa9"]
    assert arpa.sections[1].ids.tolist() == [[1, 0], [3, 2]]


def test_two_unknown_words_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, (b"1=4", b"1=5"), (b"0 <s>", b"-1 <UNK>\n0 <s>"))
    with pytest.raises(InputError, match=r"lm\.arpa:9: found <UNK> besides <unk>, expected one"):
        read_arpa(path)


def test_a_log_probability_may_be_minus_infinity(tmp_path: Path) -> None:
    arpa = read_arpa(written(tmp_path, (b"0 <s>", b"-inf <s>"), (b"-0.123456789", b"-inf")))
    assert arpa.sections[0].log_probs.tolist()[1] == -np.inf
    assert arpa.sections[1].log_probs.tolist() == [-0.5, -np.inf]


def test_a_back_off_of_0_at_the_highest_order_is_taken(tmp_path: Path) -> None:
    arpa = read_arpa(written(tmp_path, (b"part\xc3\xa9 </s>", b"part\xc3\xa9 </s>\t0.0")))
    assert arpa.sections[1].backoffs.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        (b"-9E-1\t", b"-9E-\t", 10, "a number"),
        (b"-9E-1\t", b"-9E-1x\t", 10, "a number"),
        (b"-9E-1\t", b"0.1\t", 10, "at most 0"),
        (b"0 <s> -0.3", b"0 <s> x", 9, "a number"),
        (b"0 <s> -0.3", b"0 <s> -inf", 9, "a number"),
        (b"-9E-1\t", b"inf\t", 10, "a number"),
        (b"-9E-1\t", b"-infx\t", 10, "a number"),
        (
            b"part\xc3\xa9 </s>",
            b"part\xc3\xa9 </s> -0.25",
            15,
            "the back-off -0.25 of an n-gram of the",
        ),
        (b" 2 = 2", b" 17 = 2", 5, "n-grams of 17 words, expected at most 16"),
        (b"What stands", b"\xef\xbb\xbfWhat stands", 1, "a byte order mark (BOM)"),
        (b"0 <s> -0.3", b"0 <s> -0.3 1", 9, "nothing after"),
        (b"0 <s> -0.3", b"0 <unk>", 9, "each word once"),
        (b"-0.5\t<s> part\xc3\xa9", b"-0.5\t<s>", 14, "section's order"),
        (b"-0.5\t<s> part\xc3\xa9", b"-0.5\t<s> part", 14, "1-gram section"),
        (b"\n\\2-grams:", b"\n\\3-grams:", 13, "2-grams"),
        (b"2 = 2", b"2 = 3", 16, "as many n-grams"),
        (b"2 = 2", b"2 = 1", 15, "end"),
        (b"2 = 2", b"2 = 999999999", 5, "a count that fits"),
        (b"ngram 1=4", b"ngram 1=4x", 4, "ngram 1=COUNT"),
        (b"\\data\\", b"data", 18, "Is this an ARPA file"),
    ],
)
def test_faults_are_told_by_line(
    tmp_path: Path, old: bytes, new: bytes, line: int, told: str
) -> None:
    with pytest.raises(InputError) as caught:
        read_arpa(written(tmp_path, (old, new)))
    assert told in str(caught.value)
    assert caught.value.line == line


def test_a_message_quotes_the_bytes_as_text(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_arpa(written(tmp_path, (b"<s> part\xc3\xa9", b"<s> part\xc3\xa9 -1 x")))
    assert caught.value.found == r"'-0.5\t<s> parté -1 x'"
