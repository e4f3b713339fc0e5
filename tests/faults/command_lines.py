"""Command lines of all commands that write, made of what click knows of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import torch

from moses_bridge.base.command import CommandGroup, OutputPath
from moses_bridge.cli import main as moses_bridge
from rescorer.cli import main as rescorer
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import save_model
from rescorer.scorers.encdec.network import EncDecConfig, EncoderDecoder
from tuning.cli import main as tuning

GROUPS: dict[str, click.Group] = {
    "moses-bridge": moses_bridge,
    "rescorer": rescorer,
    "tuning": tuning,
}
# Values of parameters that are text; "source" and "target" are codes of languages where they are no paths.
TEXTS = {"source": "en", "target": "fr", "feature": "NN0", "system": "+RNN", "command": "true"}
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


def commands() -> Iterator[tuple[str, click.Command]]:
    """All commands of the three packages: "rescorer score", and what click knows of it."""
    for program, group in GROUPS.items():
        assert isinstance(group, CommandGroup)
        for name, command in group.commands.items():
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
