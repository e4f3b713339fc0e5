"""A training run of any architecture, from scratch or from a trained network, to a model directory."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.lock import held_directory
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.progress import print_note
from moses_bridge.base.provenance import digests_by_name, file_digest, package_version
from moses_bridge.base.textio import StrPath, is_stream
from rescorer.contract.architectures import load
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.training import Data, DataKind, Prepared, TrainingSettings
from rescorer.models.model_description import read_description, write_model_card
from rescorer.models.model_directory import (
    fingerprint,
    load_model,
    save_model,
    settings_of_sizes,
    written_files,
)
from rescorer.training.loop import Trainer, TrainingReport
from rescorer.training.peers import ALONE, Peers

NEEDED: Mapping[DataKind, tuple[str, ...]] = {
    "phrase pairs": (),
    "text": (),
    "parallel text": ("source",),
    "linked text": ("source", "links"),
}


@dataclass(frozen=True)
class Start:
    """The trained model that a training starts from, and the digest of its files."""

    directory: Path
    model: TrainedModel[Any]
    digest: str

    @classmethod
    def load(cls, directory: Path, architecture: str) -> Start:
        """Read a model directory; naming its architecture, the user trusts its code.

        Raises:
            InputError: the directory is not a whole model.
            ConfigError: the model has another architecture.
        """
        found = read_description(directory)["architecture"]
        if found != architecture:
            raise ConfigError(
                f"{directory} is a network of the architecture {found!r}, not {architecture!r}: "
                f"add --arch {found}"
            )
        return cls(directory, load_model(directory, trust_code=True), fingerprint(directory))

    def settings(self, settings: Any) -> Any:
        """Training settings with the sizes and the reading of this network.

        Raises:
            ConfigError: they differ from these and from the defaults.
        """
        own = {"model": settings_of_sizes(self.directory, self.model.description).model}
        if hasattr(settings, "reading"):
            own["reading"] = self.model.training.reading
        for key, value in own.items():
            found = getattr(settings, key)
            if found not in (value, getattr(type(settings)(), key)):
                raise ConfigError(
                    f"{key} is {found}, expected that of {self.directory}, {value}: leave the key out"
                )
        return replace(settings, **own)

    def data(self, data: Data) -> Data:
        """Training data with the shortlists of this network.

        Raises:
            ConfigError: texts for choosing shortlists are given.
        """
        if data.texts is not None:
            raise ConfigError(f"the shortlists are those of {self.directory}: leave --texts out")
        return replace(data, shortlists=self.model.shortlists)

    def give_weights(self, prepared: Prepared) -> None:
        """Replace the initial weights of a prepared network by this network's.

        Raises:
            ConfigError: the architecture chose its own shortlists.
        """
        if prepared.shortlists != self.model.shortlists:
            raise ConfigError(
                f"the architecture {self.model.architecture!r} takes no shortlists from the data, "
                "so its networks cannot be trained further"
            )
        prepared.network.load_state_dict(self.model.network.state_dict())
        prepared.network.eval()
        with torch.no_grad():
            loss = prepared.task.held_out_loss()
        prepared.network.train()
        if loss is not None:
            print_note(f"held-out loss of {self.directory}: {loss:.4g} nats per word")


def train(
    architecture: str,
    data: Data,
    out: Path,
    settings: TrainingSettings,
    resume: bool = False,
    device: torch.device | str = "cpu",
    seed: int = 1,
    peers: Peers = ALONE,
    start: Path | None = None,
) -> TrainingReport:
    """Train a network and write its model directory.

    Args:
        architecture: its name.
        data: training data of the architecture's kind.
        out: the model directory.
        settings: of the architecture's own dataclass.
        resume: continue an interrupted training in the same directory.
        device: "cpu" or "cuda".
        seed: of weights, held-out data, order and samples. The same seed and settings give the same model,
            resumed or not, if passes and not minutes limit the training.
        peers: the processes of a distributed training; the first one writes.
        start: model directory of a network of this architecture to train further; it keeps its shortlists,
            sizes and reading.

    Raises:
        InputError: the data are malformed or empty, or `start` is not a whole model.
        ConfigError: the interrupted training had other settings; the data do not fit the architecture or
            differ between processes; data or `start` would be overwritten; or `start` does not fit.
        UserError: another command writes into the directory.
    """
    read = (data.path, data.source, data.links, *(data.texts or ()))
    given = [path for path in read if path is not None]
    with contextlib.ExitStack() as stack:
        stack.enter_context(peers.only_first_reports_errors())
        refuse_overwriting(written_files(out), [*given, *(written_files(start) if start else ())])
        peers.together(lambda: _hold(out, peers, stack), first_alone=False)
        entry = load(architecture)
        _check_kind(data, entry.data, architecture)
        _check_options(data, entry.data, architecture)
        first = None if start is None else Start.load(start, architecture)
        if first is not None:
            settings, data = first.settings(settings), first.data(data)
        made = _made_of(given) if peers.is_first else {}
        torch.manual_seed(seed)
        prepared = peers.together(
            lambda: entry.prepare(data, settings, seed), first_alone=data.cache is not None
        )
        network = prepared.network.to(device)
        fixed = {"config": _without_loop(settings), "seed": seed, "data": prepared.digest}
        if first is not None:
            first.give_weights(prepared)
            fixed["start"] = first.digest
        peers.agree((fixed, asdict(settings.loop), resume), "data or settings")
        report = Trainer(network, prepared.task, settings.loop, out, fixed, peers).run(resume)
        if not peers.is_first:
            return report
        if prepared.finish and (log_z := prepared.finish()):
            report = replace(report, log_z_mean=log_z.mean, log_z_sd=log_z.sd)
        loop = asdict(settings.loop)
        results = {"loop": loop, "report": asdict(report), "made": made}
        record = {**fixed, **results, **prepared.record}
        write_model_card(out, architecture, record)
        save_model(out, architecture, network.cpu(), settings.model, prepared.shortlists, record)
    return report


def _made_of(files: Sequence[StrPath]) -> dict[str, Any]:
    """The package's version and the SHA-256 of the files, except pipes, which can be read only once."""
    plain = [Path(path) for path in files if not is_stream(path)]
    digests = digests_by_name((path, file_digest(path)) for path in plain)
    return {"version": package_version(), "files": digests}


def _hold(out: Path, peers: Peers, stack: contextlib.ExitStack) -> None:
    """Let the writing process hold the directory until the stack closes."""
    if peers.is_first:
        stack.enter_context(held_directory(out))


def _without_loop(settings: Any) -> dict[str, Any]:
    return {key: value for key, value in asdict(settings).items() if key != "loop"}


def _check_options(data: Data, kind: DataKind, architecture: str) -> None:
    if data.texts is not None and kind != "phrase pairs":
        raise ConfigError(
            f"{architecture} takes its shortlists from what it is trained on: leave --texts out"
        )
    if data.cache is not None and kind != "phrase pairs":
        raise ConfigError(f"{architecture} is trained on {kind}, not on a table: leave --cache out")


def _check_kind(data: Data, kind: DataKind, architecture: str) -> None:
    """Refuse data of a kind from which the architecture does not learn."""
    for name, option in (("source", "--source"), ("links", "--links")):
        is_given, is_needed = getattr(data, name) is not None, name in NEEDED[kind]
        if is_needed and not is_given:
            raise ConfigError(f"{architecture} is trained on {kind}: name {option} too")
        if is_given and not is_needed:
            raise ConfigError(f"{architecture} is trained on {kind}: leave {option} out")
