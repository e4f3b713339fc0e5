"""Weights of a reranking on the lists of a run whose search stays."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.textio import read_lines
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.formats.moses_ini import read_ini
from tests.tuning.conftest import CONFIG, FixedDecoder
from tuning.cli import main
from tuning.compare.scan import system_of_run
from tuning.compare.translations import translate_runs
from tuning.loop.list_features import NBestFeature
from tuning.loop.rerank_run import rerank_run
from tuning.loop.run_directory import TuningRun, load_run
from tuning.loop.settings import RerankConfig
from tuning.loop.tuning_loop import TunedSystem, tune

if TYPE_CHECKING:
    from tests.tuning.conftest import FixedSystem

# The search of these puts the wrong hypothesis of each sentence first.
WRONG = {"Distortion0": [0.0], "LM0": [1.0]}
# Batch MIRA takes more steps than three sentences have.
MERT = RerankConfig(optimizer="mert", nbest_size=2, search=CONFIG.search)
RIGHT = [b"a b c d e", b"f g h i j", b"k l m n o"]
ADD = """\
import gzip, sys
with gzip.open(sys.argv[1]) as lines, gzip.open(sys.argv[2], "wb") as out:
    for line in lines:
        number, words, features, total = line.split(b" ||| ")
        features += b" A0= %d" % (words.strip() in (b"a b c d e", b"f g h i j", b"k l m n o"))
        out.write(b" ||| ".join((number, words, features, total)))
"""


@pytest.fixture
def base(system: FixedSystem, tmp_path: Path) -> Path:
    """A run that searches with the weights WRONG."""
    system.run(tmp_path / "base")
    path = tmp_path / "base" / "weights.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"weights": WRONG}))
    return tmp_path / "base"


@pytest.fixture
def knowing(tmp_path: Path) -> NBestFeature:
    """A feature that is 1 for the references."""
    script = tmp_path / "add.py"
    script.write_text(ADD)
    return NBestFeature("A0", f"{sys.executable} {script} {{nbest}} {{out}}")


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Sequence[float]]]:
    """The weights of each decoding."""
    seen: list[Mapping[str, Sequence[float]]] = []
    decode: Any = FixedDecoder.decode

    def noted(self: FixedDecoder, source: Path, out: Path, weights: Any, *rest: Any) -> None:
        seen.append(weights)
        decode(self, source, out, weights, *rest)

    monkeypatch.setattr(FixedDecoder, "decode", noted)
    return seen


def reranked(
    system: FixedSystem,
    base: Path,
    out: Path,
    features: Sequence[NBestFeature] = (),
    config: RerankConfig | None = None,
    resume: bool = False,
) -> TuningRun:
    chosen = config or MERT
    return rerank_run(base, system.text, out, chosen, resume=resume, nbest_features=features)


def test_the_search_stays_and_the_lists_are_reranked_by_the_new_feature(
    system: FixedSystem,
    base: Path,
    knowing: NBestFeature,
    searched: list[Mapping[str, Sequence[float]]],
    tmp_path: Path,
) -> None:
    frozen = replace(MERT, search=replace(CONFIG.search, frozen=("Distortion0_0", "LM0_0")))
    run = reranked(system, base, tmp_path / "run", [knowing], frozen)
    assert [iteration.bleu < 60 for iteration in run.iterations] == [True, False]
    assert run.dev_bleu == pytest.approx(100)
    assert run.weights["A0"][0] > 0 and run.kept == 2
    assert load_run(tmp_path / "run") == run
    (output,) = translate_runs([tmp_path / "run"], system["source"], run_commands=True).values()
    assert [*read_lines(output)] == RIGHT
    assert searched == [WRONG, WRONG]
    assert read_ini(tmp_path / "run" / "moses.ini").weights["LM0"] == (1.0,)


def test_faults_of_the_dev_text_are_said(
    system: FixedSystem, base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    system["reference"].write_bytes(b"".join(line.upper() + b"\n" for line in RIGHT))
    reranked(system, base, tmp_path / "run")
    output = tmp_path / "run" / "iter02.out"
    assert f"note: {output} has capitals in 0 of 15 words, " in capsys.readouterr().err


def test_without_a_feature_the_own_ones_are_weighed_anew(
    system: FixedSystem, base: Path, searched: list[Mapping[str, Sequence[float]]], tmp_path: Path
) -> None:
    run = reranked(system, base, tmp_path / "run")
    assert run.weights["Distortion0"][0] > run.weights["LM0"][0]
    assert run.fixed_search == WRONG
    outputs = translate_runs([base, tmp_path / "run"], system["source"])
    assert [*read_lines(outputs[base])] != RIGHT
    assert [*read_lines(outputs[tmp_path / "run"])] == RIGHT
    assert searched == [WRONG] * 3


def test_a_list_of_one_cannot_be_reranked(system: FixedSystem, base: Path, tmp_path: Path) -> None:
    run = reranked(system, base, tmp_path / "run", config=replace(MERT, nbest_size=1))
    assert run.dev_bleu == run.iterations[0].bleu < 60
    assert run.caution.endswith("all hypotheses of each sentence are the same")


def test_a_finished_reranking_is_not_decoded_again(
    system: FixedSystem, base: Path, tmp_path: Path
) -> None:
    run = reranked(system, base, tmp_path / "run")
    n_calls = system.decoder.calls
    assert reranked(system, base, tmp_path / "run", resume=True) == run
    assert system.decoder.calls == n_calls
    with pytest.raises(ConfigError, match="continue it with --resume"):
        reranked(system, base, tmp_path / "run")


def test_a_reranking_says_what_it_did(
    system: FixedSystem, base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "run"
    run = rerank_run(base, system.text, out, MERT)
    assert run.seed == 1
    told = capsys.readouterr().err
    before, after = (f"dev BLEU {iteration.bleu:.2f}" for iteration in run.iterations)
    assert f"iteration 1: {before}, 100.00 on the pool" in told
    assert f"reranked: {after}" in told
    made = {path.name for path in out.glob("iter*")}
    first = {f"iter01.{kind}" for kind in ("nbest.gz", "out", "decoded.json", "optimised.json")}
    assert made == first | {"iter02.out"}
    with pytest.raises(ConfigError, match="continue it with --resume"):
        rerank_run(base, system.text, out, MERT)
    assert rerank_run(base, system.text, tmp_path / "other", MERT, seed=4).seed == 4


def test_what_the_run_left_out_stays_out(system: FixedSystem, tmp_path: Path) -> None:
    system.run(tmp_path / "base", config=replace(CONFIG, left_out=("Distortion0_0",)))
    run = reranked(system, tmp_path / "base", tmp_path / "run")
    assert run.weights["Distortion0"] == [0.0]
    assert "Distortion0_0" in run.iterations[0].frozen


def test_what_could_not_be_moved_at_the_end_of_the_run_stays(
    system: FixedSystem, base: Path, tmp_path: Path
) -> None:
    """Its last list that was optimised on says it; the last iteration only measures."""
    path = base / "weights.json"
    written = json.loads(path.read_text())
    one = written["iterations"][0]
    frozen = [[], [], ["Distortion0_0"], []]
    written["iterations"] = [
        {**one, "frozen": each, "pool_bleu": 50.0 if number < 3 else None}
        for number, each in enumerate(frozen)
    ]
    path.write_text(json.dumps(written))
    run = reranked(system, base, tmp_path / "run")
    assert run.weights["Distortion0"] == WRONG["Distortion0"]
    assert "Distortion0_0" in run.iterations[0].frozen


def test_a_stand_in_of_the_run_keeps_its_part_in_the_search(
    system: FixedSystem, searched: list[Mapping[str, Sequence[float]]], tmp_path: Path
) -> None:
    command = "sh -c 'zcat {nbest} | sed \"s/LM0=/A0= 0 LM0=/\" | gzip > {out}'"
    features = [NBestFeature("A0", command, initial_weight=0.25, stand_in="LM0")]
    config = replace(CONFIG, max_iterations=1)
    tune(TunedSystem(system["moses.ini"], features), system.text, tmp_path / "base", config)
    trusted = replace(MERT, run_commands=True)
    run = reranked(system, tmp_path / "base", tmp_path / "run", config=trusted)
    assert searched[1]["LM0"] == pytest.approx([0.75])
    assert run.fixed_search == searched[1]
    assert "A0" in run.weights and "A0" not in run.fixed_search


@pytest.mark.parametrize(
    ("name", "stand_in", "message"),
    [
        ("LM0", "", "base has a feature LM0; use another name"),
        ("A0", "LM0", "so a feature has no stand-in; leave :LM0 out"),
    ],
)
def test_an_unfit_feature_is_refused_before_anything_is_decoded(
    system: FixedSystem, base: Path, tmp_path: Path, name: str, stand_in: str, message: str
) -> None:
    n_calls = system.decoder.calls
    feature = NBestFeature(name, "cp {nbest} {out}", stand_in=stand_in)
    with pytest.raises(ConfigError, match=message):
        reranked(system, base, tmp_path / "run", [feature])
    assert system.decoder.calls == n_calls
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("lost", "fault"),
    [
        ("number == b'1'", "3: found the sentence id '2', expected '1'. "),
        ("number == b'2'", "5: found the end, expected a line, as in the list it read. "),
        ("words.startswith(b'f f')", "4: found the sentence id '2', expected '1'. "),
    ],
    ids=["a sentence", "the last sentence", "an entry"],
)
def test_a_command_that_loses_entries_ends_the_command_with_one_line(
    system: FixedSystem, base: Path, tmp_path: Path, lost: str, fault: str
) -> None:
    """Sentences without entries would have empty translations, and BLEU would fall without a word."""
    script, out = tmp_path / "add.py", tmp_path / "run"
    join = "        out.write("
    script.write_text(ADD.replace(join, f"        if {lost}: continue\n{join}"))
    command = ["rerank", str(base), "--out", str(out), "--jobs", "1", "--nbest-size", "2"]
    command += ["--source", str(system["source"]), "--reference", str(system["reference"])]
    command += ["--nbest-feature", f"A0={sys.executable} {script} {{nbest}} {{out}}"]
    result = CliRunner().invoke(main, command, prog_name="tuning")
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"tuning: error: the list written by the command of A0:{fault}")
    assert not [path for path in out.iterdir() if path.name not in ("run.json", "steps.jsonl")]


def test_a_reranking_is_neither_reranked_nor_scanned(
    system: FixedSystem, base: Path, tmp_path: Path
) -> None:
    reranked(system, base, tmp_path / "run")
    with pytest.raises(ConfigError, match="run is a reranking itself; name the run whose lists"):
        reranked(system, tmp_path / "run", tmp_path / "again")
    with pytest.raises(ConfigError, match="scan the run whose lists these are"):
        system_of_run(tmp_path / "run", run_commands=False)


def test_commands_of_the_run_are_not_run_unasked(system: FixedSystem, tmp_path: Path) -> None:
    config = replace(CONFIG, decoder=DecoderConfig(neural_lm="NN0=touch ran"))
    tune(TunedSystem(system["moses.ini"]), system.text, tmp_path / "base", config)
    with pytest.raises(ConfigError, match=r"the feature NN0 of this run.*--run-commands"):
        reranked(system, tmp_path / "base", tmp_path / "run")


def test_a_list_has_hypotheses() -> None:
    with pytest.raises(ConfigError, match="nbest_size is 0; the smallest value is 1"):
        RerankConfig(nbest_size=0)
