"""Inputs are only read, and two commands never write into one place: each command refuses it with one line.

The commands and their parameters are those that click knows, so one that is new is tested or noticed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import click
import pytest
import torch
from click.testing import CliRunner, Result

from moses_bridge.base.command import CommandGroup
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.lock import held_directory, held_file
from moses_bridge.base.options import OutputPath
from moses_bridge.base.overwriting import protected, refuse_overwriting
from moses_bridge.base.textio import open_write
from moses_bridge.cli import main as moses_bridge
from rescorer.cli import main as rescorer
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import save_model
from rescorer.scorers.encdec import EncDecConfig, EncoderDecoder
from tuning.cli import main as tuning

GROUPS: dict[str, CommandGroup] = {
    "moses-bridge": moses_bridge,
    "rescorer": rescorer,
    "tuning": tuning,
}
# Values of parameters that are text; "source" and "target" are codes of languages where they are no paths.
TEXTS = {
    "source_language": "en",
    "target_language": "fr",
    "feature": "NN0",
    "system": "+RNN",
    "command": "true",
    "how": "fill-up",
}
INI = b"""\
[feature]
WordPenalty
PhraseDictionaryMemory name=TM0 num-features=2 path=table
KENLM name=LM0 order=1 path=lm.arpa
[weight]
WordPenalty0= -1
TM0= 0.2 0.2
LM0= 0.5
"""


# What these write has a fixed name, beside what they read, or is standard output alone.
NOT_WRITING = {
    "moses-bridge check": "prints",
    "moses-bridge steps": "prints",
    "rescorer serve": "answers",
    "rescorer perplexity": "prints",
    "tuning evaluate": "prints",
    "tuning optimize": "prints",
    "tuning worth": "prints",
    "tuning letters predict": "prints",
    "tuning letters evaluate": "prints",
    "rescorer warm": "writes into the caches of compiled code",
}
# Parameters that are text, and no path of something that is written.
NO_OUTPUTS = {
    *(
        "source_language",
        "target_language",
        "by",
        "corpus_weights",
        "command",
        "name",
        "arch",
        "commands",
        "factories",
        "columns",
        "shard",
        "address",
        "source_prefix",
        "metric",
        "metric_command",
        "mbr_command",
    ),
    *(
        "feature",
        "column",
        "per_word_feature",
        "words",
        "phrases",
        "models",
        "draw",
        "systems",
        "control",
        "system",
        "comparisons",
    ),
    *("experiment", "goals", "languages", "train", "dev", "test"),
    *("grid", "against", "neural_lms", "nbest_features", "left_out", "title", "changes"),
}
# Directories that are written: a file in each, and the input that must not be it; None where the names of files
# hang on what is computed, so that they are refused when they are written.
IN_DIRECTORIES: dict[str, tuple[str, str] | None] = {
    "moses-bridge corpus --out": ("source", "train.raw.en"),
    "moses-bridge build --out": ("links", "lm.arpa.gz"),
    "moses-bridge align --out": None,  # a directory with files is refused
    "moses-bridge folds --out": ("groups", "folds"),
    "moses-bridge filter --out": ("sources", "moses.ini"),
    "moses-bridge config --out": ("experiments", "train.toml"),
    "rescorer train --out": ("data", "config.json"),
    "rescorer train --cache": None,  # a directory with anything else in it is refused
    "rescorer expected-bleu --out": ("source", "model.safetensors"),
    "rescorer neighbors --cache": None,
    "rescorer map --out": ("table", "words.json"),
    "rescorer align --pictures": None,
    "tuning run --out": None,  # one that is neither new nor its own is refused
    "tuning run improve --out": None,
    "tuning letters train --out": None,  # likewise
    "tuning tune --out": ("ini", "moses.ini"),
    "tuning rerank --out": ("source", "weights.json"),
    "tuning compare --out": ("source", "table.txt"),
    "tuning gains --out": ("comparisons", "gains.json"),
    "tuning pool --out": ("comparisons", "pool.json"),
    "tuning scan --out": ("source", "scan.svg"),
}
MORE = {
    "moses-bridge corpus --out": ["--target", "FOLDER/moses.ini"],
    "rescorer map --out": ["--kind", "words"],
    "tuning rerank --out": ["FOLDER/model", "--reference", "FOLDER/moses.ini"],
    "tuning scan --out": ["--column", "LM0"],
}


def commands() -> Iterator[tuple[str, click.Command]]:
    """All commands of the three packages: "rescorer score", and what click knows of it."""
    for program, group in GROUPS.items():
        for name, command in group.all_commands().items():
            yield f"{program} {name}", command


def outputs(command: click.Command) -> list[click.Parameter]:
    """The parameters that name what is written."""
    return [each for each in command.params if isinstance(each.type, OutputPath)]


def inputs(command: click.Command) -> list[click.Parameter]:
    """The parameters that name what is read."""
    return [
        each
        for each in command.params
        if isinstance(each.type, click.Tuple)
        or (isinstance(each.type, click.Path) and not isinstance(each.type, OutputPath))
    ]


def make_files(folder: Path) -> None:
    """What command lines name: a model, an ini with its files, and a file for each other input."""
    torch.manual_seed(0)
    words = Vocabulary([b"a", b"b"])
    network = EncoderDecoder(EncDecConfig(8, 4, 4), len(words), len(words))
    save_model(folder / "model", "encdec", network, network.config, Shortlists(words, words), {})
    (folder / "moses.ini").write_bytes(INI)
    (folder / "table").write_bytes(b"a ||| b ||| 0.5 0.5\n")
    (folder / "lm.arpa").write_bytes(b"\\data\\\n")


def arguments(command: click.Command, folder: Path, given: Mapping[str, object]) -> list[str]:
    """A command line with some parameters and all that are required; what they name is made in the folder."""
    options, positional = list[str](), list[str]()
    for parameter in command.params:
        name = parameter.name or ""
        if name not in given and not (parameter.required or name in ("ini", "ini_out")):
            continue
        values = _values(parameter, folder, given)
        if isinstance(parameter, click.Argument):
            positional += values
        else:
            options += [parameter.opts[-1], *values]
    return [*options, *positional]


def _values(parameter: click.Parameter, folder: Path, given: Mapping[str, object]) -> list[str]:
    name = parameter.name or ""
    if isinstance(parameter.type, click.Tuple):
        return [
            _value(kind, f"{name}{place}", folder, given)
            for place, kind in enumerate(parameter.type.types)
        ]
    return [_value(parameter.type, name, folder, given)]


def _value(
    kind: click.types.ParamType, name: str, folder: Path, given: Mapping[str, object]
) -> str:
    if name in given:
        return str(given[name])
    if isinstance(kind, OutputPath):
        return str(folder / f"new-{name}")
    if not isinstance(kind, click.Path):
        return TEXTS.get(name, f"X={folder / 'model'}")
    if name == "ini":
        return str(folder / "moses.ini")
    if not kind.file_okay:
        return str(folder / "model")
    path = folder / f"read-{name}"
    if not path.exists():
        path.write_bytes(f"{name}\n".encode())
    return str(path)


COMMANDS = dict(commands())
WRITING = {name: command for name, command in COMMANDS.items() if outputs(command)}


def is_directory(parameter: click.Parameter) -> bool:
    assert isinstance(parameter.type, click.Path)
    return not parameter.type.file_okay


def input_files(command: click.Command) -> list[str]:
    """The names of inputs that may be files; those of a pair are two."""
    names = list[str]()
    for parameter in inputs(command):
        if isinstance(parameter.type, click.Tuple):
            names += [f"{parameter.name}{place}" for place in (0, 1)]
        elif not is_directory(parameter):
            names.append(parameter.name or "")
    return names


PAIRS = [
    pytest.param(name, output, read, id=f"{name}: {output.opts[-1]} is {read}")
    for name, command in WRITING.items()
    for output in outputs(command)
    for read in input_files(command)
    if not is_directory(output)
]
TWINS = [
    pytest.param(name, first, second, id=f"{name}: {first.opts[-1]} is {second.opts[-1]}")
    for name, command in WRITING.items()
    for place, first in enumerate(outputs(command))
    for second in outputs(command)[place + 1 :]
]


def run(name: str, command_line: list[str]) -> Result:
    program, _, verb = name.partition(" ")
    return CliRunner().invoke(GROUPS[program], [verb, *command_line], prog_name=program)


def assert_refused(result: Result) -> None:
    assert result.exit_code == 1, result.output
    assert "named twice" in result.stderr, result.stderr
    assert result.stderr.count("\n") == 1 and result.stdout == ""


def content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_all_commands_are_counted() -> None:
    assert set(COMMANDS) == {*WRITING, *NOT_WRITING}
    assert len(COMMANDS) == 51 and len(PAIRS) == 99


@pytest.mark.parametrize("name", COMMANDS)
def test_every_parameter_is_known(name: str) -> None:
    """A path that is written has the type that says so."""
    for parameter in COMMANDS[name].params:
        if isinstance(parameter.type, type(click.STRING)):
            assert parameter.name in NO_OUTPUTS, (
                f"{parameter.name}: give it a type, or a place in NO_OUTPUTS"
            )


def test_all_directories_are_counted() -> None:
    written = {
        f"{name} {output.opts[-1]}"
        for name, command in WRITING.items()
        for output in outputs(command)
        if is_directory(output)
    }
    assert written == set(IN_DIRECTORIES)


@pytest.mark.parametrize(("name", "output", "read"), PAIRS)
def test_an_output_that_is_an_input(
    name: str, output: click.Parameter, read: str, tmp_path: Path
) -> None:
    make_files(tmp_path)
    command = WRITING[name]
    place = tmp_path / ("moses.ini" if read == "ini" else f"read-{read}")
    if read != "ini":
        place.write_bytes(b"input\n")
    given = {output.name or "": place, read: place}
    if read[-1] in "01":
        given[read[:-1]] = place
    before = content(tmp_path)
    assert_refused(run(name, arguments(command, tmp_path, given)))
    assert {path: data for path, data in content(tmp_path).items() if path in before} == before


@pytest.mark.parametrize(("name", "first", "second"), TWINS)
def test_two_outputs_that_are_one(
    name: str, first: click.Parameter, second: click.Parameter, tmp_path: Path
) -> None:
    make_files(tmp_path)
    given = {first.name or "": tmp_path / "new", second.name or "": tmp_path / "new"}
    assert_refused(run(name, arguments(WRITING[name], tmp_path, given)))
    assert not (tmp_path / "new").exists()


def test_a_directory_that_is_an_input(tmp_path: Path) -> None:
    make_files(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "model")
    before = content(tmp_path)
    command_line = [
        str(tmp_path / "model"),
        str(tmp_path / "table"),
        "--out",
        str(tmp_path / "link"),
    ]
    assert_refused(run("rescorer map", command_line))
    assert content(tmp_path) == before


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_links_are_resolved(link: Callable[[Path, Path], None], tmp_path: Path) -> None:
    make_files(tmp_path)
    (tmp_path / "text").write_bytes(b"a\n")
    link(tmp_path / "text", tmp_path / "out")
    given = {"source": tmp_path / "text", "out": tmp_path / "out"}
    command_line = arguments(WRITING["moses-bridge decode"], tmp_path, given)
    assert_refused(run("moses-bridge decode", command_line))
    assert (tmp_path / "text").read_bytes() == b"a\n"


@pytest.mark.parametrize("name", [name for name, files in IN_DIRECTORIES.items() if files])
def test_a_directory_in_which_an_input_has_the_name_of_an_output(name: str, tmp_path: Path) -> None:
    make_files(tmp_path)
    found = IN_DIRECTORIES[name]
    assert found is not None
    read, file_name = found
    out, verb = tmp_path / "out", name.rpartition(" ")[0]
    out.mkdir()
    place = out / file_name
    place.write_bytes(
        (tmp_path / "moses.ini").read_bytes() if read == "ini" else b"[train]\nx = 1\n"
    )
    if read == "ini":
        for model_file in ("table", "lm.arpa"):
            (out / model_file).write_bytes(b"")
    given: dict[str, object] = {read: f"X={place}" if read == "comparisons" else place, "out": out}
    if verb == "tuning scan":
        given["system"] = tmp_path / "moses.ini"
    more = [text.replace("FOLDER", str(tmp_path)) for text in MORE.get(name, [])]
    before = content(out)
    assert_refused(run(verb, [*arguments(WRITING[verb], tmp_path, given), *more]))
    assert content(out) == before


OF_THE_MODEL = [
    ("moses-bridge decode", "out"),
    ("moses-bridge decode", "nbest"),
    ("moses-bridge score-nbest", "out"),
    ("moses-bridge prune", "out"),
    ("moses-bridge prune", "ini_out"),
    ("rescorer score", "out"),
    ("rescorer score", "ini_out"),
    ("rescorer merge", "out"),
    ("rescorer merge", "ini_out"),
]


@pytest.mark.parametrize("file_name", ["table", "lm.arpa", "moses.ini"])
@pytest.mark.parametrize(("name", "output"), OF_THE_MODEL)
def test_files_that_an_ini_names(name: str, output: str, file_name: str, tmp_path: Path) -> None:
    make_files(tmp_path)
    before = content(tmp_path)
    given: dict[str, object] = {output: tmp_path / file_name}
    if name == "rescorer score":
        given["control"] = "length"
    assert_refused(run(name, arguments(WRITING[name], tmp_path, given)))
    assert {path: data for path, data in content(tmp_path).items() if path in before} == before


def test_the_files_beside_a_table(tmp_path: Path) -> None:
    """The record of the table out is out.json."""
    (tmp_path / "out.json").write_bytes(b"a ||| b ||| 0.5\n")
    command_line = [
        str(tmp_path / "out.json"),
        "--control",
        "length",
        "--out",
        str(tmp_path / "out"),
    ]
    assert_refused(run("rescorer score", command_line))
    assert not (tmp_path / "out").exists()


def test_what_the_command_layer_cannot_know_is_refused_when_it_is_written(tmp_path: Path) -> None:
    """Files that a command makes up names for, in a directory."""
    path = tmp_path / "0001.png"
    path.write_bytes(b"input")
    with protected([path]):
        with protected([path]):
            pass
        with pytest.raises(ConfigError, match="named twice"), open_write(path) as stream:
            stream.write(b"output")
        with open_write(tmp_path / "other") as stream:
            stream.write(b"output")
    assert path.read_bytes() == b"input"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["0001.png", "other"]
    with open_write(path) as stream:
        stream.write(b"output")
    assert path.read_bytes() == b"output"


def test_streams_and_devices_may_be_named_often(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refuse_overwriting(
        ["-", "-", "/dev/null", tmp_path / "pipe"], ["-", "/dev/null", tmp_path / "pipe"]
    )


def test_outputs_that_are_not_there_are_compared_by_their_place(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match=r"b is named twice \(it is .*/link/b too\)"):
        refuse_overwriting([tmp_path / "link" / "b", tmp_path / "b"], [])


# What holds its place while it works, in Python too; the others are commands that write single files.
HELD: dict[str, Callable[[Path], AbstractContextManager[None]]] = {
    "moses-bridge corpus": held_directory,
    "moses-bridge build": held_directory,
    "moses-bridge align": held_file,
    "moses-bridge folds": held_directory,
    "moses-bridge filter": held_directory,
    "moses-bridge config": held_directory,
    "rescorer train": held_directory,
    "rescorer expected-bleu": held_directory,
    "rescorer score": held_file,
    "rescorer lines": held_file,
    "rescorer merge": held_file,
    "rescorer map": held_directory,
    "tuning letters train": held_file,
    "tuning tune": held_directory,
    "tuning rerank": held_directory,
    "tuning scan": held_directory,
}
# Held after what these files cannot show: the lock is tested in test_systems.py, test_gains.py,
# test_neighbors.py and test_run.py.
HELD_LATER = {
    *("tuning compare", "tuning gains", "tuning pool", "rescorer neighbors"),
    *("tuning run", "tuning run improve"),
}
SINGLE_FILES = {
    *(
        "moses-bridge select",
        "moses-bridge prune",
        "moses-bridge lexicon",
        "moses-bridge combine",
        "moses-bridge mix-models",
        "moses-bridge join-folds",
        "moses-bridge translate",
        "moses-bridge decode",
        "moses-bridge score-nbest",
    ),
    *("rescorer nbest", "rescorer preferences", "rescorer generate"),
    *("rescorer decode", "rescorer align"),
    *("tuning plot", "tuning report", "tuning plan", "tuning decode"),
}
APPENDING = {"moses-bridge step"}  # several at once may add lines to one log


def test_all_commands_that_hold_their_place_are_counted() -> None:
    assert set(WRITING) == {*HELD, *HELD_LATER, *SINGLE_FILES, *APPENDING}


@pytest.mark.parametrize("name", sorted(SINGLE_FILES))
def test_a_second_writer_of_a_file_is_refused_before_the_work(name: str, tmp_path: Path) -> None:
    make_files(tmp_path)
    files = [each for each in outputs(WRITING[name]) if not is_directory(each)]
    for number, output in enumerate(files):
        out = tmp_path / f"out{number}"
        command_line = arguments(WRITING[name], tmp_path, {output.name or "": out})
        with held_file(out):
            before = content(tmp_path)
            result = run(name, command_line)
            assert content(tmp_path) == before
        assert result.exit_code == 1, result.output
        assert result.stderr.startswith(
            f"{name.split()[0]}: error: {out}: another command writes there (process {os.getpid()} on "
        )


def test_several_commands_append_to_one_log(tmp_path: Path) -> None:
    with held_file(tmp_path / "log"):
        result = run("moses-bridge step", ["--log", str(tmp_path / "log"), "true"])
    assert result.exit_code == 0 and (tmp_path / "log").read_text().count("\n") == 1


def test_a_link_that_the_user_names_is_followed(tmp_path: Path) -> None:
    """One in a folder is not: it may come from somebody else."""
    (tmp_path / "table").write_bytes(b"a ||| b ||| 0.5\n")
    (tmp_path / "config").write_text("mine")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real.json").symlink_to("config")
    score = [str(tmp_path / "table"), "--control", "length", "--out", str(tmp_path / "link")]
    assert run("rescorer score", score).exit_code == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes().startswith(b"a ||| b ||| 0.5 ")
    assert (tmp_path / "config").read_text() == "mine"
    assert not (tmp_path / "real.json").is_symlink()


@pytest.mark.parametrize("name", [".real.partial", ".real.partial.json"])
def test_a_link_in_the_place_of_an_unfinished_table_is_not_followed(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "table").write_bytes(b"a ||| b ||| 0.5\n")
    victim = tmp_path / "config"
    victim.write_text("mine" * 1000)
    (tmp_path / name).symlink_to(victim)
    score = [str(tmp_path / "table"), "--control", "length", "--out", str(tmp_path / "real")]
    for more in ([], ["--resume"]):
        assert run("rescorer score", [*score, *more]).exit_code == 0
        assert victim.read_text() == "mine" * 1000


@pytest.mark.parametrize("name", HELD)
def test_a_second_writer_is_refused(name: str, tmp_path: Path) -> None:
    make_files(tmp_path)
    out = tmp_path / "out"
    given: dict[str, object] = {"out": out}
    if name == "moses-bridge config":
        given["experiments"] = tmp_path / "experiment.toml"
        (tmp_path / "experiment.toml").write_bytes(b"[train]\nx = 1\n")
    if name == "moses-bridge build":
        for language in ("en", "fr"):
            (tmp_path / f"read-corpus_prefix.{language}").write_bytes(b"a\n")
    if name == "rescorer score":
        given |= {"control": "length", "table": tmp_path / "table", "ini_out": tmp_path / "new.ini"}
    if name == "rescorer merge":
        part = [str(tmp_path / "table"), "--shard", "1/1", "--control", "length"]
        assert run("rescorer score", [*part, "--out", str(tmp_path / "part")]).exit_code == 0
        given |= {"parts": tmp_path / "part", "ini_out": tmp_path / "new.ini"}
    if name == "tuning scan":
        given |= {"system": tmp_path / "moses.ini"}
        (tmp_path / "read-source").write_bytes(b"a\na\n")
        (tmp_path / "read-references").write_bytes(b"b\nb\n")
    more = [text.replace("FOLDER", str(tmp_path)) for text in MORE.get(f"{name} --out", [])]
    command_line = [*arguments(WRITING[name], tmp_path, given), *more]
    with HELD[name](out):
        before = content(tmp_path)
        result = run(name, command_line)
        assert content(tmp_path) == before
    assert result.exit_code == 1, result.output
    (line,) = [line for line in result.stderr.splitlines() if "count rows" not in line]
    assert line.startswith(
        f"{name.split()[0]}: error: {out}: another command writes there (process"
    )
    assert f"process {os.getpid()} on " in line
