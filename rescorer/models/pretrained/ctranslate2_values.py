"""Models of CTranslate2, by its own scoring of batches.

A log-probability is that of all subwords of a target and of its end of sentence, as in
`hugging_face`; a language code, which the model is given, is not scored. A batch has sources of one
length and targets of one length, so no pair is padded because of another one, and enough rows that
its products are always summed in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import ctranslate2
import numpy as np

from moses_bridge.base.errors import InputError
from moses_bridge.base.machine import n_processors
from moses_bridge.base.progress import print_note
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.choices import Side
from rescorer.contract.compute import Compute
from rescorer.contract.numbered_phrases import distinct
from rescorer.contract.scorer import ScoredTokens, SubwordScorer
from rescorer.models.pretrained.settings import PretrainedSettings
from rescorer.models.pretrained.subwords import Subwords, too_long

PAIRS_AT_ONCE = 64
# Of a batch: pairs, and subwords of a side. With fewer, CTranslate2's products sum in another order.
FEWEST_PAIRS = 2
FEWEST_ROWS = 8
# In CTranslate2's error for a text longer than the model's positions, the one place that has their number.
POSITIONS = re.compile(r"positions >= (\d+)")

Tokens = list[str]


class CTranslate2Scorer(SubwordScorer):
    """A `rescorer.contract.scorer.Scorer` and `SubwordScorer`: natural log p(target | source), or p(target)."""

    def __init__(
        self, model: ctranslate2.Translator | ctranslate2.Generator, subwords: Subwords
    ) -> None:
        self._model, self._subwords = model, subwords
        self.note = subwords.note(isinstance(model, ctranslate2.Translator))

    def subword_log_probs(self, batch: Batch) -> list[ScoredTokens]:
        """See `contract.SubwordScorer`."""
        subwords, sources = self._subwords, list[Tokens]()
        found = subwords.targets(batch.targets)
        if isinstance(self._model, ctranslate2.Translator):
            phrases, which = distinct(batch.sources)
            known = [subwords.names(ids) for ids in subwords.sources(phrases)]
            sources = [known[number] for number in which]
            # score_batch adds the end of sentence to each target.
            prefix, given = subwords.target_prefix, [ids[:-1] for ids in found]
        else:
            sources = [[] for _ in found]
            prefix, given = subwords.target_prefix or [subwords.begin], found
        targets = [subwords.names([*prefix, *ids]) for ids in given]
        values, running = [np.empty(0)] * len(batch), []
        for rows in _batches(list(map(len, sources)), targets):
            own = [sources[row] for row in rows]
            running.append((rows, self._start_scoring(own, [targets[row] for row in rows])))
        try:
            for rows, results in running:
                for row, result in zip(rows, results, strict=False):  # fillers of a batch are last
                    log_probs = result.result().log_probs
                    values[row] = np.array(log_probs[-len(found[row]) :], np.float64)
        except RuntimeError as error:
            limit = POSITIONS.search(str(error))
            if limit is None:
                raise
            raise _first_too_long(batch, sources, targets, int(limit[1])) from error
        return [
            ScoredTokens(subwords.spelt(ids), own) for ids, own in zip(found, values, strict=True)
        ]

    def _start_scoring(
        self, sources: list[Tokens], targets: list[Tokens]
    ) -> list[ctranslate2.AsyncScoringResult]:
        """The scoring of a batch, filled up with its first pair."""
        is_translator = isinstance(self._model, ctranslate2.Translator)
        given = [sources, targets] if is_translator else [targets]
        n_rows = max(1, min(len(side[0]) for side in given))
        n_missing = max(0, FEWEST_PAIRS - len(targets), -(-FEWEST_ROWS // n_rows) - len(targets))
        found: list[ctranslate2.AsyncScoringResult] = self._model.score_batch(
            *(side + side[:1] * n_missing for side in given), max_input_length=0, asynchronous=True
        )
        return found


def _first_too_long(
    batch: Batch, sources: Sequence[Tokens], targets: Sequence[Tokens], limit: int
) -> UnscorablePair:
    """The error for the first pair with a side of more subwords than limit; a target has an end."""
    lens: dict[Side, list[int]] = {
        "source": list(map(len, sources)),
        "target": [len(target) + 1 for target in targets],
    }
    row, side = min(
        (row, side) for side, own in lens.items() for row, n in enumerate(own) if n > limit
    )
    return too_long(row, batch, side, f"{lens[side][row]} subwords", limit)


def _batches(source_lens: Sequence[int], targets: Sequence[Tokens]) -> Iterator[list[int]]:
    lens = list(zip(source_lens, map(len, targets), strict=True))
    group = list[int]()
    for row in sorted(range(len(lens)), key=lens.__getitem__):
        if group and (lens[row] != lens[group[0]] or len(group) == PAIRS_AT_ONCE):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def load_ctranslate2(
    directory: Path, settings: PretrainedSettings, compute: Compute, has_source: bool = True
) -> CTranslate2Scorer:
    """Load a model written by CTranslate2's converter, next to its tokenizer's files.

    It must be an encoder-decoder model if has_source, or else a language model.

    With bfloat16, compute replaces the number format of the conversion.

    Raises:
        InputError: the directory has no such model of CTranslate2, or no tokenizer.
        ConfigError: a language code is unknown, or there is no such device.
    """
    device = compute.place.type
    kind = "an encoder-decoder" if has_source else "a decoder-only language"
    expected = f"{kind} model that CTranslate2's converter wrote"
    if not ctranslate2.contains_model(str(directory)):
        raise InputError(directory, None, "no model.bin", expected)
    try:
        model = (ctranslate2.Translator if has_source else ctranslate2.Generator)(
            str(directory),
            device=device,
            compute_type="bfloat16" if compute.precision == "bfloat16" else "default",
            inter_threads=n_processors() if device == "cpu" else 1,
            intra_threads=1,
        )
    except (RuntimeError, ValueError) as error:
        told = " ".join(str(error).split())[:200]
        raise InputError(
            directory, None, f"a model that fails to load ({told})", expected
        ) from error
    if model.compute_type.startswith("int8"):
        print_note(
            f"note: {directory}: weights of 8 bits; values differ from those of the model that was converted"
        )
    return CTranslate2Scorer(model, Subwords(directory, settings))
