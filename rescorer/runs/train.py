"""A training run of any architecture, from scratch or from a trained network, to a model directory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from moses_bridge.base.compiled.notice import CompilationNotice
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.lock import held_directory
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.progress import print_note
from moses_bridge.base.provenance import digests_by_name, file_digest, package_version
from moses_bridge.base.textio import StrPath, is_stream
from rescorer.contract.architectures import load
from rescorer.contract.trained_model import TRAINING_STATE, TrainedModel
from rescorer.contract.training import Data, DataKind, Prepared, TrainingSettings
from rescorer.models.model_description import DESCRIPTION, read_description, write_model_card
from rescorer.models.model_directory import (
    fingerprint,
    load_model,
    save_model,
    settings_of_sizes,
    written_files,
)
from rescorer.training.loop import INTERRUPTED, Trainer, TrainingReport, noted_signal
from rescorer.training.peers import ALONE, Peers

# The files of `Data` that a kind takes; source and links are then needed.
TAKEN: Mapping[DataKind, tuple[str, ...]] = {
    "phrase pairs": ("texts", "cache"),
    "text": (),
    "parallel text": ("source",),
    "linked text": ("source", "links"),
}
# Names the code to compile.
COMPILED = "the reading of training data and the loops of the network (up to half a minute)"


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
    overwrite: bool = False,
) -> TrainingReport:
    """Train a network and write its model directory.

    A signal that asks to end, such as Ctrl-C, ends the training after its current update and writes a model of
    the best weights so far, before it acts as it would have.

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
        overwrite: replace the training in the directory; its model is removed before the data are read.

    Raises:
        InputError: the data are malformed or empty, or `start` is not a whole model.
        ConfigError: there is a training in `out`, and neither `resume` nor `overwrite`; the interrupted
            training had other settings; the data do not fit the architecture or differ between processes;
            data or `start` would be overwritten; or `start` does not fit.
        UserError: another command writes into the directory.
    """
    read = (data.path, data.source, data.links, *(data.texts or ()))
    given = [path for path in read if path is not None]
    with contextlib.ExitStack() as stack:
        stack.enter_context(peers.only_first_reports_errors())
        refuse_overwriting(written_files(out), [*given, *(written_files(start) if start else ())])
        entry = load(architecture)
        _check_files(data, entry.data, architecture)
        first = None if start is None else Start.load(start, architecture)
        if first is not None:
            settings, data = first.settings(settings), first.data(data)
        claim = claimed(out, resume, overwrite) if peers.is_first else contextlib.nullcontext()
        peers.together(lambda: stack.enter_context(claim), first_alone=False)
        stack.enter_context(CompilationNotice(COMPILED))
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
        signals = stack.enter_context(noted_signal(is_alone=peers.size == 1))
        task, loop = prepared.task, settings.loop
        report = Trainer(network, task, loop, out, fixed, peers, signals=signals).run(resume)
        if not (peers.is_first and report.n_updates):
            return report
        if prepared.finish and (log_z := prepared.finish()):
            report = replace(report, log_z_mean=log_z.mean, log_z_sd=log_z.sd)
        results = {"loop": asdict(loop), "report": asdict(report), "made": made}
        record = {**fixed, **results, **prepared.record}
        write_model_card(out, architecture, record)
        save_model(out, architecture, network.cpu(), settings.model, prepared.shortlists, record)
        note_interruption(out, report)
    return report


@contextlib.contextmanager
def claimed(out: Path, resume: bool, overwrite: bool) -> Iterator[None]:
    """Hold the directory of a training; an earlier one there is continued or, with `overwrite`, removed.

    Raises:
        ConfigError: there is a training not to be continued or replaced, or no state to continue from; or both
            are asked for.
        UserError: another command writes into the directory.
    """
    if resume and overwrite:
        raise ConfigError(
            "--resume continues a training, --overwrite replaces it: give one of them"
        )
    with held_directory(out):
        has_state, has_model = ((out / name).exists() for name in (TRAINING_STATE, DESCRIPTION))
        fault = "there is a training already. Continue it with --resume" if has_state else ""
        if has_model and not has_state:
            fault = (
                "there is a model without the state of its training. Train into another directory"
            )
        if fault and not (overwrite or (resume and has_state)):
            raise ConfigError(f"{out}: {fault}, or replace it with --overwrite")
        for path in written_files(out) if overwrite else ():
            path.unlink(missing_ok=True)
        yield


def note_interruption(out: Path, report: TrainingReport) -> None:
    """Tell the user what an interrupted training has left."""
    if report.ended == INTERRUPTED:
        print_note(
            f"{out}: interrupted after {report.n_updates:,} updates. The best weights so far are a whole "
            "model, as `rescorer score` takes it; the training can be resumed"
        )


def _made_of(files: Sequence[StrPath]) -> dict[str, Any]:
    """The package's version and the SHA-256 of the files, except pipes, which can be read only once."""
    plain = [Path(path) for path in files if not is_stream(path)]
    digests = digests_by_name((path, file_digest(path)) for path in plain)
    return {"version": package_version(), "files": digests}


def _without_loop(settings: Any) -> dict[str, Any]:
    return {key: value for key, value in asdict(settings).items() if key != "loop"}


def _check_files(data: Data, kind: DataKind, architecture: str) -> None:
    for name in ("source", "links", "texts", "cache"):
        is_given, is_taken = getattr(data, name) is not None, name in TAKEN[kind]
        if is_given and not is_taken:
            raise ConfigError(f"{architecture} is trained on {kind}: leave --{name} out")
        if is_taken and not is_given and name in ("source", "links"):
            raise ConfigError(f"{architecture} is trained on {kind}: name --{name} too")
