"""Reranking the lists of a tuning run, whose search stays as it is: features are added, and weights learned."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

from moses_bridge.base.config import from_mapping
from moses_bridge.base.errors import ConfigError
from moses_bridge.base.lock import held_directory
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.provenance import file_digest
from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.formats.moses_ini import read_ini
from moses_bridge.formats.text_notes import say_notes
from tuning.loop.fingerprints import (
    ParallelText,
    check_unchanged,
    fingerprint_commands,
    fingerprint_ini,
    refuse_commands,
)
from tuning.loop.ini_weights import write_tuned_ini
from tuning.loop.list_features import ListFeatures, NBestFeature, choose_best, search_weights
from tuning.loop.run_directory import (
    INI_NAME,
    WEIGHTS_NAME,
    TuningRun,
    Weights,
    claim,
    load_run,
    refuse_written,
    save_run,
)
from tuning.loop.settings import METRIC_SETTINGS, RerankConfig, TuningConfig
from tuning.loop.tuning_loop import CountedText, Loop, print_iteration

ENDED = "the lists of one decoding are reranked"
# Settings that do not concern a run.
OF_LISTS = (
    *("n_runs", "list_format", "list_size", "word_penalty"),
    *("mbr", "mbr_command", "mbr_cache"),
)


def rerank_run(
    base: Path,
    text: ParallelText,
    out: Path,
    config: RerankConfig,
    seed: int = 1,
    jobs: int = 1,
    resume: bool = False,
    nbest_features: Sequence[NBestFeature] = (),
) -> TuningRun:
    """Tune the weights of a reranking on the n-best lists of a run.

    This is for features that cannot be computed during search, which stays as it is. A reranking without an
    added feature is the control: it shows the gain of the reranking itself. Columns whose weight the run kept
    are kept here too.

    Args:
        base: the run directory of `tune`; its weights make the lists and are the start.
        text: the dev text.
        out: run directory, with the files of `tune`; its moses.ini has the weights of the search.
        config: settings.
        seed: seed of the optimiser.
        jobs: number of processes of the decoder, and of threads of the optimiser.
        resume: continue the run in out.
        nbest_features: features to add to those of the run, without stand-ins, since the search does not
            change.

    Returns:
        The run. Its two iterations are the best hypotheses of the lists, before and after reranking.

    Raises:
        InputError: an input file is malformed.
        ConfigError: the run is a reranking itself, its files have changed, or it has commands without
            `run_commands`; out holds another run; a feature has the name of another, or a stand-in; or an
            input would be overwritten.
        UserError: another command is writing into out.
    """
    refuse_overwriting([out], [base])
    refuse_written(out, text.files)
    with ExitStack() as stack:
        stack.enter_context(held_directory(out))
        tuned = load_run(base)
        ini = read_ini(Path(tuned.ini))
        refuse_written(out, ini.files())
        if not config.run_commands:  # before reading the files named in the commands
            refuse_commands({base: tuned})
        check_unchanged({base: tuned})
        run = replace(
            tuned,
            weights=_run_start(base, tuned, nbest_features),
            seed=seed,
            nbest_size=config.nbest_size,
            nbest_features=[*tuned.nbest_features, *nbest_features],
            iterations=[],
            fixed_search=search_weights(tuned.weights, tuned.nbest_features),
            end=ENDED,
            metric=config.metric,
        )
        counted = CountedText.read(text, config.chosen_metric)
        settings = _settings(base, tuned, config)
        files = fingerprint_ini(ini) | fingerprint_commands(run.commands())
        texts = text.hashes()
        used = {"base": file_digest(base / WEIGHTS_NAME), "files": files, "text": texts}
        claim(out, used | _fingerprint(run, config), resume)
        run.hashes = files | texts
        decoder = stack.enter_context(open_decoder(Path(run.ini), settings.decoder, jobs))
        lists = stack.enter_context(ListFeatures(run.nbest_features))
        _optimise(Loop(decoder, lists, counted, out, settings, run, jobs))
        say_notes(text.source, text.references, [out / "iter02.out"])
        save_run(run, out)
        write_tuned_ini(ini, run.fixed_search, out / INI_NAME)
    return run


def _run_start(base: Path, tuned: TuningRun, added: Sequence[NBestFeature]) -> Weights:
    """The run's weights and those of the added features."""
    if tuned.fixed_search:
        raise ConfigError(f"{base} is a reranking itself; name the run whose lists it reranks")
    weights = dict(tuned.weights)
    for feature in added:
        if feature.name in weights:
            raise ConfigError(f"{base} has a feature {feature.name}; use another name")
        if feature.stand_in:
            raise ConfigError(
                f"{feature.name}: the search does not change, so a feature has no stand-in; leave "
                f":{feature.stand_in} out"
            )
        weights[feature.name] = [feature.initial_weight]
    return weights


def _settings(base: Path, tuned: TuningRun, config: RerankConfig) -> TuningConfig:
    """The settings of the loop: the search of the run, and its columns that kept their weight."""
    optimised = [each for each in tuned.iterations if each.pool_bleu is not None]
    return TuningConfig(
        optimizer=config.optimizer,
        nbest_size=config.nbest_size,
        left_out=tuple(optimised[-1].frozen) if optimised else (),
        metric=config.metric,
        metric_command=config.metric_command,
        metric_cache=config.metric_cache,
        search=config.search,
        decoder=from_mapping(DecoderConfig, json.loads(json.dumps(tuned.decoder)), str(base)),
    )


def _fingerprint(run: TuningRun, config: RerankConfig) -> dict[str, object]:
    """The inputs of this reranking other than files and texts."""
    left_out = (*OF_LISTS, *(METRIC_SETTINGS if config.metric == "bleu" else ()))
    return {
        "config": {key: value for key, value in asdict(config).items() if key not in left_out},
        "features": [asdict(feature) for feature in run.nbest_features],
        "start": run.weights,
        "seed": run.seed,
    }


def _optimise(loop: Loop) -> None:
    """Decode, optimise the weights, and measure their choice from the same lists."""
    listed, pool = loop.decode(1, loop.run.weights)
    found = loop.optimise(1, listed, pool)
    print_iteration(1, listed)
    nbest, output = loop.out / "iter01.nbest.gz", loop.out / "iter02.out"
    choose_best(nbest, found, loop.text.source, output)
    chosen = loop.measured(found, output, listed.oracle_bleu)
    print(f"reranked: dev BLEU {chosen.bleu:.2f}", file=sys.stderr, flush=True)
    loop.run.iterations = [listed, chosen]
    loop.run.weights, loop.run.dev_bleu = found, chosen.bleu
    loop.run.caution = loop.caution(chosen, pool)
