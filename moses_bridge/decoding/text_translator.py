"""Plain text translated by a system: what `moses-bridge build`, `tuning tune` or `tuning run improve` left."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from moses_bridge.base.compiled.notice import CompilationNotice
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.json_files import open_record_of, read_json
from moses_bridge.base.text_lines import decoded_line, say
from moses_bridge.base.textio import StrPath, open_write, read_line_blocks
from moses_bridge.decoding.builtin_decoder import SEARCH, BuiltinDecoder
from moses_bridge.decoding.interface import DecoderConfig, UnknownWords
from moses_bridge.decoding.translate_config import TranslateConfig
from moses_bridge.formats.alignment import format_links, parse_links
from moses_bridge.formats.moses_ini import read_ini
from moses_bridge.formats.nbest import parse_entry, without_escaped_bars
from moses_bridge.formats.ngram_scorer import is_own_command
from moses_bridge.formats.plain_text import WHOLE, Line, PlainText, read_form, read_glossary
from moses_bridge.formats.tokenization import UNSPACED_LANGUAGES, split_sentences
from moses_bridge.formats.weights import weights_over_ini
from moses_bridge.formats.words import as_text, without_escapes


@dataclass(frozen=True)
class TextTranslation:
    """A translation of a sentence.

    Attributes:
        text: plain text.
        total: weighted sum of its features; natural logarithms.
        words: source words and target words, as they were decoded.
        links: source word, target word.
    """

    text: str
    total: float
    words: tuple[Sequence[str], Sequence[str]]
    links: Sequence[tuple[int, int]]


Translations = list[list[TextTranslation]]  # of each sentence of a line, the best first


class TextTranslator(AbstractContextManager["TextTranslator", None]):
    """A loaded system, which translates plain text with the built-in decoder.

    Args:
        system: folder with moses.ini, and weights.json if it was tuned.
        config: settings.

    Attributes:
        unknown_words: of all that was translated, without what is copied whole.

    Raises:
        InputError: a file of the system or the glossary is missing or malformed.
        ConfigError: the system reranks lists, runs a command without permission, or has something that the
            built-in decoder does not support.
    """

    def __init__(self, system: Path, config: TranslateConfig) -> None:
        ini, tuned = config.ini or system / "moses.ini", system / "weights.json"
        folders = [system, *(file.parent for file in read_ini(ini).files())]
        form, folder = read_form([config.corpus.parent] if config.corpus else folders, ini)
        glossary = read_glossary(config.glossary) if config.glossary else {}
        self.plain = PlainText(form, folder, config.tags, glossary)
        self._sentences = config.sentences
        is_tuned = tuned.exists()
        decoder = _tuned_decoder(tuned, config.run_commands) if is_tuned else DecoderConfig()
        self._weights = weights_over_ini(tuned, ini) if is_tuned else None
        decoder = replace(decoder, kind="builtin", alignment=True, segmentation=False)
        self._decoder = BuiltinDecoder(ini, decoder, config.jobs)
        self._notice = CompilationNotice(SEARCH)
        self.unknown_words = UnknownWords(Path("the text"), ini, 0, Counter())

    def __exit__(self, *_: object) -> None:
        """End the processes of neural models."""
        self._decoder.__exit__()

    def translate(self, texts: Sequence[str]) -> list[str]:
        """The best translation of each line; an empty one for an empty line. ConfigError of one text alone."""
        if isinstance(texts, str):
            raise ConfigError(f"texts: found the one text {texts[:40]!r}, expected a list of lines")
        return [self.joined(found) for found in self.lists(texts)]

    def joined(self, found: Translations) -> str:
        """The best translation of a line."""
        is_unspaced = self.plain.form.target.partition("_")[0] in UNSPACED_LANGUAGES
        return ("" if is_unspaced else " ").join(entries[0].text for entries in found)

    def lists(self, texts: Sequence[str], size: int = 1) -> list[Translations]:
        """For each line and each of its sentences, up to `size` translations."""
        language = self.plain.form.source
        split = [split_sentences(text, language) if self._sentences else [text] for text in texts]
        lines = [[*map(self.plain.line, sentences)] for sentences in split]
        flat = [line for sentences in lines for line in sentences if line.words]
        encoded = [" ".join(line.words).encode() for line in flat]
        with self._notice:
            decoded = [*self._decoder.translations(encoded, self._weights, size)]
        self._count(flat)
        lists = iter(decoded)
        return [
            [self._translations(line, next(lists)[1] if line.words else ()) for line in sentences]
            for sentences in lines
        ]

    def _translations(self, line: Line, entries: Sequence[bytes]) -> list[TextTranslation]:
        found = []
        for number, entry in enumerate(entries, start=1):
            parsed = parse_entry(entry, "the list", number)
            words = as_text(without_escaped_bars(parsed.words)).split()
            links = parse_links(parsed.rest[-1])
            text = self.plain.text(line, words, links)
            found.append(TextTranslation(text, parsed.total, (line.words, words), links))
        # A line without words may have tags.
        return found or [TextTranslation(self.plain.text(line, (), ()), 0.0, ((), ()), ())]

    def _count(self, lines: Sequence[Line]) -> None:
        """Count unknown words, without placeholders, addresses and terms: they are meant to be copied."""
        words = [
            [w for w in line.words if not WHOLE.fullmatch(without_escapes(w))] for line in lines
        ]
        old, texts = self.unknown_words, [" ".join(each).encode() for each in words]
        new = self._decoder.unknown_words(texts, old.source)
        n_words, counts = old.n_words + new.n_words, old.counts + new.counts
        n_lower = old.n_known_in_lower_case + new.n_known_in_lower_case
        self.unknown_words = UnknownWords(old.source, old.ini, n_words, counts, n_lower)


def _tuned_decoder(path: Path, run_commands: bool) -> DecoderConfig:
    """The settings of the decoder in a weights.json, whose neural models may be started.

    What it says against the weights is printed.
    """
    tuned = read_json(path)
    found = tuned.get("decoder") if isinstance(tuned, dict) else None
    decoder = open_record_of(DecoderConfig, found, path, "the weights.json of a tuning run")
    if caution := tuned.get("caution"):
        say(f"warning: {path}: {caution}")
    if tuned.get("nbest_features") or tuned.get("fixed_search"):
        raise ConfigError(
            f"{path}: this system reranks n-best lists: `tuning decode` does so with tokenised text, "
            "`moses-bridge translate` needs all scores in the search"
        )
    for model in decoder.neural_lms:
        command = shlex.join(model.command)
        if not (run_commands or is_own_command(command)):
            raise ConfigError(
                f"{path}: the feature {model.name} comes from the command {command!r}. "
                "Check the command, then allow it with --run-commands"
            )
    return decoder


def translate_files(
    translator: TextTranslator, texts: Sequence[StrPath], out: StrPath,
    nbest: StrPath | None = None, nbest_size: int = 1,
) -> None:  # fmt: skip
    """Translate files, one after the other, line by line; what a pipe has is translated at once.

    Args:
        translator: the system.
        texts: the files.
        out: translations, one a line.
        nbest: `nbest_size` translations of each sentence at most: line and sentence, from 1, total, text,
            source words, target words and their links, separated by tabs.
        nbest_size: see `nbest`.

    Raises:
        InputError: a file cannot be read, or a line is not UTF-8.
    """
    number = 0
    with ExitStack() as stack:
        written = stack.enter_context(open_write(out))
        rows = stack.enter_context(open_write(nbest)) if nbest else None
        for path in texts:
            first = 1
            for block in read_line_blocks(path):
                lines = [decoded_line(line, path, first + i) for i, line in enumerate(block)]
                first += len(lines)
                for found in translator.lists(lines, nbest_size if rows else 1):
                    number += 1
                    written.write(f"{translator.joined(found)}\n".encode())
                    if rows:
                        rows.writelines(_rows(number, found))
                written.flush()


def _rows(number: int, found: Translations) -> Iterator[bytes]:
    for sentence, entries in enumerate(found, start=1):
        for each in entries:
            words = map(" ".join, each.words)
            links = format_links(each.links).decode()
            row = (str(number), str(sentence), f"{each.total:g}", each.text, *words, links)
            yield "\t".join(row).encode() + b"\n"
