"""Words and sentences of a text by Moses's rules (sacremoses), and the text of words again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import lru_cache

from sacremoses import MosesDetokenizer, MosesTokenizer
from sacremoses.corpus import NonbreakingPrefixes

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.programs import run_program
from moses_bridge.base.textio import temporary_directory, write_lines

LAST_WORD_WITH_STOP = re.compile(r"^(.*[^.])\.$")
MOSES, TOKENIZERS = "moses", ("moses", "characters", "none")
UNSPACED_LANGUAGES = frozenset({"ja", "zh", "yue"})
WITHOUT_BLANKS = UNSPACED_LANGUAGES | {"km", "lo", "my", "th"}
UNSPACED = "\u2e80-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003134f"
UNSPACED_WORD = re.compile(
    "([\u30a0-\u30ff]+|[\u3005\u3040-\u309f\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f])"
)
BLANK_OF_UNSPACED = re.compile(f"(?<=[{UNSPACED}]) | (?=[{UNSPACED}])")
# Whole in a text to translate: addresses, formats of printf and Python, entities, numbers with marks, paths.
NEVER_CUT = "|".join(
    (
        r"(?:https?|ftp|file)://[^\s<>\"]*[\w/#&=%-]|\w[\w.+-]*@[\w-]+(?:\.[\w-]+)+",
        r"%(?:\d+\$|\(\w+\))?[-#0+']*[\d*]*(?:\.[\d*]+)?(?:hh|ll|[hlLqjzt])?[a-zA-Z%]",
        r"__term\d+__|\$?\{[^{}\s]*\}|&(?:\w+|#\d+);|\d+(?:[.,:/-]\d+)+|(?<![\w.</])~?/[\w.+/-]*[\w/]",
    )
)
MOST_NEVER_CUT = 1000  # in a line: sacremoses refuses more
QUOTES = re.compile('["“”„]')
APOSTROPHE = re.compile(r"(?<=\w) ’(?: (?=\w)|(?=(?:s|d|m|t|re|ve|ll)\b))")
SINGLE_QUOTES = re.compile(r"(?<=‘) | (?=’)")


def tokenizer_of(language: str, tokenizers: Sequence[str]) -> str:
    """The tokenizer of a language among LANGUAGE=TOKENIZER; "moses" if it has none.

    Raises:
        ConfigError: one is malformed, or none is named for a language that marks no words by blanks.
    """
    named = dict(each.partition("=")[::2] for each in tokenizers)
    if not all(named.values()):
        raise ConfigError(f"tokenizers: found {list(tokenizers)}, expected LANGUAGE=TOKENIZER each")
    code = language.partition("_")[0]
    if code in WITHOUT_BLANKS and not {language, code} & named.keys():
        raise ConfigError(
            f"found no tokenizer of {language}, which parts no words by blanks; name one in the settings: "
            f'tokenizers = ["{code}=TOKENIZER"], a command that prints a line of words for each line, or '
            '"characters" for Chinese and Japanese, or "none" for a text that has blanks'
        )
    return named.get(language) or named.get(code, MOSES)


def tokenize_lines(
    lines: Sequence[str], language: str, tokenizer: str = MOSES, keeps_patterns: bool = False
) -> list[str]:
    """Tokenise and escape lines with a tokenizer by name, or a command; see `tokenize`.

    Raises:
        ToolError: the command failed.
        ConfigError: it printed another number of lines.
    """
    if tokenizer in TOKENIZERS:
        return [tokenize(line, language, tokenizer, keeps_patterns) for line in lines]
    with temporary_directory("tokens") as folder:
        write_lines(folder / "text", [line.encode() for line in lines])
        found = run_program(shlex.split(tokenizer), folder / "text").decode().splitlines()
    if len(found) != len(lines):
        printed = f"{len(found):,} lines for {len(lines):,}"
        raise ConfigError(f"the tokenizer {tokenizer!r} printed {printed}, expected one for each")
    return [tokenize(line, language, "none") for line in found]


def tokenize(text: str, language: str, tokenizer: str = MOSES, keeps_patterns: bool = False) -> str:
    """Tokenise and escape (``&apos;``, ``&#124;`` …) one line as Moses's scripts do; case stays.

    Args:
        text: one line.
        language: language code, as "en" or "pt_BR"; the part after "_" is ignored.
        tokenizer: "moses"; "characters" to make each Chinese or Japanese letter a word, and each run of
            katakana; or "none" for words that are there.
        keeps_patterns: whether addresses, placeholders and numbers are never cut.

    Returns:
        Words joined by single spaces.
    """
    code = language.partition("_")[0]
    if tokenizer == "none":
        return " ".join(_tokenizer(code).escape_xml(text).split())
    if tokenizer == "characters":
        code, text = "en", UNSPACED_WORD.sub(r" \1 ", text)
    is_kept = keeps_patterns and len(re.findall(NEVER_CUT, text)) <= MOST_NEVER_CUT
    kept = [NEVER_CUT] if is_kept else None
    tokens = _tokenizer(code).tokenize(text, escape=True, protected_patterns=kept)
    words = " ".join(tokens).split()
    # tokenizer.perl separates a line's last full stop even from an abbreviation; sacremoses does not.
    if words and (last := LAST_WORD_WITH_STOP.match(words[-1])):
        words[-1:] = [last[1], "."]
    return " ".join(words)


@lru_cache(maxsize=8)
def _tokenizer(code: str) -> MosesTokenizer:
    return MosesTokenizer(lang=code)


def detokenize(words: Sequence[str], language: str) -> str:
    """The text of words without escapes.

    sacremoses leaves blanks around ” and ’: curly quotes are set as straight ones are, and an apostrophe
    joins its neighbours unless ‘ opens a quotation.
    """
    code, joined = language.partition("_")[0], " ".join(words)
    straight = QUOTES.sub('"', joined).split()
    text: str = _detokenizer(code).detokenize(straight, unescape=False)
    quotes = iter(QUOTES.findall(joined))
    text = re.sub('"', lambda _: next(quotes), text)
    text = SINGLE_QUOTES.sub("", text) if "‘" in text else APOSTROPHE.sub("’", text)
    return BLANK_OF_UNSPACED.sub("", text) if code in UNSPACED_LANGUAGES else text


@lru_cache(maxsize=8)
def _detokenizer(code: str) -> MosesDetokenizer:
    return MosesDetokenizer(lang=code)


CLOSING = "\"'”’»)\\]"
OPENING = "\"'“‘«„([¿¡"
BOUNDARY = re.compile(rf"[.!?…।؟][.!?…]*[{CLOSING}]*(?: [»”])?\s+|[。！？][」』）]*\s*")
ACRONYM = re.compile(r"(?:^|\.)[^\W\d](?:\.[^\W\d])*$")
NUMERIC_ONLY = "#NUMERIC_ONLY#"
ALWAYS_NONBREAKING = frozenset({"e.g", "i.e", "eg", "ie", "cf", "vs", "p.ex", "z.B", "d.h"})


def split_sentences(text: str, language: str) -> list[str]:
    """Split a paragraph on one line into sentences, as Moses's split-sentences.perl does.

    A full stop ends a sentence unless an abbreviation of the language (Moses's non-breaking prefixes) or an
    acronym precedes it or a small letter follows it. Joined by a space (by nothing in scripts without
    spaces), the sentences give the text again.

    Args:
        text: the paragraph.
        language: language code, as "en" or "pt_BR".
    """
    sentences = []
    start = 0
    for match in BOUNDARY.finditer(text):
        if _ends_sentence(text, match, language):
            sentences.append(text[start : match.end()].strip())
            start = match.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


def _ends_sentence(text: str, match: re.Match[str], language: str) -> bool:
    if match.group()[0] in "。！？":
        return True
    follower = text[match.end() :].lstrip(OPENING + " ")[:1]
    if not follower.isalnum() or follower.islower():
        return False
    if match.group().rstrip() != ".":
        return True
    word = text[: match.start()].rpartition(" ")[2].lstrip(OPENING)
    return not _is_abbreviation(word, follower, language)


def _is_abbreviation(word: str, follower: str, language: str) -> bool:
    always, before_number = _prefixes(language.partition("_")[0])
    if word in always or ACRONYM.search(word):
        return True
    return word in before_number and follower.isdigit()


@lru_cache(maxsize=8)
def _prefixes(language: str) -> tuple[frozenset[str], frozenset[str]]:
    always, before_number = set(ALWAYS_NONBREAKING), set()
    for line in NonbreakingPrefixes().words(language):
        if line.endswith(NUMERIC_ONLY):
            before_number.add(line.removesuffix(NUMERIC_ONLY).strip())
        else:
            always.add(line)
    return frozenset(always), frozenset(before_number)
