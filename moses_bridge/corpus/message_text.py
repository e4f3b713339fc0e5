"""The words of a program's message: without directives of formats, accelerators and markup."""

from __future__ import annotations

import html
import re

from moses_bridge.corpus.text_pair import tidy

# What stands for a value that the program fills in; the tokenizer leaves it whole.
FILLED_IN = "X"
# printf in C, with the widths of gettext's manual ("C Format Strings"); Python's names; Qt's and KDE's numbers;
# braces of Python, C# and Rust; variables of the shell.
DIRECTIVE = re.compile(
    r"%(?:\(\w+\)|\d+\$)?[-+#0']*(?:\*(?:\d+\$)?|\d+)?(?:\.(?:\*(?:\d+\$)?|\d+))?"
    r"(?:hh|h|ll|l|L|q|j|z|t|I64)?[diouxXeEfFgGaAcCsSpnm]"
    r"|%<PRI\w+>|%L?\d{1,2}\b|\{[\w.]*(?::[^{}\s]*)?\}|\$\{\w+\}|\$\(\w+\)"
)
TAG_NAMES = (
    "a|application|b|bcode|big|blockquote|body|br|center|code|command|div|email|em|emphasis|envar|filename|font|"
    "h[1-6]|head|hr|html|i|icode|img|interface|item|kbd|li|link|list|message|nl|note|numid|ol|p|para|"
    "placeholder|pre|qt|resource|s|shortcut|small|span|strong|style|sub|subtitle|sup|table|td|th|title|tr|tt|u|ul|"
    "var|warning"
)
TAG = re.compile(rf"</?(?:{TAG_NAMES})(?:\s[^<>]*)?/?>", re.IGNORECASE)
ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|nbsp|#\d+);")
# East Asian programs write the accelerator behind the words: "(_F)", "(&F)".
ACCELERATOR_BEHIND = re.compile(r"\s?[(\uff08][_&]\w[)\uff09]")
ACCELERATOR = re.compile(r"(?<![_&])[_&](?=[^\W_])")
WORD = re.compile(r"[\w&.:/-]+")
PARAGRAPHS = re.compile(r"\n[ \t]*\n")
# Messages that are no text but ask translators for their names.
NO_MESSAGES = frozenset(
    {"translator-credits", "translator_credits", "translators", "Your names", "Your emails"}
)


def message_pairs(left: str, right: str) -> list[tuple[str, str]]:
    """The plain texts of a message in two languages, paragraph by paragraph where both have as many.

    Each directive becomes the word "X", and an accelerator ("_File", "R&un") loses its mark. An underscore or
    ampersand in a word found on both sides is part of a name, as in "R&D".
    """
    paragraphs = PARAGRAPHS.split(left.strip()), PARAGRAPHS.split(right.strip())
    if len(paragraphs[0]) != len(paragraphs[1]):
        paragraphs = [left], [right]
    return [_plain_pair(one, other) for one, other in zip(*paragraphs, strict=True)]


def without_context(message: str, translation: str) -> tuple[str, str]:
    """A message and its translation without the hints to translators that are written into some messages.

    They are "_: hint" on a first line (KDE) and "hint|message" (GLib). Behind "|/|", translations of KDE have a
    script.
    """
    translation = translation.partition("|/|")[0]
    if message.startswith("_:"):
        message = message.partition("\n")[2]
    hint, bar, words = message.rpartition("|")
    if bar and "|" not in translation and words.strip() and " " not in hint.rpartition("|")[2]:
        message = words
    return message, translation


def _plain_pair(left: str, right: str) -> tuple[str, str]:
    left, right = _without_markup(left), _without_markup(right)
    names = set(WORD.findall(left)) & set(WORD.findall(right))
    return tidy(_without_accelerators(left, names)), tidy(_without_accelerators(right, names))


def _without_markup(text: str) -> str:
    if TAG.search(text) or ENTITY.search(text):
        text = html.unescape(TAG.sub(" ", text))
    return DIRECTIVE.sub(FILLED_IN, text.replace("%%", "\ue000")).replace("\ue000", "%")


def _without_accelerators(text: str, names: set[str]) -> str:
    text = ACCELERATOR_BEHIND.sub("", text)
    if len(ACCELERATOR.findall(text)) != 1:  # a menu's entry has one; two are names
        return text
    return WORD.sub(
        lambda match: match[0] if match[0] in names else ACCELERATOR.sub("", match[0]), text
    )
