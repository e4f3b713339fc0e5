"""Settings of a corpus."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Annotated

from moses_bridge.base.choices import Case, Origin
from moses_bridge.base.config import AtLeast, AtMost, check_limits
from moses_bridge.base.errors import ConfigError


@dataclass(frozen=True)
class CorpusConfig:
    """Where a corpus comes from and which part of it is kept.

    Attributes:
        origin: "debian" (package descriptions), "debian+libreoffice" (and the LibreOffice help, for
            training only), "libreoffice" (the help alone) or "files" (the user's own: two files with a
            sentence on each line, or files with both languages).
        case: "lower" lowercases all words, "true" only those that are capitals for their place at the beginning
            of a sentence, "keep" none.
        tokenizers: LANGUAGE=TOKENIZER each: "moses", "characters" (each Chinese or Japanese letter is a word),
            "none", or a command that prints a line of words for each line, like "ja=mecab -O wakati"; "moses"
            by default.
        columns: of a .tsv file, the source's and the target's, from 1.
        max_words: longest sentence kept, in tokens of either side.
        max_ratio: longest side / shortest side at most, in tokens.
        n_train: training pairs kept, chosen at random and left in their order; 0 keeps all.
        train_sizes: pairs of further training texts, ascending: train-250, train-1000 … beside train. Each is
            the beginning of the next one; whole documents fill it, in random order, and the last one is cut.
        n_dev: pairs for tuning.
        n_test: pairs for testing; dev and test together get at most half of all pairs.
        near_copy: a source sentence of dev or test is left out if it is at least as similar as this to one of
            another package or document that may be in train, or for test in dev: 1 - edit distance in words
            / words of the longer one. 0 leaves out none. At most a quarter of all pairs are left out.
        seed: seed of the choice of packages and of training pairs.
        jobs: processes for tokenising and threads for near copies; 0 takes one for each processor. The
            result is the same.
    """

    origin: Origin = "debian"
    case: Case = "lower"
    tokenizers: tuple[str, ...] = ()
    columns: tuple[Annotated[int, AtLeast(1)], Annotated[int, AtLeast(1)]] = (1, 2)
    max_words: Annotated[int, AtLeast(1)] = 80
    max_ratio: Annotated[float, AtLeast(1)] = 3.0
    n_train: Annotated[int, AtLeast(0)] = 0
    train_sizes: tuple[int, ...] = ()
    n_dev: Annotated[int, AtLeast(0)] = 1500
    n_test: Annotated[int, AtLeast(0)] = 2000
    near_copy: Annotated[float, AtLeast(0), AtMost(1)] = 0.7
    seed: int = 1
    jobs: Annotated[int, AtLeast(0)] = 0

    def __post_init__(self) -> None:
        check_limits(self)
        if any(smaller >= larger for smaller, larger in pairwise((0, *self.train_sizes))):
            found = list(self.train_sizes)
            raise ConfigError(f"train_sizes is {found}, expected ascending numbers above 0")


def random_key(seed: int, name: bytes) -> bytes:
    """A key for a random order, reproducible from seed and name."""
    return blake2b(b"%d\t%b" % (seed, name), digest_size=16).digest()
