"""A small model with a reordering table and a trigram model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from moses_bridge.builtin.decoder.model import Model, load_model
from moses_bridge.builtin.decoder.search import Limits
from moses_bridge.builtin.decoder.translator import Translator, effective_distortion_limit
from moses_bridge.builtin.decoder.weighted_model import make_weighted_model

Places = Callable[[Sequence[tuple[int, int]], int, int], list[int]]
ARPA = """\\data\\
ngram 1=5
ngram 2=4
ngram 3=2

\\1-grams:
-1.5\t<unk>\t0
0\t<s>\t-0.3
-1.0\t</s>\t0
-0.7\ta\t-0.2
-0.9\tb\t-0.4

\\2-grams:
-0.2\t<s> a\t-0.1
-0.6\ta b\t-0.3
-0.1\tb </s>\t0
-0.8\tb a\t-0.25

\\3-grams:
-0.1\t<s> a b
-0.3\tb a b

\\end\\
"""
INI = """[distortion-limit]
{limit}
[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features={n_scores} path=table
LexicalReordering name=LexicalReordering0 num-features=6 type=wbe-msd-bidirectional-fe-allff path=reordering
Distortion
KENLM name=LM0 factor=0 path=lm.arpa order=3
[weight]
UnknownWordPenalty0= 1
WordPenalty0= -0.2
PhrasePenalty0= 0.1
TranslationModel0= {weights}
LexicalReordering0= 0.1 0.2 0.15 0.05 0.1 0.3
Distortion0= 0.2
LM0= 0.4
"""
PAIRS = {
    ("u", "a"): (0.5, 0.2, 0.3, 0.6, 0.1, 0.3, 0.4),
    ("u", "b a"): (0.4, 0.6, 0.3, 0.2, 0.5, 0.3, 0.2),
    ("v", "b"): (0.3, 0.1, 0.3, 0.3, 0.6, 0.1, 0.2),
    ("v", ""): (0.1, 0.3, 0.2, 0.2, 0.2, 0.3, 0.6),
    ("w", "c b"): (0.6, 0.5, 0.1, 0.4, 0.3, 0.3, 0.3),
    ("u v", "a b"): (0.2, 0.2, 0.1, 0.4, 0.1, 0.7, 0.1),
    ("v w", "b a b"): (0.25, 0.4, 0.5, 0.1, 0.2, 0.3, 0.5),
}


def ini_text(limit: int, *table_weights: float) -> str:
    """An ini with all dense features and a table of n scores."""
    weights = " ".join(map(str, table_weights))
    return INI.format(limit=limit, n_scores=len(table_weights), weights=weights)


def make_translator(model: Model, stack: int, pops: int) -> Translator:
    limit = effective_distortion_limit(model.distortion_limit)
    weighted = make_weighted_model(model, model.weight_vector(None))
    return Translator(model, weighted, Limits(stack, pops, limit))


@pytest.fixture
def pairs() -> dict[tuple[str, str], tuple[float, ...]]:
    """Source and target: the score of the table, then the six of the reordering table."""
    return PAIRS


@pytest.fixture
def toy_ini(tmp_path: Path) -> Path:
    def rows(first: int, last: int) -> str:
        return "".join(
            f"{source} ||| {target} ||| {' '.join(map(str, scores[first:last]))}\n"
            for (source, target), scores in sorted(PAIRS.items())
        )

    (tmp_path / "table").write_text(rows(0, 1))
    (tmp_path / "reordering").write_text(rows(1, 7))
    (tmp_path / "lm.arpa").write_text(ARPA)
    (tmp_path / "moses.ini").write_text(ini_text(3, 0.3))
    return tmp_path / "moses.ini"


@pytest.fixture
def toy(toy_ini: Path) -> Model:
    return load_model(toy_ini, None, None)


SMALL_ARPA = b"""\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-1.5\t<unk>\t0
0\t<s>\t-0.3
-1.0\t</s>\t0
-0.7\ta\t-0.2
-0.9\tb\t-0.4

\\2-grams:
-0.2\t<s> a
-0.6\ta b
-0.1\tb </s>

\\end\\
"""
SMALL_INI = """[distortion-limit]
6
[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=2 path=table
LexicalReordering name=LexicalReordering0 num-features=6 type=wbe-msd-bidirectional-fe-allff path=reordering
Distortion
KENLM name=LM0 factor=0 path=lm.arpa order=2
[weight]
TranslationModel0= 0.5 0.25
LM0= 0.5
"""


@pytest.fixture
def write_model(tmp_path: Path) -> Callable[[bytes, str], Path]:
    """Writes a model with a table of two scores and a bigram model; the ini's text may be replaced."""

    def write(table: bytes, ini: str) -> Path:
        (tmp_path / "table").write_bytes(table)
        (tmp_path / "reordering").write_bytes(b"")
        (tmp_path / "lm.arpa").write_bytes(SMALL_ARPA)
        (tmp_path / "moses.ini").write_text(ini)
        return tmp_path / "moses.ini"

    return write


@pytest.fixture
def small_ini() -> str:
    """The text of a small ini."""
    return SMALL_INI


BIGRAM_ARPA = """\\data\\
ngram 1=6
ngram 2=5

\\1-grams:
-1.5\t<unk>\t-0.01
0\t<s>\t-0.3
-1.0\t</s>\t0
-0.7\ta\t-0.2
-0.9\tb\t-0.4
-1.1\tc\t-0.15

\\2-grams:
-0.2\t<s> a
-0.6\ta b
-0.1\tb </s>
-0.8\tb a
-0.5\tc b

\\end\\
"""
BIGRAM_INI = """[distortion-limit]
6
[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=1 path=table
Distortion
KENLM name=LM0 factor=0 path=lm.arpa order=2
[weight]
UnknownWordPenalty0= 1
WordPenalty0= -0.2
PhrasePenalty0= 0.1
TranslationModel0= 0.3
Distortion0= 0.2
LM0= 0.4
"""


@pytest.fixture
def write_bigram_model(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a model of a table with one score and a bigram model of three words, without reordering."""

    def write(table: str) -> Path:
        (tmp_path / "table").write_text(table)
        (tmp_path / "lm.arpa").write_text(BIGRAM_ARPA)
        (tmp_path / "moses.ini").write_text(BIGRAM_INI)
        return tmp_path / "moses.ini"

    return write


@pytest.fixture
def places_by_definition() -> Places:
    """The source place of each target word and of `</s>`, from links, source and target words."""
    return _places_by_definition


def _places_by_definition(
    links: Sequence[tuple[int, int]], n_source: int, n_target: int
) -> list[int]:
    found = {}
    for word in range(n_target):
        linked = sorted(source for source, target in links if target == word)
        if linked:
            found[word] = linked[(len(linked) - 1) // 2]
    places = []
    for word in range(n_target):
        if not found:
            places.append(word * n_source // n_target)
            continue
        distance = min(abs(other - word) for other in found)
        places.append(found[word + distance if word + distance in found else word - distance])
    return [*places, n_source]
