"""Dictionaries and shortlists: the best translations of each word, from the links of a text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice, product
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from moses_bridge.base.errors import ConfigError, InputError, shown
from moses_bridge.base.text_lines import read_parallel
from moses_bridge.base.textio import read_lines, temporary_directory, write_lines
from moses_bridge.builtin.build import LEXICAL_NAMES, LINKS_NAME
from moses_bridge.builtin.extraction.aligned_corpus import read_aligned_corpus
from moses_bridge.builtin.extraction.lexical import NULL, lexical_table
from moses_bridge.builtin.lexicon_choice import LexiconChoice
from moses_bridge.formats.words import as_text, split_words, to_number, without_escapes

Split = Callable[[bytes], list[bytes]]  # of a line, into words or pieces of words


class WordPair(NamedTuple):
    """Linked words, p(translation | word), p(word | translation), and the number of links, None if unknown."""

    word: bytes
    translation: bytes
    prob: float
    back_prob: float
    n_links: int | None = None


class Coverage(NamedTuple):
    """Numbers of sentences, reference words, those in the list of their sentence, and words of all lists."""

    n_sentences: int
    n_words: int
    n_covered: int
    n_listed: int


def write_lexicon(
    model: Path,
    out: Path,
    choice: LexiconChoice,
    texts: tuple[Path, Path] | None = None,
    pieces: Sequence[Path] = (),
    cover: tuple[Path, Path] | None = None,
) -> tuple[int, Coverage | None]:
    """Write the best translations of each word; return the number of pairs, and the coverage if measured.

    Args:
        model: directory of `moses-bridge build`. Its lex.e2f and lex.f2e are read, or, with `texts`, its links;
            then it may also be a file of links.
        out: the file; docs/formats.md has its forms.
        choice: which pairs, and the form.
        texts: tokenised source and target text of the links, to count them.
        pieces: SentencePiece models of source and target, or one of both, to write pieces of words: p(b | a) is
            the share of links to words with piece b among all links of words with piece a.
        cover: source text and references to measure the coverage on, in pieces if they are given.

    Raises:
        ConfigError: links must be counted, but there are no `texts`; or bicleaner cannot read the file.
        InputError: a file is missing or malformed, or the texts and links do not fit together.
    """
    _check(out, choice, texts, pieces)
    if texts is None and model.is_file():
        raise ConfigError(f"{model}: found a file of links: give --texts, the texts that it links")
    pairs = _read_probs(model) if texts is None else _count_links(model, *texts)
    splits: list[Split] = [split_words, split_words]
    if pieces:
        splits = [_piece_splitter(path) for path in (pieces[0], pieces[-1])]
        pairs = _in_pieces(pairs, splits)
    if choice.inverse:
        pairs = [WordPair(t, w, back, prob, n) for w, t, prob, back, n in pairs]
        splits, cover = splits[::-1], cover and (cover[1], cover[0])
    best = best_pairs(pairs, choice)
    coverage = cover and _coverage(best, _most_linked(pairs, choice.first), cover, splits)
    write_lines(out, _lines(best, choice))
    return len(best), coverage


def _check(out: Path, choice: LexiconChoice, texts: object, pieces: Sequence[Path]) -> None:
    counting = {"sentencepiece": pieces, "min-count": choice.min_count, "first": choice.first}
    for option, value in counting.items():
        if value and texts is None:
            found = f"--{option} needs numbers of links, and lex.e2f and lex.f2e have probabilities"
            raise ConfigError(f"{found}: give --texts, the texts that the model was made of")
    if len(pieces) > 2:
        raise ConfigError(
            "--sentencepiece is given once for both languages, or for source and target"
        )
    if choice.form == "bicleaner" and (out.suffix != ".gz" or pieces):
        raise ConfigError("bicleaner reads whole words, from a file named .gz")


def _read_probs(model: Path) -> list[WordPair]:
    e2f, f2e = (model / name for name in LEXICAL_NAMES)
    back, there = _read_table(e2f), _read_table(f2e)
    if back.keys() != {pair[::-1] for pair in there}:
        raise InputError(e2f, None, "other pairs of words", f"those of {f2e}", "Build both anew")
    return [WordPair(w, t, there[t, w], prob) for (w, t), prob in back.items()]


def _read_table(path: Path) -> dict[tuple[bytes, bytes], float]:
    probs, known = {}, dict[bytes, bytes]()
    for line_number, line in enumerate(read_lines(path), start=1):
        words = [known.setdefault(word, word) for word in split_words(line)]
        prob = to_number(words[2]) if len(words) == 3 else -1
        if not 0 <= prob <= 1:
            raise InputError(path, line_number, shown(line), "two words and a probability")
        if NULL not in words:
            probs[words[0], words[1]] = prob
    return probs


def _count_links(model: Path, source: Path, target: Path) -> list[WordPair]:
    links = model / LINKS_NAME if model.is_dir() else model
    with temporary_directory("lexicon") as folder:
        corpus = read_aligned_corpus(source, target, links, folder)
        table = lexical_table(corpus)
    words, translations = corpus.source.vocabulary, corpus.target.vocabulary
    linked = (table.sources < len(words)) & (table.targets < len(translations))
    probs, back_probs = table.target_given_source, table.source_given_target
    columns = (table.sources, table.targets, probs, back_probs, table.counts)
    return [
        WordPair(words[word], translations[translation], *values)
        for word, translation, *values in zip(*(c[linked].tolist() for c in columns), strict=True)
    ]


def _piece_splitter(path: Path) -> Split:
    """Split by a SentencePiece model, without the escapes of Moses's tokenizer."""
    import sentencepiece

    try:
        model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError) as error:
        raise InputError(path, None, str(error), "a SentencePiece model") from error
    return lambda line: [
        piece.encode() for piece in model.encode(without_escapes(as_text(line)), out_type=str)
    ]


def _in_pieces(pairs: Iterable[WordPair], splits: Sequence[Split]) -> list[WordPair]:
    """The pairs of pieces; each has the links of all pairs of words with both pieces."""
    joint, ones, others = Counter[tuple[bytes, bytes]](), Counter[bytes](), Counter[bytes]()
    for word, group in groupby(pairs, attrgetter("word")):
        of_word = set(splits[0](word))
        for pair in group:
            of_translation = set(splits[1](pair.translation))
            joint.update(dict.fromkeys(product(of_word, of_translation), pair.n_links))
            ones.update(dict.fromkeys(of_word, pair.n_links))
            others.update(dict.fromkeys(of_translation, pair.n_links))
    return [WordPair(a, b, n / ones[a], n / others[b], n) for (a, b), n in joint.items()]


def best_pairs(pairs: Iterable[WordPair], choice: LexiconChoice) -> list[WordPair]:
    """The pairs that pass the limits, of each word the best; ordered by word, then from the best on."""
    passing = [
        pair
        for pair in pairs
        if pair.prob >= choice.min_prob
        and pair.back_prob >= choice.min_back_prob
        and (pair.n_links is None or pair.n_links >= choice.min_count)
        and all(_fits(word, choice.form) for word in pair[:2])
    ]
    passing.sort(key=lambda pair: (pair.word, -pair.prob, pair.translation))
    by_word = groupby(passing, attrgetter("word"))
    return [pair for _, group in by_word for pair in islice(group, choice.best)]


def _fits(word: bytes, form: str) -> bool:
    """Whether the readers of a form take a word as one: C++ and Python split at more blanks than Moses does."""
    if form == "bicleaner":
        return re.fullmatch(r"[-\w']+", as_text(word)) is not None
    return form == "tsv" or len(word.split()) == 1


def _most_linked(pairs: Iterable[WordPair], n_words: int) -> set[bytes]:
    counts = Counter[bytes]()
    for pair in pairs:
        counts[pair.translation] += pair.n_links or 0
    return {word for word, _ in counts.most_common(n_words)}


def _coverage(
    pairs: Iterable[WordPair], first: set[bytes], texts: Sequence[Path], splits: Sequence[Split]
) -> Coverage:
    by_word = groupby(pairs, attrgetter("word"))
    lists = {word: [pair.translation for pair in group] for word, group in by_word}
    found = Counter[str]()
    for lines in read_parallel(*texts):
        source, reference = (split(line) for split, line in zip(splits, lines, strict=True))
        shortlist = first.union(*(lists.get(word, ()) for word in source))
        n_covered = sum(word in shortlist for word in reference)
        found.update(sentences=1, words=len(reference), covered=n_covered, listed=len(shortlist))
    if not found["words"]:
        raise InputError(texts[1], None, "no words", "references")
    return Coverage(found["sentences"], found["words"], found["covered"], found["listed"])


def _lines(pairs: Sequence[WordPair], choice: LexiconChoice) -> Iterator[bytes]:
    if choice.form != "tsv":
        yield from (b"%b %b %.7f" % (pair.translation, pair.word, pair.prob) for pair in pairs)
        return
    yield b"word\ttranslation\tp(translation|word)\tp(word|translation)\tlinks"
    for word, translation, prob, back_prob, n_links in pairs:
        links = b"" if n_links is None else b"%d" % n_links
        yield b"%b\t%b\t%.7f\t%.7f\t%b" % (word, translation, prob, back_prob, links)
