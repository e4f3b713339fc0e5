"""The tuning loop around a stand-in decoder that chooses among fixed hypotheses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError, ToolError
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.decoding import interface
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.formats.moses_ini import read_ini
from moses_bridge.formats.weights import sparse_weights
from tests.tuning.conftest import CONFIG, HYPOTHESES
from tuning.cli import main
from tuning.compare.systems import CompareConfig, compare
from tuning.loop import tuning_loop as loop
from tuning.loop.list_features import ListFeatures, NBestFeature, decode_text
from tuning.loop.run_directory import load_run
from tuning.loop.settings import TuningConfig
from tuning.loop.tuning_loop import TunedSystem, tune, weight_change
from tuning.metrics.by_name import MetricName
from tuning.optimisers.contract import OptimizerResult
from tuning.optimisers.nbest_pool import NBestPool, make_pool, oracle_value

if TYPE_CHECKING:
    from tests.tuning.conftest import FixedSystem


def test_weights_that_give_the_references_are_found(system: FixedSystem, tmp_path: Path) -> None:
    result = system.run(tmp_path / "run")
    assert result.iterations[0].bleu < 60
    assert result.dev_bleu == pytest.approx(100)
    assert result.weights["Distortion0"][0] > result.weights["LM0"][0]
    assert load_run(tmp_path / "run") == result
    given = system["moses.ini"].read_text()
    tuned = (tmp_path / "run" / "moses.ini").read_text()
    assert tuned.split("[weight]")[0] == given.split("[weight]")[0].replace("path=", "path=../")
    assert tuned != given


@pytest.mark.parametrize("metric", ["chrf", "ter", "word-accuracy", "cer"])
def test_a_run_may_be_tuned_for_another_metric(
    metric: MetricName, system: FixedSystem, tmp_path: Path
) -> None:
    config = replace(CONFIG, metric=metric)
    found = tune(TunedSystem(system["moses.ini"]), system.text, tmp_path / "run", config)
    assert found.dev_bleu == pytest.approx(100)
    assert load_run(tmp_path / "run") == found
    best = found.iterations[found.kept - 1]
    assert (found.metric, best.score) == (metric, 0.0 if metric in ("ter", "cer") else 100.0)
    first = found.iterations[0]
    assert first.score is not None and first.pool_bleu == best.score == first.oracle_bleu
    with pytest.raises(ConfigError, match="a run with other config"):
        system.run(tmp_path / "run")


def test_a_run_tuned_for_bleu_has_no_keys_of_other_metrics(
    system: FixedSystem, tmp_path: Path
) -> None:
    system.run(tmp_path / "run")
    record = json.loads((tmp_path / "run" / "weights.json").read_text())
    assert "metric" not in record and "score" not in record["iterations"][0]
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert not [key for key in settings if key.startswith("metric")]


def test_what_is_not_frozen_is_not_told(
    system: FixedSystem, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    system.run(tmp_path / "run")
    told = capsys.readouterr().err
    assert "iteration 1: dev BLEU" in told
    assert "sparse" not in told and "frozen" not in told


def test_a_finished_run_is_not_decoded_again(system: FixedSystem, tmp_path: Path) -> None:
    first = system.run(tmp_path / "run")
    n_calls = system.decoder.calls
    assert system.run(tmp_path / "run", resume=True) == first
    assert system.decoder.calls == n_calls


def test_an_interrupted_run_gives_the_same_weights(system: FixedSystem, tmp_path: Path) -> None:
    whole = system.run(tmp_path / "whole")
    system.run(tmp_path / "cut")
    for name in ("weights.json", "iter02.decoded.json", "iter02.optimised.json"):
        (tmp_path / "cut" / name).unlink(missing_ok=True)
    assert system.run(tmp_path / "cut", resume=True).weights == whole.weights


def test_an_unfinished_directory_is_not_overwritten(system: FixedSystem, tmp_path: Path) -> None:
    out = tmp_path / "new" / "run"
    run = tune(TunedSystem(system["moses.ini"]), system.text, out, system.config)
    assert run.seed == 1
    outputs = [f"iter{number:02}.out" for number in range(1, len(run.iterations) + 1)]
    assert sorted(path.name for path in out.glob("*.out")) == outputs
    with pytest.raises(ConfigError, match="--resume"):
        tune(TunedSystem(system["moses.ini"]), system.text, out, system.config)


def test_a_run_of_another_table_is_refused(system: FixedSystem, tmp_path: Path) -> None:
    system.run(tmp_path / "run")
    system["lm"].write_bytes(b"other")
    with pytest.raises(ConfigError, match="other files"):
        system.run(tmp_path / "run", resume=True)


def test_weights_of_another_run_are_the_start(system: FixedSystem, tmp_path: Path) -> None:
    first = system.run(tmp_path / "first")
    started = TunedSystem(system["moses.ini"], init_weights=tmp_path / "first" / "weights.json")
    again = tune(started, system.text, tmp_path / "second", system.config)
    assert again.iterations[0].weights == first.weights
    assert again.iterations[0].bleu == pytest.approx(100)


def test_an_added_feature_has_a_name_of_its_own(system: FixedSystem, tmp_path: Path) -> None:
    def tuned(names: Sequence[str]) -> None:
        features = [NBestFeature(name, "cp {nbest} {out}") for name in names]
        tuned_system = TunedSystem(system["moses.ini"], features)
        tune(tuned_system, system.text, tmp_path / "run", system.config)

    with pytest.raises(ConfigError, match=r"moses\.ini has a feature LM0; use another name"):
        tuned(["LM0"])
    with pytest.raises(ConfigError, match="the feature A0 is added twice"):
        tuned(["A0", "A0"])
    assert system.decoder.calls == 0


def test_the_change_of_weights_is_the_largest_after_scaling() -> None:
    """(2, -2, 4) / 8 and (6, -2, 8) / 16: 1/4, -1/4, 1/2 become 3/8, -1/8, 1/2."""
    ids, rows = np.zeros(2, np.int64), np.eye(2, 3)
    pool = make_pool(("LM0_0", "T0_0", "T0_1"), ids, rows, np.zeros((2, 9), np.int64))
    before, after = {"LM0": [2.0], "T0": [-2.0, 4.0]}, {"LM0": [6.0], "T0": [-2.0, 8.0]}
    assert weight_change(pool, before, after) == weight_change(pool, after, before) == 0.125
    doubled = {name: [2 * value for value in row] for name, row in before.items()}
    assert weight_change(pool, before, doubled) == 0.0


def test_a_tuning_has_an_iteration() -> None:
    with pytest.raises(ConfigError, match="max_iterations is 0; the smallest value is 1"):
        TuningConfig(max_iterations=0)


def test_a_neural_language_model_starts_at_0_and_belongs_to_the_run(
    system: FixedSystem, tmp_path: Path
) -> None:
    def tuned(command: str) -> loop.TuningRun:
        config = replace(system.config, decoder=DecoderConfig(neural_lm=f"CSLM0={command}"))
        return system.run(tmp_path / "run", resume=True, config=config)

    result = tuned("serve one")
    assert result.iterations[0].weights["CSLM0"] == [0.0]
    assert load_run(tmp_path / "run").decoder["neural_lm"] == ("CSLM0=serve one",)
    assert tuned("serve one") == result
    with pytest.raises(ConfigError, match="other config"):
        tuned("serve another")


def test_several_neural_models_start_where_they_are_told(
    system: FixedSystem, tmp_path: Path
) -> None:
    init = tmp_path / "init.json"
    init.write_text('{"LM0": [0.7], "B0": [0.3]}')

    def start(*names: str, weight: float = 0.05) -> Mapping[str, list[float]]:
        neural_lm = tuple(f"{name}=serve {name.lower()}" for name in names)
        decoder = DecoderConfig(neural_lm=neural_lm)
        config = replace(system.config, decoder=decoder, neural_weight=weight)
        out = tmp_path / "-".join(names)
        run = tune(TunedSystem(system["moses.ini"], init_weights=init), system.text, out, config)
        assert run.commands() == {name: f"serve {name.lower()}" for name in names}
        assert load_run(out).commands() == run.commands()
        return run.iterations[0].weights

    found = start("A0", "B0")
    assert (found["LM0"], found["A0"], found["B0"]) == ([0.7], [0.05], [0.3])
    with pytest.raises(ConfigError, match="2 neural models have the name A0"):
        start("A0", "A0")
    with pytest.raises(ConfigError, match="has a feature LM0; use another name"):
        start("LM0")


@pytest.mark.parametrize(
    ("kept", "commands"), [("A0=serve it", {"A0": "serve it"}), (None, {}), (["A0=x"], {"A0": "x"})]
)
def test_older_runs_keep_one_neural_model_or_none(
    system: FixedSystem, tmp_path: Path, kept: object, commands: dict[str, str]
) -> None:
    system.run(tmp_path / "run")
    path = tmp_path / "run" / "weights.json"
    written = json.loads(path.read_text())
    written["decoder"]["neural_lm"] = kept
    path.write_text(json.dumps(written))
    assert load_run(tmp_path / "run").commands() == commands


def test_sparse_features_that_the_ini_has_no_weights_for_are_not_tuned(
    system: FixedSystem,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = system.decoder.decode

    def decode(self: Any, *arguments: Any) -> None:
        plain(self, *arguments)
        nbest = arguments[3]
        lines = list(read_lines(nbest))
        write_lines(
            nbest, [line.replace(b"LM0=", b"WT_a~b= 1 LM0=") for line in lines[::2]] + lines[1::2]
        )

    monkeypatch.setattr(system.decoder, "decode", decode)
    result = system.run(tmp_path / "run")
    assert result.dev_bleu == pytest.approx(100)
    assert set(result.weights) == {"Distortion0", "LM0"}
    assert result.iterations[0].frozen == ["WT_a~b_0"]
    search = replace(system.config.search, frozen=("LM0_0",))
    system.run(tmp_path / "frozen", config=replace(system.config, search=search))
    told = capsys.readouterr().err.split("frozen, weight kept: LM0_0")[0]
    assert told.endswith("  1 sparse features, not tuned\n  constant or ")


def test_faults_of_the_dev_text_are_said_at_the_end(
    system: FixedSystem, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    system["reference"].write_bytes(b"a B c d e\r\nf g h i |||\r\n\r\n")
    system.run(tmp_path / "run")
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    reference = system["reference"]
    assert notes[0].startswith(
        f"note: {reference}: left out the carriage return at the end of 3 of"
    )
    assert notes[1].startswith(
        f"note: {reference}:3: the first of 1 of 3 sentences that have no ref"
    )
    assert notes[2].endswith(f"0 of 15 words, {reference} in 1 of 10: they are other words to BLEU")
    assert notes[3].endswith(
        "'|||' of the references is another word in n-best lists, &#124;&#124;&#124;"
    )


def test_no_output_stands_for_one_that_was_not_reranked(
    system: FixedSystem, tmp_path: Path
) -> None:
    broken = NBestFeature("A0", "false {nbest} {out}")
    output, weights = tmp_path / "output", {"Distortion0": [0.5], "LM0": [0.5], "A0": [1.0]}
    with pytest.raises(ToolError, match="false"):
        decode_text(
            system.decoder(), system["source"], output, None, weights, ListFeatures([broken]), 2
        )
    assert system.decoder.calls == 1
    assert not output.exists()


def test_the_decoder_searches_with_the_weights_of_both(system: FixedSystem, tmp_path: Path) -> None:
    """What the search puts first changes with the stand-in's weight; what is reranked does not."""
    command = "sh -c 'zcat {nbest} | sed \"s/LM0=/A0= 0 LM0=/\" | gzip > {out}'"
    zero = NBestFeature("A0", command, stand_in="LM0")
    output, nbest = tmp_path / "output", tmp_path / "nbest"
    weights = {"Distortion0": [1.0], "LM0": [0.0], "A0": [1.0]}
    decode_text(system.decoder(), system["source"], output, nbest, weights, ListFeatures([zero]), 1)
    assert next(read_lines(output)) == b"a b x d e"


def test_a_fixed_search_makes_the_lists_that_are_reranked(
    system: FixedSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it and without added features the decoder's own output stands, and no list is wanted."""
    asked: list[tuple[Any, ...]] = []
    plain = system.decoder.decode

    def decode(self: Any, *arguments: Any) -> None:
        asked.append(arguments[1:])
        plain(self, *arguments)

    monkeypatch.setattr(system.decoder, "decode", decode)
    right, wrong = {"Distortion0": [1.0], "LM0": [0.0]}, {"Distortion0": [0.0], "LM0": [1.0]}
    output, lists = tmp_path / "output", ListFeatures([])
    decode_text(system.decoder(), system["source"], output, None, wrong, lists, 2)
    assert asked == [(output, wrong, None, 2)]
    assert next(read_lines(output)) == b"a b x d e"
    decode_text(system.decoder(), system["source"], output, None, right, lists, 2, wrong)
    assert asked[1][1] == wrong
    assert next(read_lines(output)) == b"a b c d e"
    decode_text(system.decoder(), system["source"], output, None, right, lists, 1, wrong)
    assert next(read_lines(output)) == b"a b x d e"


def scripted(
    weights: Sequence[Mapping[str, float]], sizes: list[int], promised: float = 101.0
) -> Any:
    """An optimiser that gives these weights one after the other and notes the size of each pool."""
    left = iter(weights)

    def optimize(pool: NBestPool, *_: object) -> OptimizerResult:
        sizes.append(len(pool))
        return OptimizerResult(dict(next(left)), promised)

    return lambda name: optimize


GOOD, BAD = {"Distortion0_0": 1.0, "LM0_0": 0.0}, {"Distortion0_0": 0.0, "LM0_0": 1.0}
SO_SO = {"Distortion0_0": 0.8, "LM0_0": 0.2}


def test_the_best_weights_are_kept_and_not_the_last(
    system: FixedSystem,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(loop, "load_optimizer", scripted([GOOD, BAD, BAD], []))
    result = system.run(tmp_path / "run")
    assert [each.bleu > 99 for each in result.iterations] == [False, True, False]
    assert result.weights == {"Distortion0": [1.0], "LM0": [0.0]}
    assert result.dev_bleu == result.iterations[1].bleu
    assert result.end == "weights settled"
    assert "kept: iteration 2; weights settled" in capsys.readouterr().err


def test_where_the_last_weights_are_kept_bleu_ends_nothing(
    system: FixedSystem,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither a pool that promises nothing nor decodings that are no better: settled weights alone."""
    monkeypatch.setattr(loop, "load_optimizer", scripted([GOOD, SO_SO, BAD, BAD], [], 0.0))
    config = replace(system.config, keep="last", patience=1, max_iterations=9)
    result = system.run(tmp_path / "run", config=config)
    assert result.weights == {"Distortion0": [0.0], "LM0": [1.0]}
    assert result.dev_bleu == result.iterations[3].bleu < result.iterations[1].bleu
    assert result.end == "weights settled"
    assert result.kept == len(result.iterations) == 4
    assert "kept: iteration 4; weights settled" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="other config"):
        system.run(tmp_path / "run", resume=True)


def test_a_run_that_keeps_far_worse_weights_says_so_on_its_last_line(
    system: FixedSystem,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(loop, "load_optimizer", scripted([GOOD, BAD, BAD], []))
    config = replace(system.config, keep="last")
    result = system.run(tmp_path / "run", config=config)
    loss = 100 - result.dev_bleu
    assert loss > 40
    assert result.caution.startswith(f"iteration 2 had 100.00, {loss:.2f} better; keep = ")
    assert load_run(tmp_path / "run").caution == result.caution
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"kept: iteration 3; weights settled; warning: {result.caution}"
    monkeypatch.setattr(loop, "load_optimizer", scripted([GOOD, BAD, BAD], []))
    assert not system.run(tmp_path / "best").caution


def test_far_worse_weights_are_those_with_more_of_an_error(
    system: FixedSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "load_optimizer", scripted([GOOD, BAD, BAD], [], -1.0))
    config = replace(system.config, keep="last", metric="ter")
    result = system.run(tmp_path / "run", config=config)
    assert result.caution.startswith("iteration 2 had 0.00, ")


def test_a_run_without_any_match_says_so(system: FixedSystem, tmp_path: Path) -> None:
    system["reference"].write_text("u\nv\nw\n")
    result = system.run(tmp_path / "run")
    assert result.dev_bleu == 0
    assert result.caution.startswith("it is 0: are the references of this text")


@pytest.mark.parametrize(
    ("nbest_size", "features", "reason"),
    [
        (1, None, "all hypotheses of each sentence are the same"),
        (2, (-1.0, -2.0), "no feature whose weight may change differs between the hypotheses"),
    ],
)
def test_a_run_on_lists_that_teach_nothing_says_so(
    nbest_size: int,
    features: tuple[float, float] | None,
    reason: str,
    system: FixedSystem,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if features:
        alike = [[(words, *features) for words, *_ in each] for each in HYPOTHESES]
        monkeypatch.setitem(system.decoder.decode.__globals__, "HYPOTHESES", alike)
    found = system.run(tmp_path / "run", config=replace(CONFIG, nbest_size=nbest_size))
    assert found.caution.startswith(f"nothing can be learned from these lists: {reason}")


def test_the_command_prints_the_warning_in_the_line_of_the_result(
    system: FixedSystem, tmp_path: Path
) -> None:
    texts = [word for name in ("source", "reference") for word in (f"--{name}", str(system[name]))]
    options = ["--ini", str(system["moses.ini"]), "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(main, ["tune", *options, *texts, "--nbest-size", "1"])
    assert result.exit_code == 0, result.output
    last = result.stdout.splitlines()[-1]
    assert last.startswith("dev BLEU ") and "weights.json; warning: nothing can be learned" in last


@pytest.mark.parametrize("name", ["iter01.nbest.gz", "iter01.out"])
def test_a_changed_file_of_a_decoding_is_made_again(
    name: str, system: FixedSystem, tmp_path: Path
) -> None:
    """A list that lost its last sentence taught other weights when the run went on."""
    whole = system.run(tmp_path / "run")
    path = tmp_path / "run" / name
    lines = [*read_lines(path)]
    write_lines(path, lines[:-1])
    n_calls = system.decoder.calls
    for later in ("weights.json", "iter01.optimised.json"):
        (tmp_path / "run" / later).unlink()
    assert system.run(tmp_path / "run", resume=True) == whole
    assert [*read_lines(path)] == lines
    assert system.decoder.calls == n_calls + 1


def test_the_limit_holds_where_the_last_weights_are_kept(
    system: FixedSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "load_optimizer", scripted([GOOD, BAD], []))
    config = replace(system.config, keep="last", max_iterations=3)
    result = system.run(tmp_path / "run", config=config)
    assert result.weights == {"Distortion0": [0.0], "LM0": [1.0]}
    assert (result.kept, result.end) == (3, "the limit of iterations")


def test_a_run_that_finds_nothing_better_than_its_start_says_so(
    system: FixedSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ini = system["moses.ini"]
    ini.write_text(ini.read_text().replace("LM0= 0.5", "LM0= 0"))
    monkeypatch.setattr(loop, "load_optimizer", scripted([BAD, BAD, BAD], []))
    result = system.run(tmp_path / "run")
    assert result.iterations[0].bleu == pytest.approx(100)
    assert result.weights == result.iterations[0].weights
    assert not result.left_start
    assert not load_run(tmp_path / "run").left_start


def test_the_pool_has_the_lists_of_all_iterations(
    system: FixedSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(loop, "load_optimizer", scripted([GOOD, BAD, GOOD], sizes))
    system.run(tmp_path / "run", config=replace(system.config, nbest_size=1))
    assert sizes == [3, 5, 6]


def test_the_lists_of_the_first_iterations_leave_the_pool(
    system: FixedSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool has as many hypotheses as the lists from the third on have distinct lines."""
    sizes: list[int] = []
    monkeypatch.setattr(loop, "load_optimizer", scripted([GOOD, BAD, GOOD, BAD], sizes))
    config = replace(system.config, nbest_size=1, keep="last", max_iterations=5, dropped_lists=2)
    result = system.run(tmp_path / "run", config=config)
    lists = [{*read_lines(tmp_path / "run" / f"iter0{number}.nbest.gz")} for number in range(1, 5)]
    pools = (lists[0], lists[0] | lists[1], lists[2], lists[2] | lists[3])
    assert sizes == [len(pool) for pool in pools] == [3, 5, 3, 6]
    monkeypatch.setattr(loop, "load_optimizer", scripted([], []))
    assert system.run(tmp_path / "run", config=config, resume=True) == result


def test_no_run_ends_before_the_first_lists_are_dropped(
    system: FixedSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "load_optimizer", scripted([GOOD] * 20, [], 0.0))
    for keep in ("best", "last"):
        config = replace(system.config, patience=1, max_iterations=9)
        settled = system.run(tmp_path / keep, config=replace(config, keep=keep))
        dropped = replace(config, keep=keep, dropped_lists=4)
        later = system.run(tmp_path / f"{keep}-later", config=dropped)
        assert (len(settled.iterations), len(later.iterations)) == (2, 5)
        assert later.weights == settled.weights


def test_a_list_takes_the_place_of_those_that_are_dropped() -> None:
    with pytest.raises(ConfigError, match="dropped_lists is 4, max_iterations 4: no list would"):
        TuningConfig(max_iterations=4, dropped_lists=4)
    assert TuningConfig(max_iterations=4, dropped_lists=3).dropped_lists == 3


def test_a_run_ends_after_decodings_without_a_better_one(
    system: FixedSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "load_optimizer", scripted([SO_SO, GOOD, BAD, GOOD, BAD, GOOD], []))
    config = replace(system.config, max_iterations=9, patience=2)
    result = system.run(tmp_path / "run", config=config)
    assert len(result.iterations) == 4
    assert result.end == "no better in 2 decodings"


def test_a_run_ends_when_the_pool_promises_no_more_than_was_decoded(
    system: FixedSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "load_optimizer", scripted([GOOD, SO_SO, BAD], [], 100.0))
    result = system.run(tmp_path / "run")
    assert len(result.iterations) == 2
    assert result.iterations[1].bleu == pytest.approx(100)
    assert result.end == "no further gain expected on the pool"
    ini = system["moses.ini"]
    ini.write_text(ini.read_text().replace("LM0= 0.5", "LM0= 0"))
    monkeypatch.setattr(loop, "load_optimizer", scripted([SO_SO, BAD], [], 100.0))
    good_from_the_start = system.run(tmp_path / "good")
    assert len(good_from_the_start.iterations) == 2


@pytest.mark.parametrize(
    ("setting", "n_iterations", "end"),
    [
        ("min_weight_change", 1, "weights settled"),  # no weight moves by more than 2
        ("min_pool_gain", 2, "no further gain expected on the pool"),
    ],
)
def test_a_run_ends_by_the_changes_and_gains_of_its_settings(
    setting: str, n_iterations: int, end: str, system: FixedSystem, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(loop, "load_optimizer", scripted([SO_SO, BAD, GOOD], [], 1000.0))
    settings: dict[str, Any] = {setting: 2000.0}
    result = system.run(tmp_path / "run", config=replace(system.config, **settings))
    assert (len(result.iterations), result.end) == (n_iterations, end)


@pytest.mark.parametrize("scale", [5.0, 0.05])
def test_only_the_scale_of_weights_is_no_change(
    system: FixedSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scale: float
) -> None:
    scaled = {"Distortion0_0": scale, "LM0_0": scale}
    monkeypatch.setattr(loop, "load_optimizer", scripted([scaled], []))
    result = system.run(tmp_path / "run")
    assert len(result.iterations) == 1
    assert result.end == "weights settled"


def test_weights_of_0_alone_settle_too(
    system: FixedSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = {"Distortion0_0": 0.0, "LM0_0": 0.0}
    monkeypatch.setattr(loop, "load_optimizer", scripted([nothing, nothing], []))
    result = system.run(tmp_path / "run")
    assert (len(result.iterations), result.end) == (2, "weights settled")


def test_the_optimiser_starts_from_the_weights_of_all_iterations(
    system: FixedSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, given = iter([GOOD, BAD, SO_SO]), []

    def optimize(pool: NBestPool, starts: NDArray[np.float64], *_: object) -> OptimizerResult:
        given.append(starts.tolist())
        return OptimizerResult(dict(next(found)), 101.0)

    monkeypatch.setattr(loop, "load_optimizer", lambda name: optimize)
    system.run(tmp_path / "run")
    start, good, bad = [0.5, 0.5], [1.0, 0.0], [0.0, 1.0]
    assert given == [[start], [good, start], [bad, start, good]]


def test_sparse_features_of_the_weight_file_are_tuned(
    system: FixedSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that the file lacks are not, nor is what belongs to no feature of the ini."""
    plain, given, decoded = system.decoder.decode, [], []
    (tmp_path / "sparse").write_text("LM0_a~b 0.25\nOther_a 1\n")
    with system["moses.ini"].open("a") as ini:
        ini.write(f"\n[weight-file]\n{tmp_path / 'sparse'}\n")

    def decode(self: Any, *arguments: Any) -> None:
        plain(self, *arguments)
        decoded.append(arguments[2])
        lines = list(read_lines(arguments[3]))
        added = [line.replace(b"LM0=", b"LM0_a~b= 1 LM0_c~d= 1 LM0=") for line in lines]
        write_lines(arguments[3], added)

    def optimize(pool: NBestPool, starts: NDArray[np.float64], *_: object) -> OptimizerResult:
        given.append(dict(zip(pool.names, starts[0].tolist(), strict=True)))
        return OptimizerResult(given[0] | {"LM0_a~b_0": -0.5, "LM0_c~d_0": 3.0}, 101.0)

    monkeypatch.setattr(system.decoder, "decode", decode)
    monkeypatch.setattr(loop, "load_optimizer", lambda name: optimize)
    system.run(tmp_path / "run", config=replace(system.config, keep="last"))
    start = {"Distortion0_0": 0.5, "LM0_0": 0.5, "LM0_a~b_0": 0.25, "LM0_c~d_0": 0.0}
    assert given[0] == start
    assert decoded[1] == {"Distortion0": [0.5], "LM0": [0.5], "LM0_a~b": [-0.5]}
    tuned = read_ini(tmp_path / "run" / "moses.ini")
    assert sparse_weights(tuned) == {"LM0_a~b": -0.5}
    assert (tmp_path / "sparse").read_text() == "LM0_a~b 0.25\nOther_a 1\n"


def test_the_oracle_is_the_best_hypothesis_of_each_sentence() -> None:
    statistics = np.array(
        [
            [3, 5, 1, 4, 0, 3, 0, 2, 5],
            [5, 5, 4, 4, 3, 3, 2, 2, 5],
            [4, 6, 3, 5, 2, 4, 1, 3, 6],
            [2, 6, 0, 5, 0, 4, 0, 3, 6],
        ],
        np.int32,
    )
    pool = make_pool(("A_0",), np.array([0, 0, 3, 3]), np.zeros((4, 1)), statistics)
    # The second and the third: 9 of 11, 7 of 9, 5 of 7 and 3 of 5 n-grams, as long as the references.
    assert oracle_value(pool) == pytest.approx(100 * (3 / 11) ** 0.25)


def test_patience_counts_from_the_best_decoding(
    system: FixedSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"Distortion0_0": 0.1, "LM0_0": 0.9}
    monkeypatch.setattr(loop, "load_optimizer", scripted([BAD, GOOD, BAD, other, GOOD], []))
    config = replace(system.config, max_iterations=9, patience=2)
    result = system.run(tmp_path / "run", config=config)
    assert len(result.iterations) == 5
    assert result.weights == result.iterations[2].weights


def test_patience_does_not_count_a_good_start(
    system: FixedSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ini = system["moses.ini"]
    ini.write_text(ini.read_text().replace("LM0= 0.5", "LM0= 0"))
    bad = [{"Distortion0_0": share, "LM0_0": 1.0 - share} for share in (0.0, 0.1, 0.05)]
    monkeypatch.setattr(loop, "load_optimizer", scripted(bad, []))
    config = replace(system.config, max_iterations=9, patience=2)
    result = system.run(tmp_path / "run", config=config)
    assert [each.bleu > 99 for each in result.iterations] == [True, False, False, False]
    assert (result.end, result.kept) == ("no better in 2 decodings", 1)


def test_runs_start_apart_by_their_seed(system: FixedSystem, tmp_path: Path) -> None:
    config = replace(system.config, start_spread=0.3)
    runs = [system.run(tmp_path / f"run{seed}", seed, config=config) for seed in (1, 2)]
    starts = [run.iterations[0].weights for run in runs]
    assert starts[0] != starts[1]
    again = system.run(tmp_path / "run1", 1, resume=True, config=config)
    assert again.iterations[0].weights == starts[0]
    plain = system.run(tmp_path / "plain")
    assert plain.iterations[0].weights == {"Distortion0": [0.5], "LM0": [0.5]}


def test_a_feature_without_a_weight_line_has_the_decoders_weight(
    system: FixedSystem, tmp_path: Path
) -> None:
    """Moses and the built-in decoder take 1: so does the optimiser's row, and the tuned ini tells it."""
    ini = system["moses.ini"]
    ini.write_text(ini.read_text().replace("LM0= 0.5\n", ""))
    result = system.run(tmp_path / "run")
    assert result.iterations[0].weights == {"Distortion0": [0.5], "LM0": [1.0]}
    assert result.dev_bleu == pytest.approx(100)
    tuned = read_ini(tmp_path / "run" / "moses.ini")
    assert tuned.weights["LM0"] == pytest.approx(result.weights["LM0"])


def test_a_column_with_one_value_is_named(
    system: FixedSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = system.decoder.decode

    def decode(self: Any, *arguments: Any) -> None:
        plain(self, *arguments)
        lines = list(read_lines(arguments[3]))
        write_lines(arguments[3], [line.replace(b"LM0=", b"WP0= 0 LM0=") for line in lines])

    monkeypatch.setattr(system.decoder, "decode", decode)
    ini = system["moses.ini"]
    ini.write_text(ini.read_text().replace("[weight]", "WordPenalty name=WP0\n[weight]\nWP0= 1"))
    assert system.run(tmp_path / "run").constant == ["WP0_0"]


def test_a_retrained_model_behind_a_command_is_another_run(
    system: FixedSystem, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "weights").write_bytes(b"1")
    script = tmp_path / "add.sh"
    script.write_text('zcat "$1" | sed "s/LM0=/A0= 0 LM0=/" | gzip > "$2"\n')
    feature = NBestFeature("A0", f"sh {script} {{nbest}} {{out}} --model={model}")

    def tuned() -> loop.TuningRun:
        features = [feature]
        tuned_system = TunedSystem(system["moses.ini"], features)
        return tune(tuned_system, system.text, tmp_path / "run", system.config, resume=True)

    result = tuned()
    assert {f"A0/{model / 'weights'}", f"A0/{script}"} <= set(result.hashes)
    config = CompareConfig(n_samples=9, run_commands=True)
    systems, texts = {"A": [tmp_path / "run"]}, system.texts
    assert compare(systems, *texts, config).rows[0].test_bleu == pytest.approx(100)
    (model / "weights").write_bytes(b"2")
    with pytest.raises(ConfigError, match="other files"):
        tuned()
    with pytest.raises(ConfigError, match=r"A0/.*model/weights changed"):
        compare(systems, *texts, config)


def test_the_decoder_that_was_chosen_belongs_to_the_run(
    system: FixedSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interface, "find_program", lambda _: None)
    assert system.run(tmp_path / "run").decoder["kind"] == "builtin"
    monkeypatch.setattr(interface, "find_program", lambda _: Path("/usr/bin/moses"))
    with pytest.raises(ConfigError, match="other config"):
        system.run(tmp_path / "run", resume=True)
    assert DecoderConfig(neural_lm="A0=x").chosen_kind == "builtin"


def test_a_column_that_is_left_out_stays_at_0(system: FixedSystem, tmp_path: Path) -> None:
    config = replace(system.config, left_out=("Distortion0_0",), start_spread=0.3)
    result = system.run(tmp_path / "run", config=config)
    assert all(each.weights["Distortion0"] == [0.0] for each in result.iterations)
    assert all("Distortion0_0" in each.frozen for each in result.iterations if each.pool_bleu)
    with pytest.raises(ConfigError, match="no column Distortion0 to leave out; there are Dist"):
        system.run(tmp_path / "other", config=replace(config, left_out=("Distortion0",)))
