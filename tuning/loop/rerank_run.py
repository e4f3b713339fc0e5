"""Weights for reranking the n-best lists of a finished run, without changing its search.

This is for features that cannot be computed during search: the lists come from a tuned system, and the
weights for choosing among their hypotheses are learned once. A reranking without an added feature is the
control: it shows the gain of the reranking itself.
"""

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
from moses_bridge.decoding.decoder import DecoderConfig, open_decoder
from moses_bridge.formats.moses_ini import read_ini
from tuning.loop.iteration_files import Weights
from tuning.loop.list_features import ListFeatures
from tuning.loop.nbest_choice import NBestFeature, choose_best, search_weights
from tuning.loop.rerank_config import RerankConfig
from tuning.loop.run_directory import (
    INI_NAME,
    TuningRun,
    check_unchanged,
    claim,
    file_hash,
    fingerprint_commands,
    fingerprint_ini,
    fingerprint_texts,
    load_run,
    refuse_commands,
    refuse_written,
    save_run,
)
from tuning.loop.tuning_loop import (
    METRIC_SETTINGS,
    Loop,
    TuningConfig,
    print_iteration,
    write_tuned_ini,
)
from tuning.pools.bleu_stats import References

ENDED = "the lists of one decoding are reranked"
# Settings that do not concern a run.
OF_LISTS = ("n_runs", "list_format", "word_penalty", "mbr", "mbr_command", "mbr_cache")


def rerank_run(
    base: Path,
    source: Path,
    references: Sequence[Path],
    out: Path,
    config: RerankConfig,
    seed: int = 1,
    jobs: int = 1,
    resume: bool = False,
    nbest_features: Sequence[NBestFeature] = (),
) -> TuningRun:
    """Tune the weights of a reranking on the n-best lists of a run.

    Columns whose weight the run kept are kept here too.

    Args:
        base: the run directory of `tune`; its weights make the lists and are the start.
        source: dev source text.
        references: dev references, one file each.
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
    refuse_written(out, [source, *references])
    with held_directory(out):
        return _rerank(base, source, references, out, config, seed, jobs, resume, nbest_features)


def _rerank(
    base: Path,
    source: Path,
    references: Sequence[Path],
    out: Path,
    config: RerankConfig,
    seed: int,
    jobs: int,
    resume: bool,
    nbest_features: Sequence[NBestFeature],
) -> TuningRun:
    tuned = load_run(base)
    refuse_written(out, read_ini(Path(tuned.ini)).files())
    if not config.run_commands:  # before reading the files named in the commands
        refuse_commands({base: tuned})
    check_unchanged({base: tuned})
    weights = _start(base, tuned, nbest_features)
    reference = References.read(references, source)
    counter = config.chosen_metric.references(references, source)
    decoder_config = from_mapping(DecoderConfig, json.loads(json.dumps(tuned.decoder)), str(base))
    run = replace(
        tuned,
        weights=weights,
        seed=seed,
        nbest_size=config.nbest_size,
        nbest_features=[*tuned.nbest_features, *nbest_features],
        iterations=[],
        fixed_search=search_weights(tuned.weights, tuned.nbest_features),
        end=ENDED,
        metric=config.metric,
    )
    settings = TuningConfig(
        optimizer=config.optimizer,
        nbest_size=config.nbest_size,
        left_out=_left_alone(tuned),
        metric=config.metric,
        metric_command=config.metric_command,
        metric_cache=config.metric_cache,
        search=config.search,
        decoder=decoder_config,
    )
    with ExitStack() as stack:
        _claim(out, base, run, source, references, config, resume)
        decoder = stack.enter_context(open_decoder(Path(run.ini), decoder_config, jobs))
        lists = stack.enter_context(ListFeatures(run.nbest_features))
        loop = Loop(decoder, lists, source, reference, counter, out, settings, run, jobs)
        _optimise(loop, weights)
        save_run(run, out)
        write_tuned_ini(Path(run.ini), run.fixed_search, out / INI_NAME)
    return run


def _start(base: Path, tuned: TuningRun, added: Sequence[NBestFeature]) -> Weights:
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


def _left_alone(tuned: TuningRun) -> tuple[str, ...]:
    """Columns keeping their weight in the run's last optimisation: frozen, or with one value in the pool."""
    optimised = [each for each in tuned.iterations if each.pool_bleu is not None]
    return tuple(optimised[-1].frozen) if optimised else ()


def _claim(
    out: Path,
    base: Path,
    run: TuningRun,
    source: Path,
    references: Sequence[Path],
    config: RerankConfig,
    resume: bool,
) -> None:
    """Claim a directory for this reranking, and record the files it uses."""
    files = fingerprint_ini(Path(run.ini)) | fingerprint_commands(run.commands())
    texts = fingerprint_texts(source, references)
    left_out = (*OF_LISTS, *(METRIC_SETTINGS if config.metric == "bleu" else ()))
    fingerprint = {
        "base": file_hash(base / "weights.json"),
        "files": files,
        "text": texts,
        "config": {key: value for key, value in asdict(config).items() if key not in left_out},
        "features": [asdict(feature) for feature in run.nbest_features],
        "start": run.weights,
        "seed": run.seed,
    }
    claim(out, fingerprint, resume)
    run.hashes = files | texts


def _optimise(loop: Loop, start: Weights) -> None:
    """Decode, optimise the weights, and measure their choice from the same lists."""
    listed, pool = loop.decode(1, start)
    found = loop.optimise(1, listed, pool)
    print_iteration(1, listed)
    nbest, output = loop.out / "iter01.nbest.gz", loop.out / "iter02.out"
    choose_best(nbest, found, loop.source, output)
    chosen = loop.measured(found, output, listed.oracle_bleu)
    print(f"reranked: dev BLEU {chosen.bleu:.2f}", file=sys.stderr, flush=True)
    loop.run.iterations = [listed, chosen]
    loop.run.weights, loop.run.dev_bleu = found, chosen.bleu
