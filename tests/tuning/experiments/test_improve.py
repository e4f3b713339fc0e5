"""What `tuning run improve` plans, chooses and says; a whole run on a system of two made-up languages."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest

from moses_bridge.base.errors import InputError
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.formats.moses_ini import read_ini
from tuning.compare.comparison import Comparison, Contrast, ResultRow
from tuning.compare.worth import ScoreWorth
from tuning.experiments.description import Experiment, read_experiment
from tuning.experiments.improve import (
    EXPERIMENT,
    Choice,
    choose,
    install,
    lay_out,
    left_out,
    readme,
    verdict_line,
    write_form,
)
from tuning.experiments.improve_checks import Facts
from tuning.experiments.improve_plan import bytes_needed, make_plan, plan_lines, reckon
from tuning.experiments.settings import ImproveSettings
from tuning.loop.run_directory import TuningRun, load_run, save_run

# The default table: 60,000 pairs with a million words, 2.9 million rows.
FACTS = Facts(
    n_rows=2_891_612,
    n_bytes=10**8,
    n_words=1_000_000,
    n_dev=1000,
    n_test=2000,
    n_documents=158,
    has_usual_features=True,
    lines=(),
)


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return read_experiment([EXPERIMENT])


@pytest.fixture
def settings(tmp_path: Path) -> ImproveSettings:
    ini = tmp_path / "model" / "moses.ini"
    ini.parent.mkdir()
    ini.with_name("aligned.grow-diag-final-and.gz").touch()
    return ImproveSettings(
        ini=ini,
        train=Path("train"),
        dev=Path("dev"),
        test=Path("test"),
        languages=("en", "fr"),
        out=Path("better"),
        jobs=2,
    )


# --- The files


@pytest.mark.parametrize("name", ["table", "table.gz"])
def test_a_file_is_laid_out_again_as_it_is(tmp_path: Path, name: str) -> None:
    given, place = tmp_path / name, tmp_path / "work" / "phrase-table.gz"
    place.parent.mkdir()
    for text in (b"one", b"two"):
        write_lines(given, [text])
        lay_out(given, place)
        assert [*read_lines(place)] == [text]
        before = place.read_bytes(), place.stat().st_mtime_ns
        lay_out(given, place)
        assert (place.read_bytes(), place.stat().st_mtime_ns) == before
    place.unlink()
    lay_out(given, place)
    assert [*read_lines(place)] == [b"two"]
    moved = given.rename(tmp_path / f"moved.{name}")
    lay_out(moved, place)
    assert [*read_lines(place)] == [b"two"]


def test_documents_that_are_no_longer_given_are_taken_away(tmp_path: Path) -> None:
    given, place = tmp_path / "train.groups", tmp_path / "work.groups"
    given.touch()
    lay_out(given, place)
    given.unlink()
    lay_out(given, place)
    assert not os.path.lexists(place)


# --- The plan


def test_without_minutes_the_networks_of_the_search_are_tried(
    experiment: Experiment, settings: ImproveSettings
) -> None:
    plan = make_plan(experiment, settings, FACTS)
    assert plan.systems == ("cslm", "nnjm", "cslm-nnjm")
    assert not plan.limits
    # By hand: 72 s and 132 s of training; tunings of 14 s, 1.8, 2.5 and 3.3 times as long with the networks.
    assert plan.seconds["cslm"] == pytest.approx(36)
    assert plan.seconds["nnjm"] == pytest.approx(66)
    assert plan.seconds["baseline, 3 tunings"] == pytest.approx(21)
    # The lists and two scores, 15 s of one processor each.
    assert plan.seconds["what scores are worth"] == pytest.approx(22.5)
    assert plan.seconds["+CSLM+NNJM, 3 tunings"] == pytest.approx(21 * 3.3)
    # Measured: four folds of a minute, trainings on lists of 28 s, and of 75 s with AVX-512 to 200 s without.
    (columns, reranked) = plan.further.values()
    assert columns / 60 == pytest.approx(
        (4 + 28 / 60 + 140 / 60 + 1.4 + 6 * 14 * 3.3 / 60 + 2 * 0.25) / 2, rel=0.03
    )
    assert reranked > 20 * 60
    assert 4 < sum(plan.seconds.values()) / 60 < 10


def test_more_minutes_add_columns_then_lists(
    experiment: Experiment, settings: ImproveSettings
) -> None:
    base = sum(make_plan(experiment, settings, FACTS).seconds.values()) / 60
    some = make_plan(experiment, dataclasses.replace(settings, minutes=base + 15), FACTS)
    assert some.systems[3:] == ("home-neural", "home-columns")
    assert [*some.further] == ["lists reranked with RNNsearch"]
    whole = make_plan(experiment, dataclasses.replace(settings, minutes=600), FACTS)
    assert whole.systems[5:] == ("search-rnnsearch", "columns-rnnsearch")
    assert not whole.further and not whole.limits


def test_a_search_that_is_kept_has_no_network(
    experiment: Experiment, settings: ImproveSettings
) -> None:
    for minutes in (None, 600.0):
        kept = dataclasses.replace(settings, keep_search=True, minutes=minutes)
        plan = make_plan(experiment, kept, FACTS)
        assert plan.systems[:2] == ("lists", "lists-cslm")
        assert not any(experiment.systems[name].search for name in plan.systems)
    assert plan.systems[-1] == "lists-all"


def test_other_features_leave_out_the_folds(
    experiment: Experiment, settings: ImproveSettings
) -> None:
    facts = dataclasses.replace(FACTS, has_usual_features=False)
    plan = make_plan(experiment, dataclasses.replace(settings, minutes=600), facts)
    assert plan.systems[3:] == ("search-rnnsearch",)
    assert "lists of the training text" not in plan.seconds
    assert bytes_needed(experiment, plan, facts) == 10**8 + 4 * 10**8


def test_folds_need_disk_for_a_system_each(
    experiment: Experiment, settings: ImproveSettings
) -> None:
    plan = make_plan(experiment, dataclasses.replace(settings, minutes=60), FACTS)
    assert "home-columns" in plan.systems
    assert bytes_needed(experiment, plan, FACTS) >= (1 + experiment.folds.n_folds) * 10**8


def test_too_few_minutes_end_trainings_sooner(
    experiment: Experiment, settings: ImproveSettings
) -> None:
    plan = make_plan(experiment, dataclasses.replace(settings, minutes=2), FACTS)
    share = 120 / sum(plan.seconds.values())
    assert plan.limits["nnjm"]["loop"]["max_minutes"] == pytest.approx(share * 66 / 60, abs=0.01)
    told = [*plan_lines(dataclasses.replace(settings, minutes=2), plan)]
    assert "    that is more than 2 minutes: trainings end earlier" in told


def test_a_table_alone_says_what_the_text_would_bring(
    experiment: Experiment, settings: ImproveSettings
) -> None:
    alone = dataclasses.replace(settings, train=None)
    plan = make_plan(experiment, alone, dataclasses.replace(FACTS, n_words=0))
    assert plan.systems == ("rnn-alone",)
    # Measured for the 350,000 rows of the default table: 62 s with AVX-512, 95 s without.
    assert plan.seconds["encdec-alone"] * 2 / 60 == pytest.approx(1.4, rel=0.1)
    assert "a training text (--train) would bring" in [*plan_lines(alone, plan)][-1]


def test_links_are_made_where_there_are_none(
    experiment: Experiment, settings: ImproveSettings
) -> None:
    settings.ini.with_name("aligned.grow-diag-final-and.gz").unlink()
    assert "word links" in reckon(experiment, ["nnjm"], FACTS, settings)
    assert "word links" not in reckon(experiment, ["cslm"], FACTS, settings)
    given = dataclasses.replace(settings, links=Path("links"))
    assert "word links" not in reckon(experiment, ["nnjm"], FACTS, given)


# --- What scores are worth


def scored(t: float, gain: float) -> ScoreWorth:
    return ScoreWorth("Judged0_0", 0.5, t, 0.2, gain, 0.1)


def test_a_system_with_a_score_that_cannot_help_is_not_tuned(
    experiment: Experiment, settings: ImproveSettings
) -> None:
    plan = make_plan(experiment, dataclasses.replace(settings, minutes=600), FACTS)
    assert plan.judged == ("cslm", "nnjm", "home-pairs", "home-rnn", "rnnsearch", "rnnsearch-back")
    worth = dict.fromkeys(plan.judged, scored(t=5.0, gain=0.0)) | {"home-rnn": scored(-1.9, 0.2)}
    assert left_out(experiment, plan, worth) == {
        "home-columns": "not tuned: +CSLM+NNJM+both columns for BLEU, because home-rnn cannot help",
        "columns-rnnsearch": (
            "not tuned: +CSLM+NNJM+both columns for BLEU, lists reranked with RNNsearch, because "
            "home-rnn cannot help"
        ),
    }
    worth["home-rnn"] = scored(t=0.0, gain=0.21)
    assert not left_out(experiment, plan, worth)
    del worth["nnjm"]  # it is the same for all hypotheses
    assert left_out(experiment, plan, worth).keys() == {*plan.systems} - {"cslm"}
    assert str(worth["home-rnn"]) == (
        "worth +0.50 BLEU a sentence (t 0.0), reranking foretells +0.21"
    )


def test_too_few_documents_judge_nothing(experiment: Experiment, settings: ImproveSettings) -> None:
    plan = make_plan(experiment, settings, dataclasses.replace(FACTS, n_documents=3))
    assert not plan.judged and not left_out(experiment, plan, {})
    assert "what scores are worth" not in plan.seconds
    line = "    the dev text has fewer than 4 documents: no score is judged before tuning"
    assert line in plan_lines(settings, plan)
    assert line not in plan_lines(settings, make_plan(experiment, settings, FACTS))


# --- The choice


def tuned(runs: Path, bleu: dict[str, tuple[float, ...]]) -> None:
    for system, values in bleu.items():
        for seed, value in enumerate(values, start=1):
            directory = runs / f"{system}-{seed}"
            directory.mkdir()
            save_run(TuningRun("moses.ini", {"LM0": [1.0]}, value, seed, 10, {}), directory)


def test_the_highest_mean_of_dev_is_chosen(tmp_path: Path) -> None:
    tuned(tmp_path, {"baseline": (30.0, 30.0), "cslm": (31.0, 39.0), "nnjm": (35.5, 36.5)})
    choice = choose(tmp_path, ["baseline", "cslm", "nnjm"], (1, 2))
    assert choice == Choice(
        "nnjm", {"baseline": 30.0, "cslm": 35.0, "nnjm": 36.0}, tmp_path / "nnjm-2"
    )


def test_of_equal_systems_the_simpler_one_is_chosen(tmp_path: Path) -> None:
    tuned(tmp_path, {"baseline": (30.0,), "cslm": (30.0,)})
    assert choose(tmp_path, ["baseline", "cslm"], (1,)).system == "baseline"


def test_a_tuning_that_is_missing_is_an_error(tmp_path: Path) -> None:
    tuned(tmp_path, {"baseline": (30.0,)})
    with pytest.raises(InputError, match="cslm-1"):
        choose(tmp_path, ["baseline", "cslm"], (1,))


def test_the_installed_ini_has_the_weights_of_the_search_and_not_of_the_reranking(
    experiment: Experiment,
    settings: ImproveSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tuning.experiments.improve.write_report", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    Path("train.en").write_text("a b .\n")
    settings.ini.write_text("[feature]\nDistortion\n[weight]\nDistortion0= 1\n")
    run = TuningRun(str(settings.ini), {"Distortion0": [0.1]}, 30.0, 1, 10, {})
    run.fixed_search = {"Distortion0": [0.3]}
    (tmp_path / "run").mkdir()
    save_run(run, tmp_path / "run")
    out = tmp_path / "better"
    out.mkdir()
    choice = Choice("lists-cslm", {}, tmp_path / "run")
    install(dataclasses.replace(settings, out=out), experiment, choice)
    assert read_ini(out / "moses.ini").weights == {"Distortion0": (0.3,)}
    assert load_run(out).weights == {"Distortion0": [0.1]}
    assert json.loads((out / "corpus.json").read_text())["case"] == "lower"


@pytest.mark.parametrize("given", [False, True])
def test_plain_text_is_cased_as_the_training_text(
    settings: ImproveSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    """Without a corpus.json, capitals in the text say so."""
    monkeypatch.chdir(tmp_path)
    for language, line in (("en", "the house of Paris ."), ("fr", "la maison de Paris .")):
        Path(f"train.{language}").write_text(f"{line}\n")
    record = {"source": "en", "target": "fr", "case": "keep"}
    if given:
        settings.ini.with_name("corpus.json").write_text(json.dumps(record))
    out = tmp_path / "better"
    out.mkdir()
    write_form(settings, out)
    written = json.loads((out / "corpus.json").read_text())
    assert written == (record if given else record | {"case": "true", "tokenizers": {}})
    casings = [path.name for path in sorted(out.glob("truecase.*"))]
    assert casings == ([] if given else ["truecase.en", "truecase.fr"])


# --- Verdict and README.txt


def row(system: str, test: float, contrast: Contrast | None = None) -> ResultRow:
    return ResultRow(
        system=system,
        dev_bleu=30.0,
        dev_sd=0.1,
        test_bleu=test,
        test_sd=0.1,
        against_baseline=contrast,
        against_control=None,
        n_runs=3,
        n_networks=1,
        network_sd=None,
        length_ratio=1.0,
        precisions=[],
        bootstrap_sd=0.5,
        detokenised_bleu=test,
        chrf=60.0,
        ter=50.0,
        weights={},
        runs=[],
    )


def contrast(delta: float, low: float, high: float, p_value: float) -> Contrast:
    return Contrast(delta, (low, high), p_value / 2, p_value, 0.5, True)


def compared(*chosen: ResultRow) -> Comparison:
    noise = row("noise", 35.73, contrast(-0.06, -0.33, 0.22, 0.6))
    return Comparison([row("Baseline", 35.79), *chosen, noise], control="noise")


def test_a_sure_gain_is_said_in_one_line() -> None:
    """The figures of +CSLM+NNJM in README.md; by hand, 88.33 / (1 + exp(-0.966 * 2.13)) is 78."""
    found = verdict_line(compared(row("+CSLM+NNJM", 37.92, contrast(2.13, 1.55, 2.72, 1e-9))))
    assert found == (
        "test: 37.92 for 35.79: better than your system by 2.13 BLEU (1.55 to 2.72), sure beyond chance, "
        "p < 0.0001; people would prefer it in 78% of cases; columns of noise: -0.06"
    )


def test_a_loss_and_a_doubtful_gain_are_said_as_such() -> None:
    worse = verdict_line(compared(row("x", 35.29, contrast(-0.5, -0.9, -0.1, 0.02))))
    assert (
        "worse than your system by 0.50 BLEU (0.10 to 0.90), sure beyond chance, p 0.0200" in worse
    )
    assert "people" not in worse
    doubtful = verdict_line(compared(row("x", 35.99, contrast(0.2, -0.1, 0.5, 0.2))))
    assert "by 0.20 BLEU (-0.10 to 0.50), which may be chance, p 0.2000; columns" in doubtful
    large = verdict_line(compared(row("x", 37.92, contrast(2.13, -0.1, 4.4, 0.06))))
    assert "which may be chance, p 0.0600; columns" in large


def test_nothing_better_is_said() -> None:
    assert verdict_line(compared()) == (
        "test: 35.79; of what was tried, nothing is better than your system by dev"
    )


@pytest.mark.parametrize(
    ("system", "moses"),
    [
        ("cslm-nnjm", "Moses cannot load them."),
        ("columns-rnnsearch", "Moses cannot load them."),
        ("home-both", "Moses loads better/moses.ini."),
        ("lists-cslm", "Moses's search is that of better/moses.ini; its lists are reranked."),
    ],
)
def test_readme_says_what_was_chosen_and_how_to_translate(
    experiment: Experiment, settings: ImproveSettings, system: str, moses: str
) -> None:
    choice = Choice(system, {"baseline": 37.23, system: 39.98}, Path("run"))
    choice = dataclasses.replace(choice, judged=("cslm: worth", "not tuned: +NNJM"))
    comparison = compared(row("x", 37.92, contrast(2.13, 1.55, 2.72, 1e-9)))
    lines = readme(settings, experiment, choice, comparison).splitlines()
    label = experiment.systems[system].label
    assert lines[0] == f"chosen by dev: {label}; mean BLEU of 3 tunings:"
    assert lines[1:3] == [f"    39.98  {label}", "    37.23  Baseline"]
    assert lines[3:6] == [*choice.judged, verdict_line(comparison)]
    assert "    tuning decode better --source new.en --out new.fr" in lines
    assert any(line.endswith(moses) for line in lines)
    plain = "Plain text: moses-bridge translate better new.txt"
    assert (plain in lines) == (experiment.systems[system].reranks is None)
