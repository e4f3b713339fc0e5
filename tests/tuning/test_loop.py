"""The tuning loop around a stand-in decoder that chooses among fixed hypotheses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moses_bridge.decoder import DecoderConfig
from moses_bridge.errors import ConfigError, InputError, ToolError
from moses_bridge.textio import read_lines, write_lines
from tuning import evaluation, loop
from tuning.evaluation import CompareOptions, compare
from tuning.loop import TuningOptions, translate, tune
from tuning.optimizer import OptimizerOptions
from tuning.report import write_comparison
from tuning.rerank import NBestFeature
from tuning.run_directory import load_run

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
OPTIONS = TuningOptions(
    nbest_size=2, max_iterations=4, search=OptimizerOptions(n_restarts=2, n_directions=1)
)


class FixedDecoder:
    """Ranks HYPOTHESES; counts how often it was asked."""

    calls = 0

    def feature_names(self) -> list[tuple[str, int]]:
        return [("Distortion0", 1), ("LM0", 1)]

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


@contextmanager
def open_fixed(ini: Path, options: DecoderConfig, jobs: int) -> Iterator[FixedDecoder]:
    yield FixedDecoder()


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.setattr(loop, "open_decoder", open_fixed)
    monkeypatch.setattr(evaluation, "open_decoder", open_fixed)
    FixedDecoder.calls = 0
    files = {name: tmp_path / name for name in ("moses.ini", "source", "reference", "lm")}
    files["moses.ini"].write_text(INI)
    files["source"].write_bytes(b"1 2 3\n4 5\n6\n")
    files["reference"].write_bytes(b"".join(line + b"\n" for line in REFERENCES))
    files["lm"].write_bytes(b"")
    return files


def run(system: dict[str, Path], out: Path, seed: int = 1, resume: bool = False) -> loop.TuningRun:
    return tune(
        system["moses.ini"],
        system["source"],
        [system["reference"]],
        out,
        OPTIONS,
        seed,
        resume=resume,
    )


def test_weights_that_give_the_references_are_found(
    system: dict[str, Path], tmp_path: Path
) -> None:
    result = run(system, tmp_path / "run")
    assert result.iterations[0].bleu < 60
    assert result.dev_bleu == pytest.approx(100)
    assert result.weights["Distortion0"][0] > result.weights["LM0"][0]
    assert load_run(tmp_path / "run") == result
    tuned = (tmp_path / "run" / "moses.ini").read_text()
    assert tuned.split("[weight]")[0] == INI.split("[weight]")[0]
    assert tuned != INI


def test_a_finished_run_is_not_decoded_again(system: dict[str, Path], tmp_path: Path) -> None:
    first = run(system, tmp_path / "run")
    n_calls = FixedDecoder.calls
    assert run(system, tmp_path / "run", resume=True) == first
    assert FixedDecoder.calls == n_calls


def test_an_interrupted_run_gives_the_same_weights(system: dict[str, Path], tmp_path: Path) -> None:
    whole = run(system, tmp_path / "whole")
    run(system, tmp_path / "cut")
    for name in ("weights.json", "iter02.decoded.json", "iter02.optimised.json"):
        (tmp_path / "cut" / name).unlink(missing_ok=True)
    assert run(system, tmp_path / "cut", resume=True).weights == whole.weights


def test_an_unfinished_directory_is_not_overwritten(
    system: dict[str, Path], tmp_path: Path
) -> None:
    run(system, tmp_path / "run")
    with pytest.raises(ConfigError, match="--resume"):
        run(system, tmp_path / "run")


def test_a_run_of_another_table_is_refused(system: dict[str, Path], tmp_path: Path) -> None:
    run(system, tmp_path / "run")
    system["lm"].write_bytes(b"other")
    with pytest.raises(ConfigError, match="other tables"):
        run(system, tmp_path / "run", resume=True)


def test_weights_of_another_run_are_the_start(system: dict[str, Path], tmp_path: Path) -> None:
    first = run(system, tmp_path / "first")
    again = tune(
        system["moses.ini"],
        system["source"],
        [system["reference"]],
        tmp_path / "second",
        OPTIONS,
        init_weights=tmp_path / "first" / "weights.json",
    )
    assert again.iterations[0].weights == first.weights
    assert again.iterations[0].bleu == pytest.approx(100)


def test_the_start_is_the_file_that_was_named(system: dict[str, Path], tmp_path: Path) -> None:
    run(system, tmp_path / "first")
    named = tmp_path / "first" / "mine.json"
    named.write_text('{"LM0": [0.25]}')
    weights = loop.initial_weights(system["moses.ini"], {}, named)
    assert weights == {"Distortion0": [0.5], "LM0": [0.25]}


def test_an_added_feature_has_a_name_of_its_own(system: dict[str, Path], tmp_path: Path) -> None:
    def tuned(names: Sequence[str]) -> None:
        features = [NBestFeature(name, "cp {nbest} {out}") for name in names]
        texts = (system["source"], [system["reference"]])
        tune(system["moses.ini"], *texts, tmp_path / "run", OPTIONS, nbest_features=features)

    with pytest.raises(ConfigError, match=r"moses\.ini has a feature LM0; use another name"):
        tuned(["LM0"])
    with pytest.raises(ConfigError, match="the feature A0 is added twice"):
        tuned(["A0", "A0"])
    assert FixedDecoder.calls == 0


def test_a_tuning_has_an_iteration() -> None:
    with pytest.raises(ConfigError, match="max_iterations is 0; the smallest value is 1"):
        TuningOptions(max_iterations=0)


def test_a_comparison_has_samples() -> None:
    with pytest.raises(ConfigError, match="n_samples is 1; the smallest value is 2"):
        CompareOptions(n_samples=1)


def test_an_added_column_starts_at_0(system: dict[str, Path], tmp_path: Path) -> None:
    run(system, tmp_path / "first")
    wider = INI.replace("LM0 path", "LM0 num-features=2 path").replace("LM0= 0.5", "LM0= 0.5 0.1")
    system["moses.ini"].write_text(wider)
    weights = loop.initial_weights(system["moses.ini"], {}, tmp_path / "first" / "weights.json")
    assert weights["LM0"] == [*load_run(tmp_path / "first").weights["LM0"], 0.0]


def test_a_neural_language_model_starts_at_0_and_belongs_to_the_run(
    system: dict[str, Path], tmp_path: Path
) -> None:
    def tuned(command: str) -> loop.TuningRun:
        options = replace(OPTIONS, decoder=DecoderConfig(neural_lm=f"CSLM0={command}"))
        texts = (system["source"], [system["reference"]])
        return tune(system["moses.ini"], *texts, tmp_path / "run", options, resume=True)

    result = tuned("serve one")
    assert result.iterations[0].weights["CSLM0"] == [0.0]
    assert load_run(tmp_path / "run").decoder["neural_lm"] == "CSLM0=serve one"
    assert tuned("serve one") == result
    with pytest.raises(ConfigError, match="other options"):
        tuned("serve another")


def test_comparison_of_a_run_with_itself_and_with_the_start(
    system: dict[str, Path], tmp_path: Path
) -> None:
    for seed in (1, 2):
        run(system, tmp_path / f"run{seed}", seed)
    runs = [tmp_path / "run1", tmp_path / "run2"]
    table = compare(
        {"Baseline": runs, "Same": runs},
        system["source"],
        [system["reference"]],
        CompareOptions(n_trials=20, n_samples=20),
    )
    text = write_comparison(table, tmp_path / "table")
    first, second = table.rows
    assert first.test_bleu == pytest.approx(100)
    assert first.p_value is None
    assert second.p_value == 1.0
    assert second.delta == 0
    assert "Same" in text
    stored = json.loads((tmp_path / "table" / "table.json").read_text())
    assert [row["system"] for row in stored["rows"]] == ["Baseline", "Same"]
    for suffix in ("md", "tex", "txt"):
        assert "100.00" in (tmp_path / "table" / f"table.{suffix}").read_text()
    n_calls = FixedDecoder.calls
    compare(
        {"A": runs, "B": runs}, system["source"], [system["reference"]], CompareOptions(n_trials=9)
    )
    assert FixedDecoder.calls == n_calls


def test_a_reference_of_another_length_stops_before_anything_is_decoded(
    system: dict[str, Path], tmp_path: Path
) -> None:
    run(system, tmp_path / "run")
    n_calls = FixedDecoder.calls
    test = tmp_path / "test"
    test.write_bytes(b"1\n2\n3\n")
    longer = tmp_path / "longer"
    longer.write_bytes(b"a\n" * 4)
    message = "longer: found 4 lines, expected 3, as .*"
    with pytest.raises(InputError, match=message + "test has"):
        compare({"A": [tmp_path / "run"]}, test, [longer], CompareOptions())
    with pytest.raises(InputError, match=message + "source has"):
        tune(system["moses.ini"], system["source"], [longer], tmp_path / "other", OPTIONS)
    assert FixedDecoder.calls == n_calls


def test_one_run_has_no_deviation(system: dict[str, Path], tmp_path: Path) -> None:
    run(system, tmp_path / "run")
    table = compare(
        {"Only": [tmp_path / "run"]},
        system["source"],
        [system["reference"]],
        CompareOptions(n_trials=9, n_samples=9),
    )
    assert table.rows[0].test_sd is None
    assert " * " in write_comparison(table, tmp_path / "table")


def test_sparse_features_that_the_ini_has_no_weights_for_are_not_tuned(
    system: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = FixedDecoder.decode

    def decode(self: FixedDecoder, *arguments: Any) -> None:
        plain(self, *arguments)
        nbest = arguments[3]
        lines = list(read_lines(nbest))
        write_lines(
            nbest, [line.replace(b"LM0=", b"WT_a~b= 1 LM0=") for line in lines[::2]] + lines[1::2]
        )

    monkeypatch.setattr(FixedDecoder, "decode", decode)
    result = run(system, tmp_path / "run")
    assert result.dev_bleu == pytest.approx(100)
    assert set(result.weights) == {"Distortion0", "LM0"}
    assert result.iterations[0].frozen == ["WT_a~b_0"]


def test_systems_may_have_different_numbers_of_runs(
    system: dict[str, Path], tmp_path: Path
) -> None:
    paths = [tmp_path / f"run{seed}" for seed in (1, 2, 3)]
    for seed, path in enumerate(paths):
        run(system, path, seed)
    options = CompareOptions(n_trials=9, n_samples=9)
    systems = {"A": paths[:2], "B": paths}
    rows = compare(systems, system["source"], [system["reference"]], options).rows
    assert [row.n_runs for row in rows] == [2, 3]
    assert rows[1].p_value == 1.0


def test_runs_of_one_system_have_the_same_features(system: dict[str, Path], tmp_path: Path) -> None:
    runs = [tmp_path / "run1", tmp_path / "run2"]
    for path in runs:
        run(system, path)
    content = json.loads((runs[0] / "weights.json").read_text())
    content["weights"]["CSLM0"] = [0.1]
    (runs[0] / "weights.json").write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=r"A: .*run2 has other features .*run1: .*CSLM0 \(1\)"):
        compare({"A": runs}, system["source"], [system["reference"]], CompareOptions())
    with pytest.raises(ConfigError, match="A has a run twice"):
        compare(
            {"A": [runs[0], runs[0]]}, system["source"], [system["reference"]], CompareOptions()
        )


@pytest.mark.parametrize("changed", ["moses.ini", "lm"])
def test_a_run_whose_files_changed_since_is_refused(
    system: dict[str, Path], tmp_path: Path, changed: str
) -> None:
    run(system, tmp_path / "run")
    with system[changed].open("a") as stream:
        stream.write("\n")
    systems = {"Only": [tmp_path / "run"]}
    key = "ini" if changed == "moses.ini" else "LM0/lm"
    with pytest.raises(ConfigError, match=rf"run: .* other files than .*moses\.ini .*: {key} ch"):
        compare(systems, system["source"], [system["reference"]], CompareOptions())


def test_a_table_of_the_names_that_formats_reserve(system: dict[str, Path], tmp_path: Path) -> None:
    run(system, tmp_path / "run")
    options = CompareOptions(n_trials=9, n_samples=9)
    systems = {"50%_a|b": [tmp_path / "run"]}
    table = compare(systems, system["source"], [system["reference"]], options)
    write_comparison(table, tmp_path / "table")
    assert r"50\%\_a|b &" in (tmp_path / "table" / "table.tex").read_text()
    markdown = (tmp_path / "table" / "table.md").read_text()
    assert r"| 50%_a\|b |" in markdown
    assert "BLEU|detokenised|nrefs:1|case:mixed" in markdown
    assert "TER|detokenised|nrefs:1|case:lc" in markdown


def test_no_output_stands_for_one_that_was_not_reranked(
    system: dict[str, Path], tmp_path: Path
) -> None:
    broken = NBestFeature("A0", "false {nbest} {out}")
    output, weights = tmp_path / "output", {"Distortion0": [0.5], "LM0": [0.5], "A0": [1.0]}
    with pytest.raises(ToolError, match="false"):
        translate(FixedDecoder(), system["source"], output, None, weights, [broken], 2)
    assert FixedDecoder.calls == 1
    assert not output.exists()


def test_the_decoder_searches_with_the_weights_of_both(
    system: dict[str, Path], tmp_path: Path
) -> None:
    """What the search puts first changes with the stand-in's weight; what is reranked does not."""
    command = "sh -c 'zcat {nbest} | sed \"s/LM0=/A0= 0 LM0=/\" | gzip > {out}'"
    zero = NBestFeature("A0", command, stand_in="LM0")
    output, nbest = tmp_path / "output", tmp_path / "nbest"
    weights = {"Distortion0": [1.0], "LM0": [0.0], "A0": [1.0]}
    translate(FixedDecoder(), system["source"], output, nbest, weights, [zero], 1)
    assert next(read_lines(output)) == b"a b x d e"
