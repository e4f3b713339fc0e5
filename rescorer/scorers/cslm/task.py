"""Training of a CSLM on target text."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from moses_bridge.config import check_least
from moses_bridge.errors import ConfigError, InputError
from moses_bridge.textio import StrPath, read_lines
from rescorer.model_directory import save_model
from rescorer.scorers.cslm.network import Cslm, CslmConfig
from rescorer.softmax.loss import summed_loss
from rescorer.training.loop import LoopConfig, Trainer, TrainingReport, training_settings
from rescorer.training.phrase_pairs import held_out_mask
from rescorer.vocabulary import Vocabulary, count_words
from rescorer.windows.ngrams import sentence_ngrams

HELD_OUT_BATCH = 8192


@dataclass(frozen=True)
class CslmTrainingConfig:
    """Settings of `train_cslm`.

    Attributes:
        shortlist: words, </s> and <unk> not counted.
        n_held_out: sentences that are not learned from.
        batch_words: n-grams of an update.
        n_sampled: words beside those of the batch over which the softmax of an update is taken, drawn
            anew each time; 0 takes the whole shortlist. Held-out losses are always exact.
        dropout: share of the hidden units that are left out in training.
        loop: recipe and limits.
        model: sizes.
    """

    shortlist: int = 15_000
    n_held_out: int = 1_000
    batch_words: int = 1024
    n_sampled: int = 1500
    dropout: float = 0.0
    loop: LoopConfig = field(default_factory=LoopConfig)
    model: CslmConfig = field(default_factory=CslmConfig)

    def __post_init__(self) -> None:
        check_least(self, {"shortlist": 1, "n_held_out": 0, "batch_words": 1, "n_sampled": 0})
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout is {self.dropout}, expected at least 0 and less than 1")


def train_cslm(
    text: StrPath,
    out: Path,
    config: CslmTrainingConfig,
    resume: bool = False,
    device: str = "cpu",
    seed: int = 1,
) -> TrainingReport:
    """Train a CSLM and write its model directory.

    Args:
        text: target text, tokenised, one sentence a line.
        out: the model directory.
        config: settings.
        resume: continue an interrupted training in the same directory.
        device: "cpu" or "cuda".
        seed: of weights, held-out sentences, order and samples; the same seed, threads and limits other
            than minutes give the same model, interrupted and resumed or not.

    Raises:
        InputError: the text is empty.
        ConfigError: the interrupted training had other settings.
    """
    torch.manual_seed(seed)
    sentences = [line for line in read_lines(text) if line.strip()]
    if not sentences:
        raise InputError(text, None, "no sentence", "target text, one sentence a line")
    vocabulary = Vocabulary.from_counts(count_words(sentences), config.shortlist)
    network = Cslm(config.model, len(vocabulary)).to(device)
    task = NGramTask(network, vocabulary, sentences, config, seed)
    settings = training_settings(config, seed, sentences)
    report = Trainer(network, task, config.loop, out, settings).run(resume)
    record = {**settings, "loop": asdict(config.loop), "report": asdict(report)}
    save_model(out, network.cpu(), None, vocabulary, record)
    return report


class NGramBatch(NamedTuple):
    """The n-grams of an update.

    Attributes:
        rows: their numbers, *Shape:* (n,).
        seed: of what is drawn at random in it; of the batch alone, so that a training that is resumed in
            the middle of an epoch draws the same.
    """

    rows: NDArray[np.int64]
    seed: tuple[int, ...]


class NGramTask:
    """The batches and losses of a text's n-grams.

    Args:
        network: is trained.
        vocabulary: its shortlist.
        sentences: the text.
        config: settings.
        seed: of the held-out sentences, the order and the samples.
    """

    def __init__(
        self,
        network: Cslm,
        vocabulary: Vocabulary,
        sentences: list[bytes],
        config: CslmTrainingConfig,
        seed: int,
    ) -> None:
        self.network = network
        self.config = config
        self.seed = seed
        ids, lens = vocabulary.encode_phrases(sentences)
        context = config.model.context_words
        ngrams, sentence = sentence_ngrams(ids, lens, context, network.start_id, vocabulary.end_id)
        held_out = held_out_mask(len(sentences), config.n_held_out, seed)[sentence]
        self.train_ngrams = ngrams[~held_out]
        self.held_out_ngrams = ngrams[held_out]
        self._product_type = config.loop.product_dtype
        self._n_sampled = min(config.n_sampled, len(vocabulary))
        share = np.bincount(self.train_ngrams[:, -1], minlength=len(vocabulary)) / len(ngrams)
        absent = (1 - share) ** config.batch_words * (1 - self._n_sampled / len(vocabulary))
        self._log_inclusion = np.log(np.maximum(1 - absent, 1e-9))

    def batches(self, epoch: int) -> list[NGramBatch]:
        """The n-grams of each update of an epoch."""
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.train_ngrams))
        parts = np.array_split(order, max(1, len(order) // self.config.batch_words))
        return [NGramBatch(rows, (self.seed, epoch, number)) for number, rows in enumerate(parts)]

    def loss(self, batch: NGramBatch) -> tuple[Tensor, float]:
        """Summed loss of the n-grams of a batch, and how many there are."""
        rng = np.random.default_rng(batch.seed)
        ngrams = self.train_ngrams[batch.rows]
        hidden = with_dropout(self._hidden(ngrams), self.config.dropout, rng)
        if not self.config.n_sampled:
            return self._loss(hidden, ngrams[:, -1], self._product_type), len(ngrams)
        return self._sampled_loss(hidden, ngrams[:, -1], rng), len(ngrams)

    def _sampled_loss(
        self, hidden: Tensor, words: NDArray[np.int32], rng: np.random.Generator
    ) -> Tensor:
        """Softmax over the batch's words and a uniform sample, logits corrected for the sampling.

        Bengio & Senécal (2008), importance sampling: a word's logit is lowered by the log of the
        probability that the word takes part.
        """
        sample = rng.choice(self.network.n_words, self._n_sampled, replace=False)
        candidates = np.union1d(words, sample)
        chosen = torch.from_numpy(candidates).to(hidden.device)
        correction = torch.from_numpy(self._log_inclusion[candidates]).to(hidden)
        output = self.network.output
        return self._summed(
            hidden,
            output.weight[chosen],
            output.bias[chosen] - correction,
            np.searchsorted(candidates, words),
            self._product_type,
        )

    def held_out_loss(self) -> float | None:
        """Nats per word, </s> included; None if nothing is held out."""
        total = 0.0
        for start in range(0, len(self.held_out_ngrams), HELD_OUT_BATCH):
            ngrams = self.held_out_ngrams[start : start + HELD_OUT_BATCH]
            total += float(self._loss(self._hidden(ngrams), ngrams[:, -1], torch.float32))
        n_words = len(self.held_out_ngrams)
        return total / n_words if n_words else None

    def _hidden(self, ngrams: NDArray[np.int32]) -> Tensor:
        contexts = torch.from_numpy(ngrams[:, :-1].astype(np.int64))
        return self.network.hidden(contexts.to(self.network.output.weight.device))

    def _loss(self, hidden: Tensor, words: NDArray[np.int32], product_type: torch.dtype) -> Tensor:
        output = self.network.output
        return self._summed(hidden, output.weight, output.bias, words, product_type)

    @staticmethod
    def _summed(
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        words: NDArray[np.int32] | NDArray[np.int64],
        product_type: torch.dtype,
    ) -> Tensor:
        return summed_loss(
            hidden,
            weight,
            bias,
            torch.arange(len(hidden), device=hidden.device),
            torch.from_numpy(words.astype(np.int64)).to(hidden.device),
            hidden.new_ones(len(hidden)),
            product_type,
        )


def with_dropout(hidden: Tensor, share: float, rng: np.random.Generator) -> Tensor:
    """Set a share of the units to zero and raise the others so that the mean stays, as the rng says.

    Args:
        hidden: *Shape:* (n, width).
        share: 0 changes nothing; less than 1.
        rng: says which units.

    Returns:
        *Shape:* (n, width).
    """
    if not share:
        return hidden
    generator = torch.Generator(hidden.device).manual_seed(int(rng.integers(2**62)))
    kept = torch.empty_like(hidden).bernoulli_(1 - share, generator=generator)
    return hidden * kept / (1 - share)
