"""Translation with a moses.ini: by Moses where it is installed, otherwise by the decoder of this package."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from moses_bridge.base.errors import ConfigError, ToolError
from moses_bridge.base.programs import find_program, run_program
from moses_bridge.base.text_lines import read_text_lines, say
from moses_bridge.base.textio import read_lines, temporary_directory, write_lines
from moses_bridge.decoding.interface import (
    DEFAULT_POP_LIMIT,
    DEFAULT_STACK_SIZE,
    Decoder,
    DecoderConfig,
    UnknownWords,
    Weights,
    check_nbest_size,
    refuse_model_files,
)
from moses_bridge.formats.moses_ini import (
    OF_TABLES,
    Feature,
    MosesIni,
    member_names,
    read_ini,
    sparse_beginnings,
)
from moses_bridge.formats.moses_ini_edits import format_weight, with_absolute_paths, write_ini
from moses_bridge.formats.words import split_words


def open_decoder(ini: Path, config: DecoderConfig, jobs: int) -> Decoder:
    """Load a model once, for any number of calls of `decode`, which translate `jobs` sentences at a time.

    Raises:
        ConfigError: jobs is below 1, Moses is asked for but not installed, or the ini has something
            unsupported by the decoder of this package.
        InputError: a file of the model is missing or malformed.
    """
    if jobs < 1:
        raise ConfigError(f"jobs is {jobs}; the smallest value is 1")
    if config.chosen_kind == "builtin":
        # Imported here: reading settings needs no compiled code.
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


class MosesDecoder(AbstractContextManager["MosesDecoder", None]):
    """The program `moses`, started for each call with `jobs` threads.

    Moses resolves relative paths from its working directory alone, so it gets an ini with absolute ones.
    """

    def __init__(self, program: Path, ini: MosesIni, config: DecoderConfig, jobs: int) -> None:
        self._program, self._config, self._jobs = program, config, jobs
        self._ini, self._ini_path = ini, ini.path
        self._written = ExitStack()
        absolute = with_absolute_paths(ini)
        if absolute.lines != ini.lines:
            folder = self._written.enter_context(temporary_directory("moses"))
            self._ini_path = folder / "moses.ini"
            write_ini(absolute, self._ini_path)

    def __exit__(self, *_: object) -> None:
        self._written.close()

    def decode(
        self, source: Path, out: Path, weights: Weights | None, nbest: Path | None, nbest_size: int
    ) -> None:
        """See `Decoder`."""
        refuse_model_files(self._ini, source, (out, nbest))
        with temporary_directory("moses") as folder:
            text, found, unknown = (folder / name for name in ("input", "nbest", "unknown"))
            lines = list(read_text_lines(source))
            write_lines(text, lines)
            command = [*self.command(text, weights), "-output-unknowns", str(unknown)]
            if nbest is not None:
                command += self.nbest_arguments(found, nbest_size)
            translations = run_program(command).split(b"\n")[:-1]
            if len(translations) != len(lines):
                found_lines = f"{len(translations)} lines for {len(lines)} sentences"
                raise ToolError(command, 0, found_lines)
            write_lines(out, [translation.rstrip(b" ") for translation in translations])
            if nbest is not None:
                write_lines(nbest, read_lines(found))
            if unknown.exists():  # a script in the place of Moses may write none
                n_words = sum(len(split_words(line)) for line in lines)
                counts = Counter(word for line in read_lines(unknown) for word in split_words(line))
                say(UnknownWords(source, self._ini.path, n_words, counts).note())

    def command(self, source: Path, weights: Weights | None) -> list[str]:
        """The command for translating a file, without n-best list.

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
            for name, values in weights.items():
                if len(values) != (expected := _n_weights(ini, name)):
                    raise ConfigError(f"{len(values)} weights of {name}; {ini.path} has {expected}")
            texts = [
                f"{name}= {b' '.join(map(format_weight, row)).decode()}"
                for name, row in weights.items()
            ]
            command += ["-weight-overwrite", " ".join(texts)]
        return command

    def nbest_arguments(self, path: Path, nbest_size: int) -> list[str]:
        """The options for writing an n-best list."""
        check_nbest_size(nbest_size)
        arguments = ["-n-best-list", str(path), str(nbest_size), "distinct"]
        arguments += ["-n-best-factor", str(self._config.nbest_factor)]
        if self._config.segmentation:
            arguments.append("-include-segmentation-in-n-best")
        if self._config.alignment:
            arguments.append("-print-alignment-info-in-n-best")
        return arguments


def _tables(ini: MosesIni) -> list[Feature]:
    """The phrase tables and groups whose limits may change; those of tables in a group change its scores."""
    groups = [each for each in ini.features if each.kind in OF_TABLES]
    in_groups = {name for group in groups for name in member_names(group)}
    tables = [*ini.of_kind("PhraseDictionaryMemory"), *groups]
    return [table for table in tables if table.name not in in_groups]


def _unless_in_ini(ini: MosesIni, section: str, default: int) -> int | None:
    return default if section not in ini.settings else None


def _n_weights(ini: MosesIni, name: str) -> int:
    """The number of a feature's weights: those of the ini, else 1 for each value, 1 for a sparse value."""
    if name in ini.weights:
        return len(ini.weights[name])
    is_sparse = name.startswith(sparse_beginnings(ini.features))
    found = [feature.n_scores for feature in ini.features if feature.name == name]
    return sum(found) if found or not is_sparse else 1
