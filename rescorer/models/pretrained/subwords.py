"""Text as subwords, by the tokenizer of a pretrained model.

It is that of Hugging Face, for models of CTranslate2 too: their converter copies its files
(`--copy_files`).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.formats.tokenization import detokenize
from moses_bridge.formats.words import as_text, without_escapes
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.choices import Side, TextCase
from rescorer.models.pretrained.settings import PretrainedSettings

# Languages for which the detokenizer has rules of their own, by the codes of NLLB.
TWO_LETTERS = {
    "ces": "cs",
    "eng": "en",
    "fin": "fi",
    "fra": "fr",
    "gle": "ga",
    "ita": "it",
    "jpn": "ja",
    "kor": "ko",
    "zho": "zh",
}
FIRST_LETTER = re.compile(r"[^\W\d_]")


class PlainText:
    """Makes running text from tokens.

    A language code is fr, fra, fra_Latn or fr_XX; "" is read as English.
    """

    def __init__(self, language: str, detokenize: bool, case: TextCase) -> None:
        code = language.split("_")[0] or "en"
        self._language = TWO_LETTERS.get(code, code)
        self._joins = detokenize
        self._case = case

    def of(self, tokens: bytes) -> str:
        """The text of a phrase or sentence; bytes outside UTF-8 become U+FFFD."""
        words = without_escapes(as_text(tokens)).split()
        text = detokenize(words, self._language) if self._joins else " ".join(words)
        if self._case == "lower":
            return text.lower()
        if self._case == "sentence":
            return FIRST_LETTER.sub(lambda letter: letter[0].upper(), text, count=1)
        return text


def too_long(row: int, batch: Batch, side: Side, found: str, limit: int) -> UnscorablePair:
    """The error for a pair with a side of more subwords than the model has positions."""
    expected = f"at most the {limit} that the model has positions for"
    return UnscorablePair(row, batch, side, found, expected, "Leave the pair out")


def load_refusal(
    directory: Path, error: Exception, what: str, expected: str, hint: str = ""
) -> InputError:
    """The error for a model or tokenizer that transformers fails to load."""
    if "trust_remote_code" in str(error):  # transformers asks for leave to run what auto_map names
        return _own_code(directory, what)
    told = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return InputError(directory, None, f"no {what} that loads ({told})", expected, hint)


def _own_code(directory: Path, what: str) -> InputError:
    fault = f"a {what} of a class of its own (auto_map), whose code is never run"
    return InputError(directory, None, fault, f"a {what} of a class in transformers")


Ids = list[int]
SHOWN_CODES = 8


class Subwords:
    """The ids of both sides' texts, by the tokenizer in a model's directory.

    Attributes:
        target_prefix: the unscored beginning of each target: a language code, or nothing.
        end: the id ending a target, </s>.
        end_name: its spelling by the tokenizer.

    Raises:
        InputError: there is no tokenizer, or it ends no sentence.
        ConfigError: a language code is missing, or the tokenizer does not know it.
    """

    def __init__(self, directory: Path, settings: PretrainedSettings) -> None:
        self._tokenizer = load_tokenizer(directory)
        self._lock = threading.Lock()  # it has a source mode and a target mode
        source, target = _set_languages(self._tokenizer, directory, settings)
        self._source_prefix = _marian_code(self._tokenizer, settings) + settings.source_prefix
        self._source_text = PlainText(source, settings.detokenize, settings.case)
        self._target_text = PlainText(target, settings.detokenize, settings.case)
        if self._tokenizer.eos_token_id is None:
            found = "a tokenizer without an end of sentence"
            hint = "Without it no log-probability of a whole sentence is known"
            raise InputError(directory, None, found, "one with an eos_token", hint)
        self.end = int(self._tokenizer.eos_token_id)
        self.end_name = str(self._tokenizer.eos_token)
        self.target_prefix = self._prefix(directory)

    def note(self, has_source: bool) -> str:
        """What a model's log-probabilities of these subwords are, for records."""
        given = " given the source" if has_source else ""
        return f"natural log p of the target's subwords and {self.end_name}{given}"

    @property
    def pad(self) -> Ids:
        """The id of <pad>, if there is one."""
        found = self._tokenizer.pad_token_id
        return [] if found is None else [int(found)]

    def sources(self, phrases: Sequence[bytes]) -> list[Ids]:
        """Ids of sources as the encoder reads them, special ones included."""
        texts = [self._source_prefix + self._source_text.of(phrase) for phrase in phrases]
        with self._lock:
            return self._ids(texts)

    def targets(self, phrases: Sequence[bytes]) -> list[Ids]:
        """Ids of targets, the end of sentence last, without `target_prefix`."""
        texts = [self._target_text.of(phrase) for phrase in phrases]
        return [ids[len(self.target_prefix) :] for ids in self._targets(texts)]

    def names(self, ids: Ids) -> list[str]:
        """The subwords of some ids."""
        return list(self._tokenizer.convert_ids_to_tokens(ids))

    def spelt(self, ids: Ids) -> list[bytes]:
        """The subwords of some ids, as bytes."""
        return [name.encode() for name in self.names(ids)]

    @property
    def begin(self) -> int:
        """A language model's first input: its begin of sentence, or else its end."""
        begin = self._tokenizer.bos_token_id
        return self.end if begin is None else int(begin)

    def _targets(self, texts: list[str]) -> list[Ids]:
        with self._lock:
            found = self._ids(texts, is_target=True)
        return [ids if ids[-1:] == [self.end] else [*ids, self.end] for ids in found]

    def _ids(self, texts: list[str], is_target: bool = False) -> list[Ids]:
        if not texts:
            return []
        sides = {"text_target": texts} if is_target else {"text": texts}
        # A target that spells <pad> or </s> has these letters; a source's prefix may be a special subword.
        read = self._tokenizer(**sides, split_special_tokens=is_target, verbose=False)
        found: list[Ids] = read["input_ids"]
        return found

    def _prefix(self, directory: Path) -> Ids:
        empty = self._targets([""])[0]
        if self.end in empty[:-1]:
            found = f"a tokenizer that ends targets with {' '.join(self.names(empty))}"
            raise InputError(directory, None, found, f"one that ends them with {self.end_name}")
        return empty[:-1]


def load_tokenizer(directory: Path) -> Any:
    """The tokenizer beside a model; an InputError if there is none, or none that loads."""
    from transformers import AutoTokenizer

    hint = "Save it there with its save_pretrained; for CTranslate2 convert with --copy_files"
    expected = "the tokenizer's files beside the model"
    files = [path for path in directory.glob("*") if path.name != "tokenizer_config.json"]
    json_names = ("tokenizer.json", "vocab.json")
    suffixes = (".spm", ".model", ".txt")
    if not any(path.suffix in suffixes or path.name in json_names for path in files):
        raise InputError(directory, None, "a model without tokenizer", expected, hint)
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            str(directory), local_files_only=True, trust_remote_code=False
        )
    except MemoryError:
        raise
    except Exception as error:  # each class of tokenizers has its own errors
        raise load_refusal(directory, error, "tokenizer", expected, hint) from error
    if "AutoTokenizer" in tokenizer.init_kwargs.get("auto_map", ()):
        raise _own_code(directory, "tokenizer")  # this is another class, put in its place
    return tokenizer


def _set_languages(
    tokenizer: Any, directory: Path, settings: PretrainedSettings
) -> tuple[str, str]:
    """Set a multilingual tokenizer's languages; return those of both sides, for the detokenizer."""
    source, target = settings.source_language, settings.target_language
    if not hasattr(tokenizer, "src_lang"):
        own = (getattr(tokenizer, side, None) or "" for side in ("source_lang", "target_lang"))
        own_source, own_target = own
        return source or own_source, target or own_target
    for option, code in (("--source-language", source), ("--target-language", target)):
        _check_code(tokenizer, directory, option, code)
    tokenizer.src_lang, tokenizer.tgt_lang = source, target
    return source, target


def _check_code(tokenizer: Any, directory: Path, option: str, code: str) -> None:
    tokens = getattr(tokenizer, "lang_code_to_token", None)
    known = list(tokens) if tokens else [*tokenizer.all_special_tokens]
    if code not in known:
        codes = [one for one in known if not one.startswith("<")]
        some = ", ".join(codes[:SHOWN_CODES]) + (", ..." if len(codes) > SHOWN_CODES else "")
        found = f"the language {code!r}" if code else "no language"
        raise ConfigError(
            f"{option}: found {found}, expected one that {directory} knows: {some or 'none'}"
        )


def _marian_code(tokenizer: Any, settings: PretrainedSettings) -> str:
    """The first input of a Marian model of several target languages, such as >>fra<<; or ""."""
    known = [code[2:-2] for code in getattr(tokenizer, "supported_language_codes", None) or []]
    if not known:
        return ""
    if settings.target_language not in known:
        raise ConfigError(
            f"--target-language: found {settings.target_language!r}, expected one of the model's: "
            f"{', '.join(sorted(known)[:SHOWN_CODES])}"
        )
    return f">>{settings.target_language}<< "
