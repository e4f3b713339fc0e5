"""A phrase model trained on from its model directory, for expected BLEU on n-best lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.lock import held_directory
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.textio import StrPath
from rescorer.contract.architectures import ARCHITECTURES, PhraseValues, load
from rescorer.contract.trained_model import TrainedModel
from rescorer.models.model_description import write_model_card
from rescorer.models.model_directory import (
    fingerprint,
    load_model,
    save_model,
    settings_of_sizes,
    written_files,
)
from rescorer.runs.expected_bleu.list_reader import read_lists
from rescorer.runs.expected_bleu.task import ExpectedBleuConfig, ExpectedBleuTask, PairValues
from rescorer.training.held_out import digest
from rescorer.training.loop import Trainer, TrainingReport

UNIT = "BLEU"


@dataclass(frozen=True)
class ListText:
    """Lists to be learned from.

    Attributes:
        nbest: n-best list with segmentation.
        source: the translated text.
        references: its translations, one file a reference.
        groups: the document of each line of the text, of which whole ones are held out; None if unknown.
    """

    nbest: StrPath
    source: StrPath
    references: Sequence[StrPath]
    groups: StrPath | None = None


def train_for_expected_bleu(
    model: Path,
    data: ListText,
    out: Path,
    config: ExpectedBleuConfig,
    resume: bool = False,
    device: torch.device | str = "cpu",
    seed: int = 1,
    trust_code: bool = False,
) -> tuple[float | None, TrainingReport]:
    """Train a phrase model on whole translations and write a new model directory.

    Args:
        model: what `rescorer train` wrote, of an architecture with phrase values.
        data: the lists.
        out: the new model directory.
        config: settings.
        resume: continue an interrupted training in the same directory.
        device: "cpu" or "cuda".
        seed: of held-out lists and order.
        trust_code: see `rescorer.models.model_directory.load_model`.

    Returns:
        The loss of the held-out lists under the first model (None without such lists), and what came out;
        losses are minus expected sentence BLEU, 0 to 100.

    Raises:
        InputError: the lists are malformed, or the directory is not a whole model.
        ConfigError: the model cannot be trained so, the directory is that of the model, or the interrupted
            training had other settings or data; or a file of the lists would be overwritten.
        UserError: another command writes into the directory.
    """
    if out.resolve() == model.resolve():
        raise ConfigError(f"--out {out}: the model is read from there; name another directory")
    read = (data.nbest, data.source, *data.references, *([data.groups] if data.groups else []))
    refuse_overwriting(written_files(out), read)
    with held_directory(out):
        return _train(model, data, out, config, resume, device, seed, trust_code)


def _train(
    model: Path,
    data: ListText,
    out: Path,
    config: ExpectedBleuConfig,
    resume: bool,
    device: torch.device | str,
    seed: int,
    trust_code: bool,
) -> tuple[float | None, TrainingReport]:
    learned = load_model(model, trust_code)
    architecture = load(learned.architecture)
    if architecture.phrase_values is None:
        able = [name for name in ARCHITECTURES if load(name).phrase_values is not None]
        raise ConfigError(
            f"{model} is a {learned.architecture}, which has no values of phrase pairs to train for BLEU: "
            f"take a model of {', '.join(able)}"
        )
    lists = read_lists(data.nbest, data.source, data.references, data.groups)
    learned.network.to(device).train()
    types = config.loop.product_dtype, torch.float32
    values = _pair_values(learned, *(architecture.phrase_values(learned, one) for one in types))
    task = ExpectedBleuTask(values, lists, config, seed)
    with torch.no_grad():
        before = task.held_out_loss()
    settings = asdict(config)
    loop = settings.pop("loop")
    fixed = {
        "config": settings,
        "seed": seed,
        "data": digest(lists.content()),
        "start": fingerprint(model),
    }
    report = Trainer(learned.network, task, config.loop, out, fixed, unit=UNIT).run(resume)
    record = {**fixed, "loop": loop, "report": asdict(report), "held_out_loss_before": before}
    description = learned.description
    sizes = settings_of_sizes(model, description).model
    training = {**description.get("training", {}), "expected_bleu": record}
    write_model_card(out, learned.architecture, training)
    save_model(
        out, learned.architecture, learned.network.cpu(), sizes, learned.shortlists, training
    )
    return before, report


def _pair_values(
    learned: TrainedModel[Any], values: PhraseValues, exact_values: PhraseValues
) -> PairValues:
    """Values of any phrase pairs, the exact ones where no gradient is wanted."""
    return lambda pairs: (values if torch.is_grad_enabled() else exact_values)(
        learned.as_read(pairs)
    )
