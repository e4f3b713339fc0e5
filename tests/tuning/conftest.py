"""Pools that real Moses programs made and what these reached on them; a system with a stand-in decoder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_bridge.base.textio import write_lines
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.formats.tuning_data import read_init_opt
from tuning.compare import translations
from tuning.loop import rerank_run, tuning_loop
from tuning.loop.fingerprints import ParallelText
from tuning.loop.run_directory import TuningRun
from tuning.loop.settings import TuningConfig
from tuning.loop.tuning_loop import TunedSystem, tune
from tuning.metrics.bleu import bleu
from tuning.optimisers.contract import MertConfig, OptimizerConfig
from tuning.optimisers.moses_files import read_moses_pool
from tuning.optimisers.nbest_pool import NBestPool

INI = """\
[feature]
Distortion
KENLM name=LM0 path=lm order=3

[weight]
Distortion0= 0.5
LM0= 0.5
"""
HYPOTHESES = [
    [(b"a b c d e", -1.0, -9.0), (b"a b x d e", -3.0, -1.0)],
    [(b"f g h i j", -2.0, -8.0), (b"f f f f f", -9.0, -1.0)],
    [(b"k l m n o", -1.0, -7.0), (b"o n m l k", -4.0, -2.0)],
]
REFERENCES = [b"a b c d e", b"f g h i j", b"k l m n o"]
CONFIG = TuningConfig(
    optimizer="mert",
    nbest_size=2,
    max_iterations=4,
    keep="best",
    search=OptimizerConfig(mert=MertConfig(n_restarts=2, n_directions=1)),
)


class FixedDecoder:
    """Ranks HYPOTHESES; counts how often it was asked."""

    calls = 0

    def decode(
        self,
        source: Path,
        out: Path,
        weights: Mapping[str, Sequence[float]] | None,
        nbest: Path | None,
        nbest_size: int,
    ) -> None:
        type(self).calls += 1
        assert weights is not None
        outputs, entries = [], []
        for number, hypotheses in enumerate(HYPOTHESES):
            scored = sorted(
                hypotheses,
                key=lambda h: -(h[1] * weights["Distortion0"][0] + h[2] * weights["LM0"][0]),
            )
            outputs.append(scored[0][0])
            for words, distortion, lm in scored[:nbest_size]:
                entries.append(
                    b"%d ||| %s  ||| Distortion0= %g LM0= %g ||| 0"
                    % (number, words, distortion, lm)
                )
        write_lines(out, outputs)
        if nbest is not None:
            write_lines(nbest, entries)


class FixedSystem(dict[str, Path]):
    """A system with its texts, by name, and the decoder that stands in for a real one."""

    decoder = FixedDecoder
    config = CONFIG

    @property
    def texts(self) -> tuple[Path, list[Path]]:
        """The source and its references."""
        return self["source"], [self["reference"]]

    @property
    def text(self) -> ParallelText:
        return ParallelText(*self.texts)

    def run(
        self, out: Path, seed: int = 1, resume: bool = False, config: TuningConfig = CONFIG
    ) -> TuningRun:
        """Tune."""
        return tune(TunedSystem(self["moses.ini"]), self.text, out, config, seed, resume=resume)


@dataclass(frozen=True)
class MosesIteration:
    """One iteration of a tuning run of Moses: its pool, its start, the BLEU (0 to 100) of mert and kbmira.

    That of kbmira is what its weights reach on the whole pool. Its log has another figure: it compares
    the features of a hypothesis with themselves (FeatureDataIterator.cpp, `operator==`), so it drops
    one of two hypotheses that fall into the same bucket of a hash table, and counts the rest.
    """

    pool: NBestPool
    start: NDArray[np.float64]
    mert_log: Path
    mert_bleu: float
    kbmira_bleu: float


def moses_iteration(golden: Path, number: int) -> MosesIteration:
    """The pool of all iterations up to one."""
    folder = golden / "mert"
    runs = range(1, number + 1)
    pool = read_moses_pool(
        [folder / f"run{run}.features.dat.gz" for run in runs],
        [folder / f"run{run}.scores.dat.gz" for run in runs],
    )
    mert_log = folder / f"iteration{number}.mert.log"
    best_point = re.search(r"Best point: .* => ([\d.]+)", mert_log.read_text())
    assert best_point
    lines = (folder / f"iteration{number}.kbmira.weights").read_text().split("\n")
    weights = np.array([float(line.split()[1]) for line in lines if line])
    kbmira_bleu = float(bleu(pool.statistics_of(weights)))
    start = read_init_opt(folder / f"run{number}.init.opt")[0]
    return MosesIteration(pool, start, mert_log, 100 * float(best_point[1]), kbmira_bleu)


@pytest.fixture(scope="session")
def first_iteration(golden: Path) -> MosesIteration:
    return moses_iteration(golden, 1)


@pytest.fixture(scope="session")
def second_iteration(golden: Path) -> MosesIteration:
    return moses_iteration(golden, 2)


@contextmanager
def open_fixed(ini: Path, config: DecoderConfig, jobs: int) -> Iterator[FixedDecoder]:
    yield FixedDecoder()


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FixedSystem:
    for module in (tuning_loop, translations, rerank_run):
        monkeypatch.setattr(module, "open_decoder", open_fixed)
    FixedDecoder.calls = 0
    files = FixedSystem(
        {name: tmp_path / name for name in ("moses.ini", "source", "lm")},
        reference=tmp_path / "reference.fr",
    )
    files["moses.ini"].write_text(INI)
    files["source"].write_bytes(b"1 2 3\n4 5\n6\n")
    files["reference"].write_bytes(b"".join(line + b"\n" for line in REFERENCES))
    files["lm"].write_bytes(b"")
    return files
