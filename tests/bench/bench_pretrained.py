"""Scoring n-best lists with a Marian model: ours, the usual loop in transformers, CTranslate2's score_batch.

The model has the sizes of OPUS-MT and random weights. Each way runs on one thread; times are of the processor.
They include making subwords, but score_batch is given them.

python bench_pretrained.py NBEST SOURCE TRAIN_SOURCE TRAIN_TARGET RESULTS.json [SENTENCES]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import torch
from ctranslate2.converters import TransformersConverter
from marian_model import OPUS, write_marian
from numpy.typing import NDArray
from results import Result, write_results
from transformers import AutoModelForSeq2SeqLM

from moses_bridge.base.textio import read_lines
from moses_bridge.formats.nbest import parse_entry
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.models.pretrained.ctranslate2_values import CTranslate2Scorer
from rescorer.models.pretrained.hugging_face import load_hugging_face
from rescorer.models.pretrained.settings import PretrainedSettings
from rescorer.models.pretrained.subwords import Subwords

N_PIECES, N_TRAIN = 32_000, 100_000
BATCHES = (16, 64)
FILES = ["source.spm", "target.spm", "vocab.json", "tokenizer_config.json"]
Way = Callable[[], NDArray[np.float64]]


def pairs_of(nbest: str, source: Path, n_sentences: int) -> Batch:
    """The different hypotheses of the first sentences of a list."""
    sentences = [line for line in read_lines(source)]
    entries = [parse_entry(line, nbest, at) for at, line in enumerate(read_lines(nbest), start=1)]
    chosen = [entry for entry in entries if entry.sentence_id < n_sentences]
    pairs = dict.fromkeys((sentences[entry.sentence_id], entry.words) for entry in chosen)
    return Batch([pair[0] for pair in pairs], [pair[1] for pair in pairs])


def loop(model: Any, subwords: Subwords, pairs: Batch, size: int) -> NDArray[np.float64]:
    """Batches in the order of the list, padded to their longest pair."""
    pad, values = model.config.pad_token_id, []
    for first in range(0, len(pairs), size):
        part = pairs.part(np.arange(first, min(first + size, len(pairs))))
        sources, targets = (
            torch.nn.utils.rnn.pad_sequence(list(map(torch.tensor, ids)), True, pad)
            for ids in (subwords.sources(part.sources), subwords.targets(part.targets))
        )
        read = torch.cat([torch.full((len(part), 1), pad), targets[:, :-1]], dim=1)
        with torch.inference_mode():
            found = model(
                input_ids=sources, attention_mask=(sources != pad).long(), decoder_input_ids=read
            )
            found.logits[:, :, pad] = -torch.inf  # as generation has it
            log_probs = found.logits.log_softmax(-1).gather(2, targets[:, :, None])[:, :, 0]
        values.append(log_probs.double().masked_fill(targets == pad, 0).sum(dim=1).numpy())
    return np.concatenate(values)


def score_batch(
    translator: ctranslate2.Translator, sources: list[list[str]], targets: list[list[str]]
) -> NDArray[np.float64]:
    """CTranslate2 with batches of its own choice."""
    found = translator.score_batch(sources, targets, max_batch_size=2048, batch_type="tokens")
    return np.array([np.sum(one.log_probs, dtype=np.float64) for one in found])


def speed(way: Way, expected: NDArray[np.float64] | None) -> tuple[float, NDArray[np.float64]]:
    """Hypotheses a second of the processor; the values must be those expected."""
    start = time.process_time()
    values = way()
    seconds = time.process_time() - start
    if expected is not None:
        assert np.abs(values - expected).max() < 1e-3, np.abs(values - expected).max()
    return len(values) / seconds, values


def main() -> None:
    nbest, source, train_source, train_target, out, *n_sentences = sys.argv[1:]
    torch.set_num_threads(1)
    pairs = pairs_of(nbest, Path(source), int(n_sentences[0]) if n_sentences else 10)
    source_text, target_text = (
        [line.decode() for line in islice(read_lines(path), N_TRAIN)]
        for path in (train_source, train_target)
    )
    with tempfile.TemporaryDirectory() as folder:
        marian, converted = Path(folder, "marian"), Path(folder, "ct2")
        write_marian(marian, source_text, target_text, N_PIECES, OPUS)
        TransformersConverter(str(marian), copy_files=FILES).convert(str(converted))
        scorer = load_hugging_face(marian, PretrainedSettings(), Compute(device="cpu"), True)
        plain = AutoModelForSeq2SeqLM.from_pretrained(marian).eval()
        translator = ctranslate2.Translator(str(converted), inter_threads=1, intra_threads=1)
    subwords = scorer.subwords
    tokens = [
        list(map(subwords.names, ids))
        for ids in (subwords.sources(pairs.sources), subwords.targets(pairs.targets))
    ]
    scorer.values(pairs.part(np.arange(10)))  # compiles
    ours, values = speed(lambda: scorer.values(pairs), None)
    own_ct2, _ = speed(lambda: CTranslate2Scorer(translator, subwords).values(pairs), values)
    without_end = [target[:-1] for target in tokens[1]]
    batches, _ = speed(lambda: score_batch(translator, tokens[0], without_end), values)
    print(f"{len(pairs)} hypotheses, {sum(map(len, tokens[1]))} subwords")
    work, same = "score 100-best lists by a Marian model of OPUS-MT's sizes, float32", "the same"
    results = [
        Result(
            work,
            "hf, prefixes shared",
            f"transformers, a loop over padded batches of {size}",
            ours,
            found,
            "hypotheses/s",
        )
        for size in BATCHES
        for found, _ in [speed(partial(loop, plain, subwords, pairs, size), values)]
    ]
    results += [
        Result(
            same, "hf, prefixes shared", "score_batch of CTranslate2", ours, batches, "hypotheses/s"
        ),
        Result(
            same,
            "ct2, batches of equal lengths",
            "score_batch of CTranslate2",
            own_ct2,
            batches,
            "hypotheses/s",
        ),
    ]
    write_results(results, Path(out))


if __name__ == "__main__":
    main()
