"""How often systems without a true difference are called different: outputs drawn by chance.

Each structure says how two systems, their runs, networks and documents vary; both systems are equally good in
expectation. The text, the systems and their runs are drawn anew for each comparison. Minutes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tuning.compare.significance import compare_outputs
from tuning.compare.system_outputs import SystemOutputs
from tuning.metrics.bleu import bleu

N_SENTENCES, N_RUNS, N_COMPARISONS = 2000, 3, 1000
QUALITY = 0.75  # the share of n-grams that continue a right one
GAIN = 0.5  # BLEU, whose power is shown
LONGEST = 80
PACKAGE_EFFECT = 0.15  # s.d. of the quality over documents

Lengths = NDArray[np.int32]
Quality = float | NDArray[np.float64]


@dataclass(frozen=True)
class Text:
    """A text, and how well its sentences are translated.

    Attributes:
        lens: words of each sentence, *Shape:* (n_sentences,).
        quality: share of n-grams that continue a right one, of all sentences or *Shape:* (n_sentences,).
        documents: number of each sentence's document, *Shape:* (n_sentences,).
    """

    lens: Lengths
    quality: Quality
    documents: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Vary:
    """What varies in a system.

    Attributes:
        share: of sentences in which a run differs from the common output of its system.
        run_sd: BLEU, of the runs' own quality.
        network_sd: BLEU, of the quality of a network.
        n_networks: 1, or as many as there are runs.
        same_share: of runs that are the common output as it is.
    """

    share: float = 0.1
    run_sd: float = 0.0
    network_sd: float = 0.0
    n_networks: int = 1
    same_share: float = 0.0


@dataclass(frozen=True)
class Structure:
    """How two systems vary.

    Attributes:
        differ: share of sentences in which the systems differ.
        baseline: what varies in the first one.
        system: what varies in the other one.
        text: draws a text.
        by_document: whether documents are left out instead of sentences.
        is_covered: whether the p-value is meant to be over all that varies.
    """

    differ: float
    baseline: Vary
    system: Vary
    text: Callable[[np.random.Generator], Text]
    by_document: bool = False
    is_covered: bool = True


def plain_text(rng: np.random.Generator) -> Text:
    """Sentences of 8 to 29 words."""
    return Text(rng.integers(8, 30, N_SENTENCES).astype(np.int32), QUALITY)


def heavy_tailed_text(rng: np.random.Generator) -> Text:
    """Lengths with a long tail, and 15% of sentences that are nearly right."""
    lens = np.clip(rng.lognormal(2.5, 0.7, N_SENTENCES), 4, LONGEST).astype(np.int32)
    return Text(lens, np.where(rng.random(N_SENTENCES) < 0.15, 0.98, 0.7))


def text_of_packages(rng: np.random.Generator) -> Text:
    """Documents of unequal size: a few of dozens of sentences, most of one to four."""
    sizes = np.ceil(2 * rng.pareto(1.3, N_SENTENCES)).astype(np.int64).clip(1, 100)
    documents = np.repeat(np.arange(N_SENTENCES), sizes)[:N_SENTENCES]
    return replace(plain_text(rng), documents=documents)


ONE = Vary()
STRUCTURES = {
    "systems differ in 20% of sentences, runs in 10%": Structure(0.2, ONE, ONE, plain_text),
    "systems differ in 60%, runs in 15%": Structure(0.6, Vary(0.15), Vary(0.15), plain_text),
    "heavy tails": Structure(0.2, ONE, ONE, heavy_tailed_text),
    "run effects of 0.1 BLEU": Structure(0.2, Vary(run_sd=0.1), Vary(run_sd=0.1), plain_text),
    "unequal: run effects of 0 and 0.3": Structure(0.2, Vary(0.02), Vary(run_sd=0.3), plain_text),
    "the same, systems differ in 1%": Structure(0.01, Vary(0.02), Vary(run_sd=0.3), plain_text),
    "shared start: half of the runs the common output": Structure(
        0.2, Vary(same_share=0.5), Vary(same_share=0.5), plain_text
    ),
    **{
        f"one network, effect {sd}": Structure(
            0.2, ONE, Vary(network_sd=sd), plain_text, is_covered=False
        )
        for sd in (0.1, 0.3)
    },
    **{
        f"three networks, effect {sd}": Structure(
            0.2, ONE, Vary(network_sd=sd, n_networks=N_RUNS), plain_text
        )
        for sd in (0.1, 0.3)
    },
    "packages, by sentence": Structure(0.2, ONE, ONE, text_of_packages, is_covered=False),
    "packages, by document": Structure(0.2, ONE, ONE, text_of_packages, by_document=True),
}


def output(rng: np.random.Generator, lens: Lengths, quality: Quality) -> NDArray[np.int32]:
    """Statistics of an output that gets each n-gram right with a fixed probability: (n_sentences, 9)."""
    rows = np.empty((len(lens), 9), np.int32)
    matches = lens
    for order in range(4):
        matches = rng.binomial(np.minimum(matches, lens - order), quality).astype(np.int32)
        rows[:, 2 * order], rows[:, 2 * order + 1] = matches, lens - order
    rows[:, 8] = lens
    return rows


def bleu_slope(text: Text) -> float:
    """BLEU for one of quality, about that of the text, by a large text of the same kind."""
    lens = np.tile(text.lens, 50)
    quality = np.tile(np.broadcast_to(text.quality, len(text.lens)), 50)
    scores = [
        float(bleu(output(np.random.default_rng(1), lens, quality + step).sum(axis=0)))
        for step in (-0.01, 0.01)
    ]
    return (scores[1] - scores[0]) / 0.02


def drawn_system(
    rng: np.random.Generator, text: Text, common: NDArray[np.int32], vary: Vary, slope: float
) -> SystemOutputs:
    """Runs about the common output of a system."""
    networks = np.resize(rng.normal(0, vary.network_sd, vary.n_networks), N_RUNS)
    runs = []
    for effect in networks + rng.normal(0, vary.run_sd, N_RUNS):
        if rng.random() < vary.same_share:
            runs.append(common)
            continue
        quality = np.clip(text.quality + effect / slope / vary.share, 0.0, 1.0)
        own = output(rng, text.lens, quality)
        runs.append(np.where((rng.random(len(common)) < vary.share)[:, None], own, common))
    groups = range(N_RUNS) if vary.n_networks > 1 else [0] * N_RUNS
    return SystemOutputs(np.array(runs), groups)


def drawn_pair(
    rng: np.random.Generator, structure: Structure, slope: float
) -> tuple[SystemOutputs, SystemOutputs, Text]:
    """Two systems on a new text."""
    text = structure.text(rng)
    texts = [text, text]
    if text.documents is not None:
        n_documents = int(text.documents.max()) + 1
        for place in range(2):
            quality = rng.normal(QUALITY, PACKAGE_EFFECT, n_documents)[text.documents]
            texts[place] = replace(text, quality=np.clip(quality, 0.3, 0.98))
    first = output(rng, text.lens, texts[0].quality)
    differs = rng.random(len(first)) < structure.differ
    second = np.where(differs[:, None], output(rng, text.lens, texts[1].quality), first)
    baseline = drawn_system(rng, texts[0], first, structure.baseline, slope)
    return baseline, drawn_system(rng, texts[1], second, structure.system, slope), text


def shares(structure: Structure, n_comparisons: int) -> dict[str, float]:
    """Shares of p-values below levels without a difference, and with one of `GAIN` added."""
    rng = np.random.default_rng(1)
    slope = bleu_slope(structure.text(np.random.default_rng(2)))
    differences = []
    for _ in range(n_comparisons):
        baseline, system, text = drawn_pair(rng, structure, slope)
        documents = text.documents if structure.by_document else None
        differences.append(compare_outputs(baseline, system, documents))
    p_values = np.array([difference.p_value for difference in differences])
    gains = np.array([replace(each, delta=each.delta + GAIN).p_value for each in differences])
    return {
        "p < 0.05": float((p_values < 0.05).mean()),
        "p < 0.01": float((p_values < 0.01).mean()),
        f"{GAIN} BLEU found": float((gains < 0.05).mean()),
        "smallest found": float(np.median([each.smallest_found for each in differences])),
    }


def main(out: Path, n_comparisons: int = N_COMPARISONS) -> None:
    """Print a line for each structure, and write all of them as JSON.

    Args:
        out: the JSON file.
        n_comparisons: for each structure.
    """
    found: dict[str, dict[str, float]] = {}
    width = max(map(len, STRUCTURES))
    for name, structure in STRUCTURES.items():
        found[name] = shares(structure, n_comparisons)
        if not found.keys() - {name}:
            print(" " * width, *found[name], sep="  ")
        cells = (f"{share:{len(key)}.3f}" for key, share in found[name].items())
        note = "" if structure.is_covered else "  (not covered)"
        print(f"{name:{width}}", *cells, sep="  ", end=f"{note}\n", flush=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"comparisons": n_comparisons, "structures": found}, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
