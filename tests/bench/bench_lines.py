"""Values of lines by a Marian model, and the choice from an n-best list by weights, beside plain loops.

`rescorer lines` is beside the usual loop in transformers and CTranslate2's score_batch, `tuning rerank --apply`
beside a loop without checks. The model is small and has random weights. Each way runs on one thread; times are
of the processor, medians of three runs. They include reading, making subwords and writing, but score_batch is
given the subwords.

python bench_lines.py SOURCE TARGET NBEST RESULTS.json [LINES]
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import ctranslate2
import torch
from bench_pretrained import BATCHES, FILES, loop, score_batch
from ctranslate2.converters import TransformersConverter
from marian_model import SMALL, write_marian
from results import Result, write_results
from transformers import AutoModelForSeq2SeqLM

import rescorer
from moses_bridge.base.textio import read_lines
from moses_bridge.formats.nbest import parse_features, read_nbest
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.models.pretrained.hugging_face import load_hugging_face
from rescorer.models.pretrained.settings import PretrainedSettings
from tuning.loop.rerank import ListedText
from tuning.loop.reranker import apply_weights, read_reranked
from tuning.loop.settings import RerankConfig

N_PIECES, N_RUNS = 2_000, 3


def speed(way: Callable[[], object], n: int) -> float:
    """Lines or hypotheses a second of the processor."""
    seconds = []
    for _ in range(N_RUNS):
        start = time.process_time()
        way()
        seconds.append(time.process_time() - start)
    return n / median(seconds)


def of_lines(source: str, target: str, n_lines: int, folder: Path) -> list[Result]:
    """The speeds of scoring the first lines of a parallel text."""
    sides = [[*read_lines(path)][:n_lines] for path in (source, target)]
    texts = [folder / name for name in ("source", "target")]
    for path, lines in zip(texts, sides, strict=True):
        path.write_bytes(b"".join(line + b"\n" for line in lines))
    marian, converted = folder / "marian", folder / "ct2"
    decoded = [[line.decode() for line in side] for side in sides]
    write_marian(marian, decoded[0], decoded[1], N_PIECES, SMALL)
    TransformersConverter(str(marian), copy_files=FILES).convert(str(converted))
    plain = AutoModelForSeq2SeqLM.from_pretrained(marian).eval()
    scorer = load_hugging_face(marian, PretrainedSettings(), Compute(device="cpu"), True)
    translator = ctranslate2.Translator(str(converted), inter_threads=1, intra_threads=1)
    pairs, subwords = Batch(*sides), scorer.subwords
    tokens = [
        [*map(subwords.names, ids)]
        for ids in (subwords.sources(sides[0]), subwords.targets(sides[1]))
    ]
    without_end = [target[:-1] for target in tokens[1]]
    rows = []
    for kind, directory in (("hf", marian), ("ct2", converted)):
        model = rescorer.load(f"{kind}:{directory}", device="cpu")
        score = partial(rescorer.score_lines, texts[0], texts[1], folder / "out", model, jobs=1)
        score()  # compiles
        rows.append((kind, speed(score, n_lines)))
    peers = {
        f"transformers, a loop over padded batches of {size}": partial(
            loop, plain, subwords, pairs, size
        )
        for size in BATCHES
    } | {"score_batch of CTranslate2": partial(score_batch, translator, tokens[0], without_end)}
    found = {name: speed(way, n_lines) for name, way in peers.items()}
    work = f"score {n_lines} lines by a small Marian model, float32"
    return [
        Result(work, f"rescorer lines, {kind}", name, ours, peer, "lines/s")
        for kind, ours in rows
        for name, peer in found.items()
    ]


def plain_choice(nbest: str, weights: dict[str, list[float]]) -> dict[int, tuple[float, bytes]]:
    """The best hypothesis of each sentence, by the usual loop."""
    best: dict[int, tuple[float, bytes]] = {}
    for line in read_lines(nbest):
        number, words, features, *_ = line.split(b" ||| ")
        score = 0.0
        row: Iterator[float] = iter(())
        for token in features.split():
            if token.endswith(b"="):
                row = iter(weights[token[:-1].decode()])
            else:
                score += next(row) * float(token)
        if int(number) not in best or score > best[int(number)][0]:
            best[int(number)] = score, words
    return best


def of_choice(source: str, nbest: str, folder: Path) -> Result:
    """The speed of choosing from a list."""
    entries = [*read_nbest(nbest)]
    weights = {
        name: [0.1] * len(row)
        for name, row in parse_features(entries[0], nbest).items()
        if "_" not in name
    }
    (folder / "weights.json").write_text(json.dumps(weights))
    reranked = read_reranked(folder / "weights.json")
    text, config = ListedText(Path(nbest), Path(source)), RerankConfig()
    n = len(entries)
    ours = speed(lambda: apply_weights(text, reranked, config), n)
    peer = speed(lambda: plain_choice(nbest, weights), n)
    work = f"choose from {n:,} hypotheses by weights"
    return Result(
        work, "tuning rerank --apply", "a plain loop without checks", ours, peer, "hypotheses/s"
    )


def main(arguments: Sequence[str]) -> None:
    """Measure, and write the results."""
    source, target, nbest, out, *n_lines = arguments
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        results = of_lines(source, target, int(n_lines[0]) if n_lines else 1_000, Path(name))
        results.append(of_choice(source, nbest, Path(name)))
    write_results(results, Path(out))


if __name__ == "__main__":
    main(sys.argv[1:])
