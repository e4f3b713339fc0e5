from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from moses_bridge.base.errors import InputError
from rescorer.contract.vocabulary import MANY_PHRASES, Vocabulary, count_words


def test_frequent_words_first_and_ties_by_the_word() -> None:
    counts = Counter({b"b": 2, b"a": 2, b"z": 5, b"rare": 1, b"</s>": 9, b"<unk>": 7})
    vocabulary = Vocabulary.from_counts(counts, 3)
    assert vocabulary.words == (b"</s>", b"<unk>", b"z", b"a", b"b")
    assert counts[b"</s>"] == 9


def test_words_are_counted_in_bytes() -> None:
    phrases = [b"le caf\xc3\xa9", b"caf\xc3\xa9 \xff", b""]
    assert count_words(phrases) == {b"le": 1, b"caf\xc3\xa9": 2, b"\xff": 1}


def test_encode_pads_with_the_end() -> None:
    ids, lens = Vocabulary([b"le", b"caf\xc3\xa9"]).encode_phrases(
        [b"le caf\xc3\xa9", b"", b"th\xe9"]
    )
    assert ids.tolist() == [[2, 3, 0], [0, 0, 0], [1, 0, 0]]
    assert lens.tolist() == [2, 0, 1]


def test_words_end_at_blanks_and_tabs_alone() -> None:
    """As Moses splits phrases: moses/Phrase.cpp:171."""
    phrase = b"a\x0bb\tc\r  d\x0c"
    counts = count_words([phrase])
    assert set(counts) == {b"a\x0bb", b"c\r", b"d\x0c"}
    ids, lens = Vocabulary.from_counts(counts, 3).encode_phrases([phrase, b"a b c d"])
    assert sorted(ids[0, :3].tolist()) == [2, 3, 4]
    assert lens.tolist() == [3, 4]
    assert ids[1].tolist() == [1, 1, 1, 1, 0]


def test_encode_nothing() -> None:
    ids, lens = Vocabulary([b"a"]).encode_phrases([])
    assert ids.shape == (0, 1)
    assert lens.shape == (0,)


def test_an_end_inside_a_phrase_is_unknown() -> None:
    ids, lens = Vocabulary([b"a"]).encode_phrases([b"a </s> <unk> a"])
    assert ids.tolist() == [[2, 1, 1, 2, 0]]
    assert lens.tolist() == [4]


def test_unknown_words_of_each_phrase() -> None:
    vocabulary = Vocabulary([b"a", b"b"])
    assert vocabulary.n_unknown([b"a b", b"x a y", b"", b"</s>"]).tolist() == [0, 2, 0, 1]


def test_saved_and_loaded(tmp_path: Path) -> None:
    words = [b"\xc2\xa0", b"a|b", b"\xff\xfe", b"\r"]
    Vocabulary(words).save(tmp_path / "v")
    assert (tmp_path / "v").read_bytes() == b"</s>\n<unk>\n" + b"".join(w + b"\n" for w in words)
    assert Vocabulary.load(tmp_path / "v").words == (b"</s>", b"<unk>", *words)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"<unk>\n</s>\n", "v:1: found"),
        (b"</s>\na\n", "v:2: found"),
        (b"", "v:1: found"),
        (b"</s>\n<unk>\na\nb\na\n", "a word twice"),
        (b"</s>\n<unk>\n</s>\n", "a word twice"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: bytes, fault: str) -> None:
    (tmp_path / "v").write_bytes(text)
    with pytest.raises(InputError, match=fault):
        Vocabulary.load(tmp_path / "v")


def test_a_text_is_its_phrases_one_behind_another() -> None:
    """Without anything between them, so that a long one costs the others nothing."""
    vocabulary = Vocabulary([b"a", b"b"])
    flat, lens = vocabulary.encode_text([b"a x b", b"", b"</s>", b" b "])
    assert (flat.tolist(), lens.tolist()) == ([2, 1, 3, 1, 3], [3, 0, 1, 1])
    assert flat.dtype == np.int32
    flat, lens = vocabulary.encode_text([])
    assert (flat.shape, lens.shape) == ((0,), (0,))


@pytest.mark.parametrize("blanks", [(b" ",), (b" ", b"\t", b"  ")])
def test_many_phrases_are_numbered_as_few_are(blanks: tuple[bytes, ...]) -> None:
    """In compiled code; words of any bytes, phrases without words or with blanks around them."""
    rng = random.Random(4)
    words = [b"w%d" % number for number in range(99)] + [b"</s>", b"<unk>", b"a\x0bb", b"c\r\xff"]
    vocabulary = Vocabulary([*words[:50], words[-1]])

    def phrase() -> bytes:
        inside = rng.choice(blanks).join(rng.choices(words, k=rng.randint(0, 7)))
        return rng.choice([b"", *blanks]) + inside + rng.choice([b"", *blanks])

    phrases = [phrase() for _ in range(MANY_PHRASES)]
    ids, lens = vocabulary.encode_text(phrases)
    few = [vocabulary.encode_text([one]) for one in phrases]
    assert ids.tolist() == [number for own, _ in few for number in own.tolist()]
    assert lens.tolist() == [int(own_lens[0]) for _, own_lens in few]
    assert (ids.dtype.name, lens.dtype.name) == ("int32", "int64")


def test_a_word_spelt_as_an_end_is_unknown_among_many_too() -> None:
    ids, _ = Vocabulary([b"a"]).encode_text([b"a </s> <unk> b"] * MANY_PHRASES)
    assert ids.tolist() == [2, 1, 1, 1] * MANY_PHRASES
