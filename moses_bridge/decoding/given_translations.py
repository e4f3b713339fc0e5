"""Given translations: produced again by forced decoding, or scored as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from moses_bridge.base.compiled.notice import CompilationNotice
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.progress import track_lines
from moses_bridge.base.text_lines import read_parallel, read_text_lines
from moses_bridge.base.textio import write_lines
from moses_bridge.builtin.decoder.batches import Work, translate_lines
from moses_bridge.builtin.decoder.forced import ForcedTranslator, rescored_lines
from moses_bridge.builtin.decoder.model import load_model
from moses_bridge.builtin.decoder.nbest_lines import NBestFormat
from moses_bridge.builtin.decoder.ngram_memo import CachedScorers
from moses_bridge.builtin.decoder.search import Limits
from moses_bridge.builtin.decoder.translator import (
    Translator,
    check_source,
    effective_distortion_limit,
)
from moses_bridge.builtin.decoder.weighted_model import make_weighted_model
from moses_bridge.decoding.builtin_decoder import READING, SEARCH, write_translations
from moses_bridge.decoding.interface import DecoderConfig, Weights
from moses_bridge.formats.moses_ini import read_ini
from moses_bridge.formats.words import split_words

ALL_ROWS = 0  # as table limit
NO_SEARCH = Limits(1, 1, 0)  # entries are scored without a search, so they need no memory for one


@dataclass(frozen=True)
class ForcedReport:
    """The result of forced decoding.

    Attributes:
        n_lines: lines of the input.
        n_missed: lines with words whose translation the model cannot produce.
    """

    n_lines: int
    n_missed: int


def force_translations(
    ini: Path, config: DecoderConfig, jobs: int, source: Path, target: Path, out: Path,
    weights: Weights | None, nbest: Path | None,
) -> ForcedReport:  # fmt: skip
    """Find the best derivation of each given translation.

    Args:
        ini: the moses.ini.
        config: the distortion limit applies, and so does the table limit if it is set here (the ini's does
            not). Segmentation and alignment are in the n-best list if set.
        jobs: processes.
        source: tokenized sentences, one a line.
        target: their translations.
        out: the translations again, with an empty line for each one impossible to produce.
        weights: by feature name, instead of the ini's.
        nbest: n-best list with one entry for each translation produced.

    Raises:
        ConfigError: a setting does not fit, a weight has no feature, or an output is an input.
        InputError: a file cannot be read, or the texts have different numbers of lines.
    """
    if config.neural_lm or config.kind == "moses":
        raise ConfigError("translations are forced by the built-in decoder without a neural model")
    written = [out] if nbest is None else [out, nbest]
    refuse_overwriting(written, [source, target, *read_ini(ini).files()])
    lines = list(read_parallel(source, target))
    sources = [line for line, _ in lines]
    form = None if nbest is None else NBestFormat(1, 1, config.segmentation, config.alignment)
    with CompilationNotice(READING):
        translator = _forced_translator(ini, config, weights, [line for _, line in lines])
    check_source(sources, translator.model, source)
    with CompilationNotice(SEARCH):
        results = translate_lines(Work(translator, form), sources, jobs, CachedScorers())
        n_empty = write_translations(results, len(lines), out, nbest)
    n_blank = sum(not split_words(line) for line in sources)  # their translations are empty
    return ForcedReport(len(lines), n_empty - n_blank)


def _forced_translator(
    ini: Path, config: DecoderConfig, weights: Weights | None, targets: Sequence[bytes]
) -> ForcedTranslator:
    table_limit = ALL_ROWS if config.table_limit is None else config.table_limit
    model = load_model(ini, table_limit, config.distortion_limit)
    limits = Limits(1, 1, effective_distortion_limit(model.distortion_limit))
    sparse = model.sparse_weights(weights)
    weighted = make_weighted_model(model, model.weight_vector(weights))
    return ForcedTranslator(model, weighted, limits, targets, sparse)


def score_entries(ini: Path, source: Path, nbest: Path, out: Path, weights: Weights | None) -> None:
    """Recompute features and totals of an n-best list from its segmentation.

    Args:
        ini: the moses.ini.
        source: tokenized sentences, one a line, id 0 first.
        nbest: n-best list with segmentation (-include-segmentation-in-n-best).
        out: the list with the model's values, the entries in the same order.
        weights: by feature name, instead of the ini's.

    Raises:
        ConfigError: a weight has no feature, or the output is an input.
        InputError: a file cannot be read, or an entry has no segmentation into phrase pairs of the model.
    """
    refuse_overwriting([out], [source, nbest, *read_ini(ini).files()])
    with CompilationNotice(READING):
        model = load_model(ini, ALL_ROWS, None)
        sparse = model.sparse_weights(weights)
        weighted = make_weighted_model(model, model.weight_vector(weights))
        translator = Translator(model, weighted, NO_SEARCH, sparse)
        sources = list(read_text_lines(source))
        check_source(sources, model, source)
        lines = rescored_lines(translator, sources, nbest)
        write_lines(out, track_lines(lines, "score n-best list", nbest, "hypotheses"))
