"""Plain text as words for a decoder, made as a corpus was, and its translation as plain text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from sacremoses import MosesTruecaser

from moses_bridge.base.choices import Case, Tags
from moses_bridge.base.errors import InputError, shown
from moses_bridge.base.json_files import open_record_of, read_json
from moses_bridge.base.text_lines import read_text_lines
from moses_bridge.base.textio import StrPath, read_lines, temporary_directory, write_lines
from moses_bridge.formats import inline_tags as tagged
from moses_bridge.formats.tokenization import MOSES, NEVER_CUT, detokenize, tokenize_lines
from moses_bridge.formats.words import as_text, without_escapes

FORM_NAME, CASING = "corpus.json", "truecase"
ENDS_SENTENCE = frozenset(".?!")
OUTER = frozenset(".,:;!?%()[]{}\"'“”„‘’«»…")  # set by the detokenizer at the ends of words
# A term of the glossary, which is copied; such words of a text have numbers after those of the glossary.
TERM, HIDDEN = "__term{}__", re.compile(r"__term(0|[1-9][0-9]{,8})__")
# Characters that tokenizers leave out, and a byte order mark.
INVISIBLE = re.compile("[\x00-\x08\x0e-\x1b\x7f\ufeff]")
# Between words, which may be reordered.
WRITTEN_BLANK = re.compile("&(?:nbsp|#160|#xa0);", re.IGNORECASE)
WHOLE = re.compile(NEVER_CUT)


@dataclass(frozen=True)
class TextForm:
    """Languages of a corpus, case and tokenizers of its words; corpus.json has more beside."""

    source: str
    target: str
    case: Case = "lower"
    tokenizers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """A line as words for a decoder, tokenised, escaped and cased.

    Attributes:
        words: the words.
        plain: the text without its tags.
        spans: where each word is in it.
        tags: the tags.
    """

    words: Sequence[str]
    plain: str
    spans: Sequence[tagged.Span]
    tags: Sequence[tagged.InlineTag]


@dataclass(frozen=True)
class PlainText:
    """Lines of plain text to words and back.

    Attributes:
        form: how the corpus was made.
        folder: where its models of case are; without them, words keep the case of the decoder.
        tags: "keep" puts XML tags around the translation of their words, "drop" leaves them out.
        glossary: translations by terms in lower case.
    """

    form: TextForm
    folder: Path
    tags: Tags = "keep"
    glossary: Mapping[str, str] = field(default_factory=dict)

    def line(self, text: str) -> Line:
        """The words of a line."""
        text = INVISIBLE.sub("", unicodedata.normalize("NFC", WRITTEN_BLANK.sub("\u00a0", text)))
        if self.glossary:
            text = self._terms.sub(self._hidden, text)
        plain = tagged.without_tags(text)
        source, case = self.form.source, self.form.case
        tokenizer = self.form.tokenizers.get(source, MOSES)
        tokens = tokenize_lines([plain], source, tokenizer, keeps_patterns=True)[0]
        spans = tagged.word_spans([*map(without_escapes, tokens.split())], plain)
        model = read_casing(self.folder, source) if case == "true" else None
        tags = tagged.inline_tags(text, spans) if self.tags == "keep" else ()
        return Line(in_case(tokens, case, model).split(), plain, spans, tags)

    @cached_property
    def _terms(self) -> re.Pattern[str]:
        """A tag, or a term of the glossary, the longest first."""
        terms = sorted(map(re.escape, self.glossary), key=len, reverse=True)
        return re.compile(
            rf"<[^<>]*>|{HIDDEN.pattern}|(?<!\w)(?:{'|'.join(terms)})(?!\w)", re.IGNORECASE
        )

    def _hidden(self, found: re.Match[str]) -> str:
        if found[1]:
            return TERM.format(int(found[1]) + len(self.glossary))
        place = {term: number for number, term in enumerate(self.glossary)}.get(found[0].lower())
        return found[0] if place is None else TERM.format(place)

    def text(self, line: Line, words: Sequence[str], links: Collection[tuple[int, int]]) -> str:
        """The text of a translation.

        A word that was copied is written as in the source, also joined to its neighbours as there.

        Args:
            line: the line.
            words: the words of its translation, from the decoder.
            links: source word, target word.
        """
        pairs = [(s, t) for s, t in links if t < len(words)]
        copied = {t: s for s, t in pairs if line.words[s] == words[t]}
        cased = self._recased(line, words, copied)
        runs = ["".join(cased[i] for i in run) for run in _runs(cased, copied, line.spans)]
        is_plain = self.form.tokenizers.get(self.form.target) == "none"
        text = " ".join(runs) if is_plain else detokenize(runs, self.form.target)
        text = tagged.with_tags(text, tagged.word_spans(cased, text), line.tags, pairs)
        return HIDDEN.sub(self._revealed, text) if self.glossary else text

    def _revealed(self, found: re.Match[str]) -> str:
        number, translations = int(found[1]), [*self.glossary.values()]
        n = len(translations)
        return translations[number] if number < n else TERM.format(number - n)

    def _recased(self, line: Line, words: Sequence[str], copied: Mapping[int, int]) -> list[str]:
        """Target words without escapes, with the capitals of names and of beginnings."""
        is_lower = self.form.case == "lower"
        model = read_casing(self.folder, self.form.target) if is_lower else None
        best = {} if model is None else model.model["best"]
        cased, begins = [], next(filter(str.isalpha, line.plain), "").isupper()
        for number, word in enumerate(words):
            text, source = without_escapes(best.get(word, word)), copied.get(number, -1)
            if source > 0 or (source == 0 and word not in best):
                text = line.plain[slice(*line.spans[source])]
            if begins and any(map(str.isalnum, text)):
                is_kept = source > 0 or WHOLE.match(text)
                text, begins = text if is_kept else text[:1].upper() + text[1:], False
            begins = begins or text in ENDS_SENTENCE
            cased.append(text)
        return cased


def _runs(
    cased: Sequence[str], copied: Mapping[int, int], spans: Sequence[tagged.Span]
) -> Iterator[list[int]]:
    """The places of words, those together that are copied and joined in the source, such as a/b.

    Marks at the ends of such words are left to the detokenizer.
    """
    runs: list[list[int]] = []
    for i in range(len(cased)):
        source, before = copied.get(i, -1), copied.get(i - 1, -1)
        if 0 <= before == source - 1 and spans[before][1] == spans[source][0]:
            runs[-1].append(i)
        else:
            runs.append([i])
    for run in runs:
        words = [k for k, i in enumerate(run) if cased[i] not in OUTER] or [0]
        yield from ([i] for i in run[: words[0]])
        yield run[words[0] : words[-1] + 1]
        yield from ([i] for i in run[words[-1] + 1 :])


def read_form(folders: Sequence[Path], ini: Path) -> tuple[TextForm, Path]:
    """How the corpus of a system was made, and the folder that says so: the first with a corpus.json.

    Raises:
        InputError: the file is malformed, or no folder has one.
    """
    for folder in folders:
        if (path := folder / FORM_NAME).is_file():
            return open_record_of(TextForm, read_json(path), path, "a record of a corpus"), folder
    hint = "Name the training text with --corpus, or write one: "
    hint += '{"source": "en", "target": "fr", "case": "lower"}'
    expected = "one beside the model, with languages and case of its words"
    raise InputError(ini, None, f"no {FORM_NAME}", expected, hint)


def copy_form(corpus: Path, model: Path, languages: Sequence[str]) -> None:
    """Copy what says how a corpus was made, if it is there, beside the model."""
    for path in (corpus / FORM_NAME, *(casing_path(corpus, each) for each in languages)):
        if path.is_file() and corpus.resolve() != model.resolve():
            write_lines(model / path.name, read_lines(path))


def casing_path(folder: Path, language: str) -> Path:
    """The model of case of a language, in the format of Moses's train-truecaser.perl."""
    return folder / f"{CASING}.{language}"


@cache
def read_casing(folder: Path, language: str) -> MosesTruecaser | None:
    """Read a model of case; None if there is none.

    Raises:
        InputError: it is malformed.
    """
    path = casing_path(folder, language)
    try:
        return MosesTruecaser(load_from=str(path)) if path.exists() else None
    except ValueError as error:
        raise InputError(
            path, None, str(error), "a model of Moses's train-truecaser.perl"
        ) from error


def learn_casing(lines: Iterable[str], path: Path) -> MosesTruecaser:
    """Write a model of case, of tokenised lines: how often each word inside a sentence has which capitals."""
    model = MosesTruecaser()
    with temporary_directory("casing") as folder:
        model.train((line.split() for line in lines), save_to=str(folder / CASING))
        write_lines(path, read_lines(folder / CASING))
    return model


def in_case(words: str, case: Case, model: MosesTruecaser | None) -> str:
    """A sentence in lower case, or for "true" without the capital that is due to its beginning alone."""
    if case == "true" and model is not None:
        # Without use_known sacremoses would also change words inside it that the model knows in this case.
        words = model.truecase(words, return_str=True, use_known=True)
    return words.lower() if case == "lower" else words


def read_glossary(path: StrPath) -> dict[str, str]:
    """Read a glossary: a term and its translation on each line, separated by a tab.

    Raises:
        InputError: a line has no such two texts, or another translation of a term.
    """
    glossary: dict[str, str] = {}
    for number, line in enumerate(read_text_lines(path), start=1):
        text = unicodedata.normalize("NFC", as_text(line))  # as texts are
        term, _, translation = (each.strip() for each in text.partition("\t"))
        if not term or not translation or "\t" in translation:
            raise InputError(path, number, shown(line), "a term, a tab, and its translation")
        if (first := glossary.setdefault(term.lower(), translation)) != translation:
            raise InputError(path, number, shown(line), f"{first!r} again, or no line of {term!r}")
    return glossary
