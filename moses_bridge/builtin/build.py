"""From a parallel corpus to a model for Moses (train-model.perl, steps 1 to 9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from moses_bridge.base.choices import Aligner, Reordering, Smoothing
from moses_bridge.base.compiled.notice import CompilationNotice
from moses_bridge.base.config import AtLeast, AtMost, check_limits
from moses_bridge.base.errors import ConfigError, InputError, shown
from moses_bridge.base.lock import held_directory
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.programs import find_program, run_program
from moses_bridge.base.provenance import file_digest
from moses_bridge.base.textio import is_stream, named_errors, read_lines, write_lines
from moses_bridge.builtin.aligner import PAIRS_AT_ONCE, RECORD_NAME, align, link_text
from moses_bridge.builtin.extraction.aligned_corpus import read_aligned_corpus
from moses_bridge.builtin.extraction.lexical import lexical_table, pair_scorer, write_lexical_tables
from moses_bridge.builtin.extraction.occurrences import MAX_WORDS
from moses_bridge.builtin.extraction.pair_counts import collected_pairs, reordering_probs
from moses_bridge.builtin.extraction.table_output import write_table
from moses_bridge.builtin.language_model.arpa import MAX_ORDER
from moses_bridge.builtin.language_model.kneser_ney import (
    NGRAMS_AT_ONCE,
    estimate,
    pruning_thresholds,
)
from moses_bridge.builtin.language_model.ngram_counts import SPECIAL_WORDS, words_of_line
from moses_bridge.formats.moses_ini_edits import new_ini, write_ini
from moses_bridge.formats.phrase_table import in_brackets
from moses_bridge.formats.plain_text import copy_form
from moses_bridge.formats.words import split_words

LINKS_NAME = "aligned.grow-diag-final-and.gz"
LEXICAL_NAMES = ("lex.e2f", "lex.f2e")
TABLE_NAME = "phrase-table.gz"
REORDERING_NAME = "reordering-table.wbe-msd-bidirectional-fe.gz"
LANGUAGE_MODEL_NAME = "lm.arpa.gz"
INI_NAME = "moses.ini"
# The compiled parts.
EXTRACTION = "the extraction of phrases (10 s to a minute)"
ARPA_OUTPUT = "the output of language models (some seconds)"
ESCAPES = (
    "Moses and the language model give such words a meaning of their own. Escape them as the tokenizer of"
    " Moses does (&#124; for a bar, &#91; &#93; for brackets, &lt; &gt;), or remove them"
)


@dataclass(frozen=True)
class BuildConfig:
    """Settings of `build_model`.

    Attributes:
        aligner: the word aligner; docs/aligners.md compares them.
        pairs_at_once: how many sentence pairs are aligned together; a longer corpus is cut into equal
            parts with models of their own. The aligner needs about 90 bytes a word of both texts, twice
            that with two jobs or more.
        max_phrase_words: longest phrase on either side; where letters are the words, 10 are usual.
        smoothing: smoothing of the relative frequencies in the phrase table; Moses has "none" by default.
        reordering: "lexical" makes a reordering table; "none" makes none, and a moses.ini with which phrases
            keep their order.
        lm_order: longest n-gram of the language model.
        lm_prune: n-grams with at most so many occurrences are left out; one number for each order, the
            last one for all longer n-grams too.
        occurrences_at_once: how many occurrences of phrase pairs are sorted together, about 250
            bytes of memory each; the others are kept on the disk. The tables do not depend on it.
        ngrams_at_once: how many n-grams of the language model are counted together, about 90 bytes of
            memory each; the others are kept on the disk. The model does not depend on it.
    """

    aligner: Aligner = "eflomal"
    pairs_at_once: Annotated[int, AtLeast(1)] = PAIRS_AT_ONCE
    max_phrase_words: Annotated[int, AtLeast(1), AtMost(MAX_WORDS)] = 7
    smoothing: Smoothing = "good-turing"
    reordering: Reordering = "lexical"
    lm_order: Annotated[int, AtLeast(1), AtMost(MAX_ORDER)] = 5
    lm_prune: tuple[Annotated[int, AtLeast(0)], ...] = (0, 0, 1)
    occurrences_at_once: Annotated[int, AtLeast(1)] = 1 << 18
    ngrams_at_once: Annotated[int, AtLeast(1)] = NGRAMS_AT_ONCE

    def __post_init__(self) -> None:
        check_limits(self)
        pruning_thresholds(self.lm_order, self.lm_prune)


def build_model(
    corpus: Path,
    source: str,
    target: str,
    out: Path,
    config: BuildConfig,
    links: Path | None = None,
    jobs: int = 1,
    aligner: Path | None = None,
) -> None:
    """Write OUT/moses.ini and all files named in it, and copy corpus.json and models of case from the corpus.

    A file made of the same texts, links and settings, by their digests, is not made again. All words are
    checked before the work begins.

    Args:
        corpus: prefix of the texts: train for train.en and train.fr.
        source: suffix of the source text.
        target: suffix of the target text.
        out: directory of the model.
        config: settings.
        links: word links of the corpus, if already made.
        jobs: processes and threads.
        aligner: parameters of `train_aligner` to link the corpus with, instead of a new training.

    Raises:
        InputError: a text has a word with a meaning of its own, such as `|||`, `a|b`, `[X]` or, in the
            target, `<s>`; the texts or links do not fit together or give no phrase pair; or a path of
            the model contains a blank or "#", which Moses cuts.
        ToolError: `lmplz` failed.
        ConfigError: a text would be overwritten, or both links and an aligner are given.
        UserError: another command writes into the directory.
        OSError: the disk is full.
    """
    if links and aligner:
        raise ConfigError("--links has the links that --aligner would make: give one of them")
    texts = [Path(f"{corpus}.{language}") for language in (source, target)]
    language_model = out / LANGUAGE_MODEL_NAME
    tables = [out / name for name in (*LEXICAL_NAMES, TABLE_NAME)]
    reordering_table = None
    if config.reordering != "none":
        reordering_table = (out / REORDERING_NAME).absolute()
        tables.append(out / REORDERING_NAME)
    table = (out / TABLE_NAME).absolute()
    ini = new_ini(table, reordering_table, language_model.absolute(), config.lm_order)
    given = texts if links is None else [*texts, links]
    refuse_overwriting([*tables, language_model, out / INI_NAME], given)
    for path in given:
        if is_stream(path):
            found = "standard input, a pipe, a device or a directory"
            raise InputError(path, None, found, "a file, which is read several times")
    for path, special in zip(texts, ((), SPECIAL_WORDS), strict=True):
        _check_words(path, special)
    with held_directory(out):
        _build(texts, tables, language_model, config, links, jobs, aligner)
        copy_form(corpus.parent, out, (source, target))
        write_ini(ini, out / INI_NAME)


def _check_words(text: Path, special: Sequence[bytes]) -> None:
    """Refuse labels, factors, bars and the `special` words, all lines at once."""
    first, n_faulty = None, 0
    for line_number, line in enumerate(read_lines(text), start=1):
        if b"|" not in line and b"[" not in line and b"<" not in line:
            continue
        faulty = [word for word in split_words(line) if b"|" in word or in_brackets(word)]
        faulty += [word for word in words_of_line(line) if word in special]
        if faulty:
            n_faulty += 1
            first = first or (line_number, shown(faulty[0]))
    if first:
        others = f" (and such words in {n_faulty - 1:,} more lines)" if n_faulty > 1 else ""
        raise InputError(text, first[0], f"the word {first[1]}{others}", "plain words", ESCAPES)


def _build(
    texts: Sequence[Path],
    tables: Sequence[Path],
    language_model: Path,
    config: BuildConfig,
    links: Path | None,
    jobs: int,
    aligner: Path | None,
) -> None:
    """Make the files that are missing or were made of something else."""
    source, target = map(file_digest, texts)
    if links is None:
        links = language_model.with_name(LINKS_NAME)
        one, other = texts
        made_of = [config.aligner, config.pairs_at_once, source, target]
        link: Callable[[], object]
        link = partial(align, one, other, links, config.aligner, jobs, config.pairs_at_once)
        if aligner:
            made_of = [file_digest(aligner / RECORD_NAME), source, target]
            link = partial(link_text, one, other, aligner, links)
        _make([links], made_of, link)
    inputs = [*texts, links]
    table_settings = [config.max_phrase_words, config.smoothing, source, target, file_digest(links)]
    _make(tables, table_settings, lambda: _write_tables(inputs, tables, config, jobs))
    _make(
        [language_model],
        [config.lm_order, *config.lm_prune, target],
        lambda: _estimate(texts[1], language_model, config),
    )


def _make(products: Sequence[Path], made_of: Sequence[object], make: Callable[[], object]) -> None:
    """Make the products unless all exist and were made of this: settings and digests of the inputs."""
    note = products[0].with_name(f".{products[0].name}.settings")
    text = " ".join(map(str, made_of)).encode()
    complete = all(path.exists() for path in products)
    if complete and note.exists() and next(read_lines(note), b"") == text:
        return
    note.unlink(missing_ok=True)
    make()
    write_lines(note, [text])


def _write_tables(
    inputs: Sequence[Path], tables: Sequence[Path], config: BuildConfig, jobs: int
) -> None:
    e2f, f2e, phrase_table, *reordering_tables = tables
    source, target, links = inputs
    with named_errors(phrase_table):
        corpus = read_aligned_corpus(source, target, links, phrase_table.parent)
    lexical = lexical_table(corpus)
    write_lexical_tables(corpus, lexical, e2f, f2e)
    n_words, at_once = config.max_phrase_words, config.occurrences_at_once
    with (
        CompilationNotice(EXTRACTION),
        collected_pairs(corpus, n_words, at_once, phrase_table) as pairs,
    ):
        if not pairs.n_rows:
            raise InputError(inputs[0], None, "no phrase pair", "sentences with linked words")
        scorer = pair_scorer(corpus, pairs, lexical, config.smoothing, phrase_table.parent)
        write_table(phrase_table, corpus, pairs, scorer.scores, jobs, has_counts=True)
        for table in reordering_tables:
            write_table(table, corpus, pairs, reordering_probs, jobs, has_counts=False)


def _estimate(text: Path, out: Path, config: BuildConfig) -> None:
    """Estimate the language model with `lmplz` if installed, else with the built-in estimator."""
    program = find_program("lmplz")
    if program is None:
        with CompilationNotice(ARPA_OUTPUT):
            estimate(text, out, config.lm_order, config.lm_prune, config.ngrams_at_once)
        return
    plain = out.with_suffix("")
    prune = [str(count) for count in config.lm_prune]
    command = [str(program), "-o", str(config.lm_order), "--prune", *prune]
    run_program([*command, "--discount_fallback", "--text", str(text), "--arpa", str(plain)])
    write_lines(out, read_lines(plain))
    plain.unlink()
