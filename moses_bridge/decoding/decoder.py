"""Translation under a moses.ini: by Moses where it is installed, else by the built-in decoder."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated, Literal, Protocol, Self

from moses_bridge.base.choices import DecoderKind
from moses_bridge.base.config import AtLeast, check_limits
from moses_bridge.base.errors import ConfigError, ToolError
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.programs import find_program, run_program
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.formats.moses_ini import (
    OF_TABLES,
    Feature,
    MosesIni,
    member_names,
    read_ini,
    sparse_beginnings,
)
from moses_bridge.formats.moses_ini_edits import format_weight, with_absolute_paths, write_ini
from moses_bridge.formats.ngram_scorer import NeuralLm, as_texts

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
        neural_lm: neural models as features of the built-in search, each NAME=COMMAND, like
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
        """What "auto" means on this machine. It belongs to a run, since no two decoders search alike."""
        if self.kind != "auto":
            return self.kind
        return "builtin" if self.neural_lm or find_program("moses") is None else "moses"


class Decoder(Protocol):
    """Translates files under one model and any weights."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def decode(
        self,
        source: Path,
        out: Path,
        weights: Weights | None,
        nbest: Path | None,
        nbest_size: int,
    ) -> None:
        """Translate a file.

        Args:
            source: tokenized sentences, one a line.
            out: one translation for each line, empty for an empty line.
            weights: by feature name, instead of the ini's.
            nbest: where the n-best list goes: Moses's format, translations with different words.
            nbest_size: translations of each sentence in the list.

        Raises:
            ConfigError: a weight has no feature, a feature has another number of scores, or an output is the
                source, a file of the model or the other output.
            InputError: the file cannot be read.
        """
        ...


def refuse_model_files(ini: MosesIni, source: Path, outputs: Sequence[Path | None]) -> None:
    """Refuse outputs that are the text to translate, the ini or a file that it names.

    Raises:
        ConfigError: an output is one of them, or two outputs are one file.
    """
    written = [path for path in outputs if path is not None]
    refuse_overwriting(written, [source, *ini.files()])


def open_decoder(ini: Path, config: DecoderConfig, jobs: int) -> Decoder:
    """Load a model once, for any number of calls of `decode`.

    Args:
        ini: the moses.ini.
        config: settings of the search.
        jobs: sentences translated at the same time.

    Raises:
        ConfigError: jobs is below 1, Moses is asked for but not installed, or the built-in decoder does
            not know what the ini asks for.
        InputError: a file of the model is missing or malformed.
    """
    if jobs < 1:
        raise ConfigError(f"jobs is {jobs}; the smallest value is 1")
    if config.chosen_kind == "builtin":
        # Loaded here alone: who only names settings needs no compiled code.
        from moses_bridge.decoding.builtin_decoder import BuiltinDecoder

        return BuiltinDecoder(ini, config, jobs)
    if config.neural_lm:
        raise ConfigError("Moses takes no --neural-lm; choose the built-in decoder")
    program = find_program("moses")
    if program is None:
        raise ConfigError(
            "the decoder `moses` is not on the PATH. Install it, or choose the built-in decoder"
        )
    return MosesDecoder(program, read_ini(ini), config, jobs)


class MosesDecoder:
    """The program `moses`, started for each call.

    Moses looks for relative paths from its working directory alone. So it gets an ini with absolute ones if
    there are any.

    Args:
        program: its path.
        ini: the model.
        config: settings of the search.
        jobs: threads.
    """

    def __init__(self, program: Path, ini: MosesIni, config: DecoderConfig, jobs: int) -> None:
        self._program = program
        self._ini = ini
        self._config = config
        self._jobs = jobs
        self._ini_path = ini.path
        self._written = ExitStack()
        absolute = with_absolute_paths(ini)
        if absolute.lines != ini.lines:
            folder = self._written.enter_context(tempfile.TemporaryDirectory())
            self._ini_path = Path(folder, "moses.ini")
            write_ini(absolute, self._ini_path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the ini written for Moses."""
        self._written.close()

    def decode(
        self,
        source: Path,
        out: Path,
        weights: Weights | None,
        nbest: Path | None,
        nbest_size: int,
    ) -> None:
        """See `Decoder`."""
        refuse_model_files(self._ini, source, (out, nbest))
        with tempfile.TemporaryDirectory() as folder:
            text, found = Path(folder, "input"), Path(folder, "nbest")
            lines = list(read_lines(source))
            write_lines(text, lines)
            command = self.command(text, weights)
            if nbest is not None:
                command += self.nbest_arguments(found, nbest_size)
            translations = run_program(command).split(b"\n")[:-1]
            if len(translations) != len(lines):
                found_lines = f"{len(translations)} lines for {len(lines)} sentences"
                raise ToolError(command, 0, found_lines)
            write_lines(out, [translation.rstrip(b" ") for translation in translations])
            if nbest is not None:
                write_lines(nbest, read_lines(found))

    def command(self, source: Path, weights: Weights | None) -> list[str]:
        """The command that translates a file, without n-best list.

        Raises:
            ConfigError: a feature is not in the ini, or has another number of values.
        """
        config, ini = self._config, self._ini
        arguments = {
            "-f": self._ini_path,
            "-i": source,
            "-threads": self._jobs,
            "-search-algorithm": 1,
            "-cube-pruning-pop-limit": config.pop_limit
            or _unless_in_ini(ini, "cube-pruning-pop-limit", DEFAULT_POP_LIMIT),
            "-stack": config.stack_size or _unless_in_ini(ini, "stack", DEFAULT_STACK_SIZE),
            "-distortion-limit": config.distortion_limit,
        }
        command = [str(self._program)]
        for name, value in arguments.items():
            command += [] if value is None else [name, str(value)]
        if config.table_limit is not None:
            limits = [f"{each.name} table-limit={config.table_limit}" for each in _tables(ini)]
            command += ["-feature-overwrite", " ".join(limits)] if limits else []
        if weights:
            _check_overwrite(ini, weights)
            command += ["-weight-overwrite", _overwrite_text(weights)]
        return command

    def nbest_arguments(self, path: Path, nbest_size: int) -> list[str]:
        """The options that make Moses write an n-best list."""
        check_nbest_size(nbest_size)
        arguments = ["-n-best-list", str(path), str(nbest_size), "distinct"]
        arguments += ["-n-best-factor", str(self._config.nbest_factor)]
        if self._config.segmentation:
            arguments.append("-include-segmentation-in-n-best")
        if self._config.alignment:
            arguments.append("-print-alignment-info-in-n-best")
        return arguments


def _tables(ini: MosesIni) -> list[Feature]:
    """The phrase tables and groups of tables; those in a group keep their limits, which change its scores."""
    groups = [each for each in ini.features if each.kind in OF_TABLES]
    in_groups = {name for group in groups for name in member_names(group)}
    tables = [*ini.of_kind("PhraseDictionaryMemory"), *groups]
    return [table for table in tables if table.name not in in_groups]


def _unless_in_ini(ini: MosesIni, section: str, default: int) -> int | None:
    return default if section not in ini.settings else None


def check_nbest_size(nbest_size: int) -> None:
    """Refuse lists without entries.

    Raises:
        ConfigError: nbest_size is below 1.
    """
    if nbest_size < 1:
        raise ConfigError(f"nbest_size is {nbest_size}; the smallest value is 1")


def _check_overwrite(ini: MosesIni, weights: Weights) -> None:
    for name, values in weights.items():
        expected = _n_weights(ini, name)
        if len(values) != expected:
            raise ConfigError(f"{len(values)} weights of {name}; {ini.path} has {expected}")


def _n_weights(ini: MosesIni, name: str) -> int:
    """Weights of a feature, of which Moses takes 1 for each value without a line; or 1, of a sparse value."""
    if name in ini.weights:
        return len(ini.weights[name])
    is_sparse = name.startswith(sparse_beginnings(ini.features))
    found = [feature.n_scores for feature in ini.features if feature.name == name]
    return sum(found) if found or not is_sparse else 1


def _overwrite_text(weights: Weights) -> str:
    return " ".join(
        " ".join([f"{name}=", *(format_weight(value).decode() for value in values)])
        for name, values in weights.items()
    )
