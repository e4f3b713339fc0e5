"""The interface of decoders, with the settings of the search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Protocol

from moses_bridge.base.choices import DecoderKind
from moses_bridge.base.config import AtLeast, check_limits
from moses_bridge.base.errors import ConfigError, shown
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.programs import find_program
from moses_bridge.formats.moses_ini import MosesIni
from moses_bridge.formats.ngram_scorer import NeuralLm, as_texts

N_SHOWN = 5  # most frequent unknown words
DEFAULT_STACK_SIZE, DEFAULT_POP_LIMIT = 200, 400
Weights = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class DecoderConfig:
    """Settings of the search.

    Attributes:
        stack_size: number of hypotheses kept for each number of translated words. The default is the stack in
            moses.ini, or 200 if it has none.
        pop_limit: number of hypotheses made for each number of translated words. The default is the
            cube-pruning-pop-limit in moses.ini, or 400 if it has none.
        distortion_limit: longest jump in source words, -1 for any. The default is the limit in
            moses.ini, or any jump if it has none.
        table_limit: number of translations used for a source phrase, 0 for all. The default is the limit in
            moses.ini, or 20 if it has none. Tables in a PhraseDictionaryGroup keep their limits.
        nbest_factor: an n-best list is sought among so many times its size paths; 0 means 1000.
        segmentation: whether n-best lines show which source phrase became which target phrase.
        alignment: whether n-best lines show the word links (column 4 of the phrase table).
        neural_lm: neural models as features of the built-in decoder, each NAME=COMMAND, like
            "CSLM0=rescorer serve cslm"; `moses_bridge.formats.ngram_scorer` says what a command must do. A
            single one needs no brackets.
        kind: "moses", "builtin", or "auto": Moses if there is a program `moses` on the PATH and no
            neural model.
    """

    stack_size: Annotated[int, AtLeast(1)] | None = None
    pop_limit: Annotated[int, AtLeast(1)] | None = None
    distortion_limit: Annotated[int, AtLeast(-1)] | None = None
    table_limit: Annotated[int, AtLeast(0)] | None = None
    nbest_factor: Annotated[int, AtLeast(0)] = 20
    segmentation: bool = False
    alignment: bool = False
    neural_lm: tuple[str, ...] | str = ()
    kind: DecoderKind = "auto"

    def __post_init__(self) -> None:
        check_limits(self)
        object.__setattr__(self, "neural_lm", as_texts(self.neural_lm))

    @property
    def neural_lms(self) -> tuple[NeuralLm, ...]:
        """The neural models.

        Raises:
            ConfigError: one is malformed, or two have one name.
        """
        lms = tuple(map(NeuralLm.parse, as_texts(self.neural_lm)))
        for name, n_times in Counter(lm.name for lm in lms).items():
            if n_times > 1:
                raise ConfigError(f"{n_times} neural models have the name {name}; use other names")
        return lms

    @property
    def chosen_kind(self) -> Literal["moses", "builtin"]:
        """The decoder chosen by "auto" on this machine; a run keeps it, since no two decoders search alike."""
        if self.kind != "auto":
            return self.kind
        return "builtin" if self.neural_lm or find_program("moses") is None else "moses"


@dataclass(frozen=True)
class UnknownWords:
    """The words of a text of n_words words without a translation of their own, which a decoder copies."""

    source: Path
    ini: Path
    n_words: int
    counts: Counter[bytes]  # how often each unknown word occurs
    n_known_in_lower_case: int = 0  # occurrences of unknown words that are known in lower case

    def note(self) -> str:
        """Their share and the most frequent ones, in one line; empty for a text without words."""
        if not self.n_words:
            return ""
        n_unknown = self.counts.total()
        text = (
            f"{self.source}: {100 * n_unknown / self.n_words:.1f}% of the words ({n_unknown:,} of "
            f"{self.n_words:,}) are unknown to the tables of {self.ini}"
        )
        if n_unknown:
            most = self.counts.most_common(N_SHOWN)
            text += f"; most often {', '.join(f'{shown(word)} ({n:,})' for word, n in most)}"
        if self.n_known_in_lower_case:
            text += f"; {self.n_known_in_lower_case:,} of them known in lower case"
        return text


class Decoder(AbstractContextManager["Decoder", None], Protocol):
    """Translates files with one model and any weights, and says how many words were unknown."""

    def decode(
        self, source: Path, out: Path, weights: Weights | None, nbest: Path | None, nbest_size: int
    ) -> None:
        """Translate a file.

        Args:
            source: tokenized sentences, one a line.
            out: one translation for each line, empty for an empty line.
            weights: by feature name, instead of the ini's.
            nbest: the n-best list to write, in Moses's format; the translations have different words.
            nbest_size: translations of each sentence in the list.

        Raises:
            ConfigError: a weight has no feature, a feature has another number of scores, or an output is the
                source, a file of the model or the other output.
            InputError: the file cannot be read.
        """
        ...


def refuse_model_files(ini: MosesIni, source: Path, outputs: Sequence[Path | None]) -> None:
    """Refuse outputs that are the text, the ini, a file named in it, or each other, with a ConfigError."""
    written = [path for path in outputs if path is not None]
    refuse_overwriting(written, [source, *ini.files()])


def check_nbest_size(nbest_size: int) -> None:
    """Refuse lists without entries: ConfigError if nbest_size is below 1."""
    if nbest_size < 1:
        raise ConfigError(f"nbest_size is {nbest_size}; the smallest value is 1")
