"""Fine-tuning of a phrase model for expected BLEU on n-best lists: settings, batches, loss, run.

Gao et al. (ACL 2014): a hypothesis h of a list has the probability

    p(h) = exp(g s(h)) / sum_h' exp(g s(h')),    s(h) = total(h) + l sum over its phrase pairs of their value

where total is the other features with fixed weights; the loss of a list is -sum_h p(h) BLEU(h).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from moses_bridge.base.config import AtLeast, Limited
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.textio import StrPath
from rescorer.contract.architectures import ARCHITECTURES, load
from rescorer.contract.batch import Batch
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
from rescorer.runs.expected_bleu.nbest_lists import NBestLists, StoredLists
from rescorer.runs.train import claimed, note_interruption
from rescorer.training.loop import Trainer, TrainingReport, noted_signal
from rescorer.training.loop_config import LoopConfig
from rescorer.training.seeded_batch import digest, even_parts, held_out_groups, held_out_mask

# Held-out lists scored at a time.
LISTS_AT_ONCE = 128
# Score of a place without a hypothesis.
NEVER = -1e9


# From phrase pairs to their values, *Shape:* (n,), with gradients.
PairValues = Callable[[Batch], Tensor]
UNIT = "BLEU"


@dataclass(frozen=True)
class ExpectedBleuConfig(Limited):
    """Settings of a training for expected BLEU.

    The loss is minus expected sentence BLEU, 0 to 100. Of all evaluations the best one's weights are kept.

    Attributes:
        column_weight: l, the weight of the model's column, which stays; learning sets the scale of the values.
        sharpness: g, what scores are multiplied with before they become probabilities.
        lists_per_update: lists of an update.
        n_held_out: lists not learned from, at most a tenth of all; whole documents where these are known.
        loop: recipe and limits.
    """

    column_weight: float = 0.02
    sharpness: Annotated[float, AtLeast(0)] = 20.0
    lists_per_update: Annotated[int, AtLeast(1)] = 32
    n_held_out: Annotated[int, AtLeast(0)] = 200
    loop: LoopConfig = field(
        default_factory=lambda: LoopConfig(
            learning_rate=2e-3, n_epochs=5, evaluations_per_epoch=1, warmup_updates=50
        )
    )


def expected_bleu(
    values: Tensor, lists: NBestLists, column_weight: float, sharpness: float
) -> Tensor:
    """Expected sentence BLEU of each list, 0 to 1, *Shape:* (n_lists,).

    `values` are those of the phrase pairs, use by use, *Shape:* (n_uses,); `column_weight` is l, `sharpness` g.
    """
    sizes = np.diff(lists.starts)
    hypothesis = _on(np.repeat(np.arange(len(lists.totals)), lists.n_uses), values)
    sums = values.new_zeros(len(lists.totals)).index_add(0, hypothesis, values)
    # What all hypotheses of a list have changes nothing, and float32 has few digits.
    totals = lists.totals - np.repeat(np.maximum.reduceat(lists.totals, lists.starts[:-1]), sizes)
    scores = sharpness * (_on(totals, values).to(values.dtype) + column_weight * sums)
    rows = _on(np.repeat(np.arange(len(lists)), sizes), values)
    places = _on(np.arange(len(totals)) - np.repeat(lists.starts[:-1], sizes), values)
    shape = len(lists), int(sizes.max())
    table = values.new_full(shape, NEVER).index_put((rows, places), scores)
    bleu = values.new_zeros(shape)
    bleu[rows, places] = _on(lists.bleu, values).to(values.dtype)
    return (torch.softmax(table, 1) * bleu).sum(1)


def _on(array: NDArray[np.generic], values: Tensor) -> Tensor:
    return torch.from_numpy(array).to(values.device)


class ExpectedBleuTask:
    """Batches and losses of n-best lists; a batch is an array of list numbers.

    `values` are differentiable values of phrase pairs; `seed` draws the held-out lists and the order.
    """

    def __init__(
        self, values: PairValues, lists: StoredLists, config: ExpectedBleuConfig, seed: int
    ) -> None:
        self.values = values
        self.lists = lists
        self.config = config
        self.seed = seed
        if lists.documents is None:
            held_out = held_out_mask(len(lists), config.n_held_out, seed)
        else:
            held_out = held_out_groups(lists.documents, config.n_held_out, seed)
        self.train_lists, self.held_out_lists = np.flatnonzero(~held_out), np.flatnonzero(held_out)
        self.n_held_out = len(self.held_out_lists)
        self.batch_size = min(config.lists_per_update, len(self.train_lists))

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """The lists of each update of an epoch."""
        order = np.random.default_rng((self.seed, epoch)).permutation(self.train_lists)
        return list(np.array_split(order, max(1, len(order) // self.config.lists_per_update)))

    def parts(self, batch: NDArray[np.int64], n_parts: int) -> list[NDArray[np.int64]]:
        """A batch in at most n_parts parts."""
        return even_parts(batch, n_parts)

    def n_words(self, batch: NDArray[np.int64]) -> float:
        """The number of lists: their loss is a mean over lists, not over words."""
        return float(len(batch))

    def loss(self, batch: NDArray[np.int64]) -> tuple[Tensor, float]:
        """Minus the summed expected BLEU of the lists, 0 to 100 each, and their number."""
        lists = self.lists.part(batch)
        values = self.values(lists.pairs)
        values = values.index_select(0, _on(lists.uses, values))
        config = self.config
        found = expected_bleu(values, lists, config.column_weight, config.sharpness)
        return -100 * found.sum(), self.n_words(batch)

    def held_out_loss(self) -> float | None:
        """Minus the mean expected BLEU of the held-out lists, 0 to 100; None if there are none."""
        if not self.n_held_out:
            return None
        parts = even_parts(self.held_out_lists, -(-self.n_held_out // LISTS_AT_ONCE))
        return sum(float(self.loss(part)[0]) for part in parts) / self.n_held_out


@dataclass(frozen=True)
class ListText:
    """An n-best list with segmentation, the translated text, and its translations, one file a reference.

    The groups are the document of each line of the text, whole ones being held out; None if unknown.
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
    overwrite: bool = False,
) -> tuple[float | None, TrainingReport]:
    """Fine-tune a phrase model on whole translations and write a new model directory.

    Args:
        model: directory written by `rescorer train`, of an architecture with phrase values.
        data: the lists.
        out: the new model directory.
        config: settings.
        resume: continue an interrupted training in the same directory.
        device: "cpu" or "cuda".
        seed: of held-out lists and order.
        trust_code: see `rescorer.models.model_directory.load_model`.
        overwrite: replace the training in the directory; see `rescorer.runs.train.train`, also for signals.

    Returns:
        The held-out loss of the first model (None without held-out lists), and the report of the training;
        losses are minus expected sentence BLEU, 0 to 100.

    Raises:
        InputError: the lists are malformed, or the directory is not a whole model.
        ConfigError: the model has no phrase values, `out` is `model` or has a training and neither `resume` nor
            `overwrite`, the interrupted training had other settings or data, or a file of the lists would be
            overwritten.
        UserError: another command writes into the directory.
    """
    if out.resolve() == model.resolve():
        raise ConfigError(f"--out {out}: the model is read from there; name another directory")
    read = (data.nbest, data.source, *data.references, *([data.groups] if data.groups else []))
    refuse_overwriting(written_files(out), read)
    with contextlib.ExitStack() as stack:
        stack.enter_context(claimed(out, resume, overwrite))
        learned = load_model(model, trust_code)
        network, name = learned.network.to(device).train(), learned.architecture
        values = _pair_values(learned, model, config.loop.product_dtype)
        lists = read_lists(data.nbest, data.source, data.references, data.groups)
        task = ExpectedBleuTask(values, lists, config, seed)
        with torch.no_grad():
            before = task.held_out_loss()
        settings = asdict(config)
        loop = settings.pop("loop")
        content, start = digest(lists.content()), fingerprint(model)
        fixed = {"config": settings, "seed": seed, "data": content, "start": start}
        signals = stack.enter_context(noted_signal())
        trainer = Trainer(network, task, config.loop, out, fixed, unit=UNIT, signals=signals)
        report = trainer.run(resume)
        record = {**fixed, "loop": loop, "report": asdict(report), "held_out_loss_before": before}
        training = {**learned.description.get("training", {}), "expected_bleu": record}
        sizes = settings_of_sizes(model, learned.description).model
        write_model_card(out, name, training)
        save_model(out, name, network.cpu(), sizes, learned.shortlists, training)
        note_interruption(out, report)
    return before, report


def _pair_values(learned: TrainedModel[Any], model: Path, product_type: torch.dtype) -> PairValues:
    """Values of any phrase pairs, exact where no gradient is needed."""
    phrase_values = load(learned.architecture).phrase_values
    if phrase_values is None:
        able = [name for name in ARCHITECTURES if load(name).phrase_values is not None]
        raise ConfigError(
            f"{model} is a {learned.architecture}, which has no values of phrase pairs to train for BLEU: "
            f"take a model of {', '.join(able)}"
        )
    values, exact = (phrase_values(learned, kind) for kind in (product_type, torch.float32))
    return lambda pairs: (values if torch.is_grad_enabled() else exact)(learned.as_read(pairs))
