"""The comparison of runs that a stand-in decoder made."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner
from sacrebleu.metrics.chrf import CHRF
from scipy.stats import t as student

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.base.lock import held_directory
from moses_bridge.base.textio import write_lines
from tuning.cli import main
from tuning.compare import systems as evaluation
from tuning.compare import translations
from tuning.compare.comparison import ResultRow, read_comparison
from tuning.compare.sentence_facts import TextContext
from tuning.compare.systems import CompareConfig, compare
from tuning.compare.translations import translate_all, translate_runs
from tuning.loop.fingerprints import ParallelText
from tuning.loop.list_features import NBestFeature
from tuning.loop.run_directory import LIMIT, Iteration, TuningRun, load_run, save_run
from tuning.loop.tuning_loop import TunedSystem, tune
from tuning.metrics.by_name import MetricChoice
from tuning.report.forms import to_json
from tuning.report.write import write_comparison

if TYPE_CHECKING:
    from tests.tuning.conftest import FixedSystem


def test_a_comparison_has_samples() -> None:
    with pytest.raises(ConfigError, match="n_samples is 1; the smallest value is 2"):
        CompareConfig(n_samples=1)


def test_comparison_of_a_run_with_itself_and_with_the_start(
    system: FixedSystem, tmp_path: Path
) -> None:
    for seed in (1, 2):
        system.run(tmp_path / f"run{seed}", seed)
    runs = [tmp_path / "run1", tmp_path / "run2"]
    table = compare({"Baseline": runs, "Same": runs}, *system.texts, CompareConfig(n_samples=20))
    text = write_comparison(table, tmp_path / "table")
    first, second = table.rows
    assert first.test_bleu == pytest.approx(100)
    assert first.against_baseline is None
    assert second.against_baseline is not None
    assert second.against_baseline.p_value == 1.0
    assert second.against_baseline.corrected_p_value == 1.0
    assert second.against_baseline.delta == 0
    assert "Same: the test output of run1 is also that of run2." in text
    stored = json.loads((tmp_path / "table" / "table.json").read_text())
    assert [row["system"] for row in stored["rows"]] == ["Baseline", "Same"]
    for suffix in ("md", "tex", "txt"):
        assert "100.00" in (tmp_path / "table" / f"table.{suffix}").read_text()
    n_calls = system.decoder.calls
    compare({"A": runs, "B": runs}, *system.texts, CompareConfig())
    assert system.decoder.calls == n_calls


def test_a_table_says_what_made_it(
    system: FixedSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in (1, 2):
        system.run(tmp_path / f"run{seed}", seed)
    monkeypatch.chdir(tmp_path)
    texts = ["--source", str(system["source"]), "--reference", str(system["reference"])]
    arguments = ["compare", "A=run1", f"B={tmp_path / 'run2'}", *texts, "--out", "table"]
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/tuning", *arguments])
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    made = read_comparison(tmp_path / "table" / "table.json").made
    assert made is not None
    source, reference = (system[name].name for name in ("source", "reference"))
    expected = f"--source {source} --reference {reference} --out table"
    assert made.command == f"tuning compare A=run1 B=run2 {expected}"
    outputs = {path.parent.name: path for path in tmp_path.glob("run?/test-*.out")}
    files = [system["source"], system["reference"]]
    for run in ("run1", "run2"):
        files += [tmp_path / run / "weights.json", outputs[run]]
    assert [*made.inputs.values()] == [sha256(path.read_bytes()).hexdigest() for path in files]
    assert [*made.inputs][2:4] == ["run1/weights.json", f"run1/{outputs['run1'].name}"]
    assert str(tmp_path) not in json.dumps(asdict(made))


def test_a_comparison_takes_what_was_translated_before(system: FixedSystem, tmp_path: Path) -> None:
    runs = [tmp_path / "run1", tmp_path / "run2"]
    for seed, run in enumerate(runs, 1):
        system.run(run, seed)
    outputs = translate_runs(runs, system["source"])
    assert [path.parent for path in outputs.values()] == runs
    assert all(len(path.read_bytes().splitlines()) == 3 for path in outputs.values())
    n_calls = system.decoder.calls
    assert translate_runs(runs, system["source"]) == outputs
    compare({"A": runs}, *system.texts, CompareConfig())
    assert system.decoder.calls == n_calls
    translated = outputs[runs[0]].read_bytes()
    outputs[runs[0]].write_bytes(translated.replace(b" ", b"  "))  # as many lines
    translate_runs(runs, system["source"])
    assert outputs[runs[0]].read_bytes() == translated
    assert system.decoder.calls == n_calls + 1
    record = outputs[runs[0]].with_suffix(".decoded.json")
    kept = record.read_bytes()
    record.unlink()  # as of a run that was killed, or of an older version
    translate_runs(runs, system["source"])
    assert (record.read_bytes(), system.decoder.calls) == (kept, n_calls + 1)


def test_what_speaks_against_weights_is_said_where_they_translate(
    system: FixedSystem, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    system.run(tmp_path / "run", 1)
    worse = load_run(tmp_path / "run")
    worse.caution = "it is 0: why?"
    save_run(worse, tmp_path / "run")
    translate_runs([tmp_path / "run"], system["source"])
    assert f"warning: {tmp_path / 'run'}: it is 0: why?" in capsys.readouterr().err


def test_the_metrics_that_runs_were_tuned_for_are_in_every_row(
    system: FixedSystem, tmp_path: Path
) -> None:
    """The file misses 2 of 15 words; sacreBLEU has its chrF."""
    system.run(tmp_path / "run", config=replace(system.config, metric="chrf"))
    worse = tmp_path / "worse.out"
    lines = ["a b c", "f g h i j", "k l m n o"]
    write_lines(worse, [line.encode() for line in lines])
    named = {"A": [worse], "B": [tmp_path / "run"]}
    texts = (*system.texts, CompareConfig(n_samples=20))
    table = compare(named, *texts, metrics=[MetricChoice("word-accuracy")])
    references = system["reference"].read_text().splitlines()
    by_chrf = CHRF().corpus_score(lines, [references]).score
    assert table.rows[0].metrics == {
        "word-accuracy": pytest.approx(100 * 13 / 15),
        "chrf": pytest.approx(by_chrf),
    }
    assert table.rows[1].metrics == {"word-accuracy": 100, "chrf": 100}
    written = write_comparison(table, tmp_path)
    assert "tuned: chrf" in written and "tuned: NAME: the metric" in written
    assert read_comparison(tmp_path / "table.json") == table
    plain = compare({"A": [worse]}, *texts)
    assert "metrics" not in json.loads(to_json(plain))["rows"][0]


def test_references_with_capitals_have_lowercased_bleu_beside_the_other(
    system: FixedSystem, tmp_path: Path
) -> None:
    lines = [b"a B c d e", b"F g h i j", b"k l m n o"]
    write_lines(tmp_path / "cased.fr", lines)
    write_lines(tmp_path / "out", [lines[0].lower(), *lines[1:]])
    named = {"A": [tmp_path / "cased.fr"], "B": [tmp_path / "out"]}
    table = compare(named, system["source"], [tmp_path / "cased.fr"], CompareConfig(n_samples=20))
    assert [row.metrics for row in table.rows] == [{"lowercased BLEU": 100.0}] * 2
    assert table.rows[0].test_bleu == 100 > table.rows[1].test_bleu
    written = write_comparison(table, tmp_path / "table")
    assert "lowercased BLEU" in written and "tuned:" not in written


def test_an_empty_line_among_references_is_none_and_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, first, second = (tmp_path / name for name in ("out", "first.fr", "second.fr"))
    write_lines(output, [b"a b c d e", b"f g"])
    write_lines(first, [b"a b c d e f g h", b"f g"])
    write_lines(second, [b"", b"F G"])
    texts = (output, [first, second], CompareConfig(n_samples=2))
    table = compare({"A": [output]}, *texts)
    assert table.rows[0].length_ratio == pytest.approx(7 / 10)
    signatures = [table.signature, *table.detokenised_signatures]
    assert all("|nrefs:var|" in signature for signature in signatures)
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    assert notes[0].startswith(f"note: {second}:1: an empty reference; 1 of 2 sentences")
    assert "has capitals in 0 of 7 words" in notes[1] and len(notes) == 2


def test_files_of_translations_are_compared_like_the_runs_they_come_from(
    system: FixedSystem, tmp_path: Path
) -> None:
    """Beside a run, with the numbers of the runs, and on the page."""
    runs = [tmp_path / "run1", tmp_path / "run2"]
    for seed, run in enumerate(runs, 1):
        system.run(run, seed)
    files = list(translate_runs(runs, system["source"]).values())
    worse = tmp_path / "worse.out"
    worse.write_text("a b c\nf g h i j\nk l m n o\n")
    texts = (*system.texts, CompareConfig(n_samples=20))
    of_runs = compare({"A": [worse], "B": runs}, *texts)
    of_files = compare({"A": [worse], "B": files}, *texts)
    first, second = of_files.rows
    assert asdict(second.against_baseline or first) == asdict(
        of_runs.rows[1].against_baseline or first
    )
    of_no_run = second.dev_bleu, second.dev_sd, second.weights, second.same_models
    assert of_no_run == (None, None, {}, True)
    assert (second.chrf, second.n_runs) == (of_runs.rows[1].chrf, 2)
    text = write_comparison(of_files, tmp_path / "table")
    assert read_comparison(tmp_path / "table" / "table.json") == of_files
    assert "also that of" in text
    page = tmp_path / "page.html"
    arguments = [str(tmp_path / "table" / "table.json"), "--out", str(page)]
    texts_shown = ["--source", str(system["source"]), "--reference", str(system["reference"])]
    result = CliRunner().invoke(main, ["report", "--comparison", *arguments, *texts_shown])
    assert result.exit_code == 0, result.output
    assert "a b c" in page.read_text()


def test_files_of_translations_that_do_not_fit_are_refused(
    system: FixedSystem, tmp_path: Path
) -> None:
    system.run(tmp_path / "run1")
    short = tmp_path / "short.out"
    short.write_text("a b c d e\n")
    texts = (*system.texts, CompareConfig())
    with pytest.raises(InputError, match=r"short.out: found 1 lines, expected 3, as the reference"):
        compare({"A": [short]}, *texts)
    with pytest.raises(ConfigError, match="A has runs and files of translations; make two systems"):
        compare({"A": [short, tmp_path / "run1"]}, *texts)


def test_a_second_writer_of_a_table_is_refused(system: FixedSystem, tmp_path: Path) -> None:
    system.run(tmp_path / "run")
    out = tmp_path / "table"
    command = ["compare", f"A={tmp_path / 'run'}", "--out", str(out), "--jobs", "1"]
    command += ["--source", str(system["source"]), "--reference", str(system["reference"])]
    with held_directory(out):
        before = [*out.iterdir()]
        result = CliRunner().invoke(main, command, prog_name="tuning")
        assert [*out.iterdir()] == before
    assert result.exit_code == 1 and result.stdout == ""
    *_, line = result.stderr.splitlines()
    assert line.startswith(f"tuning: error: {out}: another command writes there (process")
    assert CliRunner().invoke(main, command).exit_code == 0
    assert (out / "table.txt").exists()


def test_a_reference_of_another_length_stops_before_anything_is_decoded(
    system: FixedSystem, tmp_path: Path
) -> None:
    system.run(tmp_path / "run")
    n_calls = system.decoder.calls
    test = tmp_path / "test"
    test.write_bytes(b"1\n2\n3\n")
    longer = tmp_path / "longer.fr"
    longer.write_bytes(b"a\n" * 4)
    message = "longer.fr: found 4 lines, expected 3, as .*"
    with pytest.raises(InputError, match=message + "test has"):
        compare({"A": [tmp_path / "run"]}, test, [longer], CompareConfig())
    with pytest.raises(InputError, match=message + "source has"):
        text = ParallelText(system["source"], [longer])
        tune(TunedSystem(system["moses.ini"]), text, tmp_path / "other", system.config)
    assert system.decoder.calls == n_calls


def test_one_run_has_no_deviation(system: FixedSystem, tmp_path: Path) -> None:
    system.run(tmp_path / "run")
    table = compare({"Only": [tmp_path / "run"]}, *system.texts, CompareConfig(n_samples=9))
    assert table.rows[0].test_sd is None
    assert " * " in write_comparison(table, tmp_path / "table")


def test_systems_may_have_different_numbers_of_runs(system: FixedSystem, tmp_path: Path) -> None:
    paths = [tmp_path / f"run{seed}" for seed in (1, 2, 3)]
    for seed, path in enumerate(paths):
        system.run(path, seed)
    config = CompareConfig(n_samples=9)
    systems = {"A": paths[:2], "B": paths}
    rows = compare(systems, *system.texts, config).rows
    assert [row.n_runs for row in rows] == [2, 3]
    assert rows[1].against_baseline is not None
    assert rows[1].against_baseline.p_value == 1.0


def test_runs_of_one_system_have_the_same_features(system: FixedSystem, tmp_path: Path) -> None:
    runs = [tmp_path / "run1", tmp_path / "run2"]
    for path in runs:
        system.run(path)
    content = json.loads((runs[0] / "weights.json").read_text())
    content["weights"]["CSLM0"] = [0.1]
    (runs[0] / "weights.json").write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=r"A: .*run2 has other features .*run1: .*CSLM0 \(1\)"):
        compare({"A": runs}, *system.texts, CompareConfig())
    with pytest.raises(ConfigError, match="A has a run twice"):
        compare({"A": [runs[0], runs[0]]}, *system.texts, CompareConfig())


@pytest.mark.parametrize("changed", ["moses.ini", "lm"])
def test_a_run_whose_files_changed_since_is_refused(
    system: FixedSystem, tmp_path: Path, changed: str
) -> None:
    system.run(tmp_path / "run")
    with system[changed].open("a") as stream:
        stream.write("\n")
    systems = {"Only": [tmp_path / "run"]}
    key = "ini" if changed == "moses.ini" else "LM0/lm"
    with pytest.raises(ConfigError, match=rf"run: {key} changed since .*moses\.ini; tune again"):
        compare(systems, *system.texts, CompareConfig())


def test_a_table_of_the_names_that_formats_reserve(system: FixedSystem, tmp_path: Path) -> None:
    system.run(tmp_path / "run")
    config = CompareConfig(n_samples=9)
    systems = {"50%_a|b": [tmp_path / "run"]}
    table = compare(systems, *system.texts, config)
    write_comparison(table, tmp_path / "table")
    assert r"50\%\_a\textbar{}b &" in (tmp_path / "table" / "table.tex").read_text()
    markdown = (tmp_path / "table" / "table.md").read_text()
    assert r"| 50%_a\|b |" in markdown
    assert "BLEU|detokenised|lang:fr|nrefs:1|case:mixed" in markdown
    assert "TER|detokenised|lang:fr|nrefs:1|case:lc" in markdown


class ShareDecoder:
    """Gets each line right whose number, scattered over 0 to 99, is below the weight of LM0."""

    def __init__(self, references: Sequence[bytes]) -> None:
        self.references = references

    def __enter__(self) -> ShareDecoder:
        return self

    def __exit__(self, *_: object) -> None: ...

    def decode(
        self,
        source: Path,
        out: Path,
        weights: dict[str, list[float]],
        nbest: Path | None,
        nbest_size: int,
    ) -> None:
        right = [number * 37 % 100 < weights["LM0"][0] for number in range(len(self.references))]
        wrong = [b" ".join(reversed(line.split(b" "))) for line in self.references]
        pairs = zip(right, self.references, wrong, strict=True)
        write_lines(out, [line if is_right else other for is_right, line, other in pairs])
        if nbest is not None:
            both = zip(self.references, wrong, strict=True)
            write_lines(
                nbest,
                [
                    b"%d ||| %s ||| LM0= 1 ||| 1" % (number, line)
                    for number, pair in enumerate(both)
                    for line in pair
                ],
            )


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Source and reference of 100 sentences, and a decoder whose quality is the weight of LM0."""
    lines = [f"a{n} b{n % 7} c{n % 5} d{n % 3} e{n}".encode() for n in range(100)]
    for name in ("test.src", "test.fr"):
        write_lines(tmp_path / name, lines)
    monkeypatch.setattr(translations, "open_decoder", lambda *_: ShareDecoder(lines))
    monkeypatch.setattr(evaluation, "check_unchanged", lambda _: None)
    return tmp_path / "test.src", tmp_path / "test.fr"


def make_run(
    directory: Path,
    quality: float,
    network: str = "",
    constant: Sequence[str] = (),
    end: str = "weights settled",
    decoder: Mapping[str, Any] = MappingProxyType({}),
    nbest_features: Sequence[NBestFeature] = (),
) -> Path:
    """A run directory; runs with one network have the same tables."""
    directory.mkdir()
    weights = {"LM0": [quality]}
    iterations = [
        Iteration({"LM0": [1.0]}, 10.0, 1.0, 50.0, 20.0, constant=[*constant]),
        Iteration(weights, 20.0, 1.0, 50.0),
    ]
    run = TuningRun(
        ini=str(directory.parent / "moses.ini"),
        weights=weights,
        dev_bleu=20.0,
        seed=1,
        nbest_size=10,
        decoder={**decoder},
        nbest_features=[*nbest_features],
        iterations=iterations,
        hashes={"T0/table": network} if network else {},
        end=end,
    )
    save_run(run, directory)
    return directory


def compared(
    texts: tuple[Path, Path], systems: dict[str, list[Path]], config: CompareConfig | None = None
) -> dict[str, ResultRow]:
    config = config or CompareConfig(n_samples=9)
    rows = compare(systems, texts[0], [texts[1]], config).rows
    return {row.system: row for row in rows}


def test_a_better_system_has_a_positive_delta_and_a_small_p(
    texts: tuple[Path, Path], tmp_path: Path
) -> None:
    good = [make_run(tmp_path / f"good{q}", q) for q in (79, 80, 81)]
    bad = [make_run(tmp_path / f"bad{q}", q) for q in (39, 40, 41)]
    same = [make_run(tmp_path / f"same{q}", q) for q in (38, 40, 42)]
    rows = compared(texts, {"bad": bad, "good": good, "same": same})
    better, equal = rows["good"].against_baseline, rows["same"].against_baseline
    assert better is not None
    assert equal is not None
    assert better.delta == pytest.approx(rows["good"].test_bleu - rows["bad"].test_bleu)
    assert better.delta > 20
    assert better.interval[0] > 0
    assert better.p_value < better.corrected_p_value < 0.001
    assert equal.p_value == pytest.approx(equal.corrected_p_value) == pytest.approx(1, abs=0.5)
    assert rows["good"].test_bleu == pytest.approx(
        np.mean([run.test_bleu for run in rows["good"].runs])
    )


def test_a_row_says_what_its_runs_were(texts: tuple[Path, Path], tmp_path: Path) -> None:
    runs = [make_run(tmp_path / f"run{q}", q) for q in (30, 50)]
    row = compared(texts, {"A": runs})["A"]
    scores = [run.test_bleu for run in row.runs]
    assert scores[1] > scores[0] > 10
    assert row.test_bleu == pytest.approx(np.mean(scores))
    assert row.test_sd == pytest.approx((scores[1] - scores[0]) / 2**0.5)
    assert (row.dev_bleu, row.dev_sd) == (20.0, 0.0)
    assert (row.n_runs, row.n_networks, row.network_sd) == (2, 1, None)
    assert row.weights == {"LM0": [40.0]}
    assert row.length_ratio == 1
    # All words of the reversed lines are right, and of their longer n-grams none: 80 lines of 200 are whole.
    assert row.precisions == pytest.approx([100, 40, 40, 40])
    assert row.bootstrap_sd == compared(texts, {"first": runs[:1]})["first"].bootstrap_sd
    assert row.bootstrap_sd != compared(texts, {"second": runs[1:]})["second"].bootstrap_sd
    for run, directory in zip(row.runs, runs, strict=True):
        assert (run.directory, run.n_iterations, run.kept) == (str(directory), 2, 2)
        assert run.left_start and not run.same_output_as


def test_weights_that_no_iteration_gave_are_compared(
    texts: tuple[Path, Path], tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run", 40)
    content = json.loads((run / "weights.json").read_text())
    (run / "weights.json").write_text(json.dumps(content | {"iterations": []}))
    (summary,) = compared(texts, {"A": [run]})["A"].runs
    assert (summary.n_iterations, summary.kept) == (0, 0)


def test_rows_are_set_against_a_control_of_several_noise_columns(
    texts: tuple[Path, Path], tmp_path: Path
) -> None:
    base = [make_run(tmp_path / f"base{q}", q) for q in (48, 52)]
    noise = [make_run(tmp_path / f"noise{q}", q, f"table {q // 10}") for q in (37, 38, 47, 48, 57)]
    config = CompareConfig(n_samples=9, control="noise")
    table = compare(
        {"base": base, "+X": [make_run(tmp_path / "x", 60)], "noise": noise},
        texts[0],
        [texts[1]],
        config,
    )
    rows = {row.system: row for row in table.rows}
    assert rows["noise"].n_networks == 3
    scores = [run.test_bleu for run in rows["noise"].runs]
    networks = [np.mean(scores[:2]), np.mean(scores[2:4]), scores[4]]
    assert rows["noise"].network_sd == pytest.approx(np.std(networks, ddof=1))
    assert rows["noise"].test_bleu == pytest.approx(np.mean(networks))
    assert rows["noise"].against_control is None
    assert rows["+X"].against_control is not None
    assert rows["+X"].against_control.delta > 0
    assert rows["base"].against_control is not None
    assert table.ngrams is not None
    assert table.ngrams.system == "+X"
    text = write_comparison(table, tmp_path / "table")
    assert "vs control" in text
    assert "noise: 3 networks or noise columns, standard deviation of their means" in text
    with pytest.raises(ConfigError, match="no system other; there are base"):
        compared(texts, {"base": base}, replace(config, control="other"))


def test_the_table_warns_of_what_moved_nothing(texts: tuple[Path, Path], tmp_path: Path) -> None:
    start = make_run(tmp_path / "start", 1.0)
    constant = make_run(tmp_path / "wp", 60, constant=["T0_4"])
    limited = make_run(tmp_path / "limited", 70, end=LIMIT)
    worse = load_run(limited)
    worse.caution = "iteration 1 had 20.00, 9.00 better"
    save_run(worse, limited)
    systems = {"Baseline": [start], "+WP": [constant], "+X": [limited]}
    table = compare(systems, texts[0], [texts[1]], CompareConfig(n_samples=9))
    text = write_comparison(table, tmp_path / "table")
    assert "Baseline: nothing moved; the row is that of the weights it started from." in text
    assert "+WP: T0_4 without effect, since all n-best lists have one value." in text
    assert f"+X: warning about the tuning of limited: {worse.caution}." in text
    assert " 2+ " in text
    assert "over texts alone, one run each" in text


def test_commands_of_a_run_are_not_run_unasked(texts: tuple[Path, Path], tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    command = f"sh -c 'touch {ran}; cp {{nbest}} {{out}}'"
    searched = make_run(tmp_path / "a", 50, decoder={"neural_lm": f"CSLM0=touch {ran}"})
    listed = make_run(tmp_path / "b", 50, nbest_features=[NBestFeature("A0", command)])
    for run, name in ((searched, "CSLM0"), (listed, "A0")):
        with pytest.raises(ConfigError, match=rf"feature {name} of this run.*--run-commands"):
            compared(texts, {"A": [run]})
        with pytest.raises(ConfigError, match="--run-commands"):
            translate_all({run: load_run(run)}, texts[0], 1)
    assert not ran.exists()


def test_the_test_text_is_reranked_by_the_features_of_the_run(
    texts: tuple[Path, Path], tmp_path: Path
) -> None:
    """The decoder alone gets every line wrong; the added feature is 1 for the right hypotheses."""
    script = tmp_path / "add.py"
    script.write_text(
        "import gzip, sys\n"
        "seen = set()\n"
        "with gzip.open(sys.argv[1]) as lines, gzip.open(sys.argv[2], 'wb') as out:\n"
        "    for line in lines:\n"
        "        number, words, features, total = line.split(b' ||| ')\n"
        "        features += b' A0= %d' % (number not in seen)\n"
        "        seen.add(number)\n"
        "        out.write(b' ||| '.join((number, words, features, total)))\n"
    )
    feature = NBestFeature("A0", f"{sys.executable} {script} {{nbest}} {{out}}")
    run = make_run(tmp_path / "run", 0.0, nbest_features=[feature])
    content = json.loads((run / "weights.json").read_text())
    content["weights"]["A0"] = [1.0]
    (run / "weights.json").write_text(json.dumps(content))
    plain = make_run(tmp_path / "plain", 0.0)
    config = CompareConfig(n_samples=9, run_commands=True)
    rows = compared(texts, {"plain": [plain], "reranked": [run]}, config)
    assert rows["plain"].test_bleu < 10
    assert rows["reranked"].test_bleu == pytest.approx(100)


def test_a_text_of_two_sentences_is_enough(
    texts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = texts[0].read_bytes().splitlines()[:2]
    write_lines(tmp_path / "two.fr", lines)
    monkeypatch.setattr(translations, "open_decoder", lambda *_: ShareDecoder(lines))
    run = make_run(tmp_path / "run", 100)
    row = compared((tmp_path / "two.fr", tmp_path / "two.fr"), {"A": [run]})["A"]
    assert row.test_bleu == pytest.approx(100)


def test_the_far_sentences_are_compared_as_a_text_of_their_own(
    texts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first 40 sentences are in the training text; the others alone give the same values."""
    lines = texts[0].read_bytes().splitlines()
    write_lines(tmp_path / "train", [b"other text", *lines[:40]])
    systems = {
        name: [make_run(tmp_path / f"{name}{q}", q) for q in qualities]
        for name, qualities in {"bad": (39, 41), "good": (60, 64), "noise": (37, 42)}.items()
    }
    config = CompareConfig(n_samples=9, control="noise")
    table = compare(
        systems, texts[0], [texts[1]], config, context=TextContext([tmp_path / "train"])
    )
    assert table.near_copies == {"0.5": 0.4, "0.7": 0.4, "0.8": 0.4}
    assert table.n_far == 60
    plain = compare(systems, texts[0], [texts[1]], config)
    assert [replace(row, far=None) for row in table.rows] == plain.rows
    text = write_comparison(table, tmp_path / "table")
    assert "40.0% (>= 0.5), 40.0% (>= 0.7), 40.0% (>= 0.8)" in text
    assert "(far): the 60 others, below 0.5." in text
    markdown = (tmp_path / "table" / "table.md").read_text().split("\n")
    head = next(place for place, line in enumerate(markdown) if line.startswith("| system |"))
    assert [line.split(" | ")[0] for line in markdown[head + 2 : head + 8]] == [
        f"| {name}{far}" for name in systems for far in ("", " (far)")
    ]
    assert r"good (far) &  &  & " in (tmp_path / "table" / "table.tex").read_text()
    assert read_comparison(tmp_path / "table" / "table.json") == table

    write_lines(tmp_path / "far.fr", lines[40:])
    kept = [number for number in range(100) if number >= 40]

    class FarDecoder(ShareDecoder):
        def decode(self, source: Path, out: Path, weights: dict[str, list[float]], *_: Any) -> None:
            super().decode(source, out, weights, None, 1)
            whole = out.read_bytes().splitlines()
            write_lines(out, [whole[number] for number in kept])

    monkeypatch.setattr(translations, "open_decoder", lambda *_: FarDecoder(lines))
    alone = compare(systems, tmp_path / "far.fr", [tmp_path / "far.fr"], config)
    for row, expected in zip(table.rows, alone.rows, strict=True):
        assert row.far is not None
        for name in (
            *("test_bleu", "test_sd", "bootstrap_sd", "length_ratio", "precisions"),
            *("against_baseline", "against_control"),
        ):
            assert getattr(row.far, name) == getattr(expected, name), name


def test_words_by_frequency_are_counted_where_the_training_text_is_known(
    texts: tuple[Path, Path], tmp_path: Path
) -> None:
    """The stand-in's outputs have the words of the reference in the right sentence: F1 is 100."""
    run = make_run(tmp_path / "run", 50)
    train = tmp_path / "train.fr"
    train.write_bytes(b"b0 b1 c0 c0\n" * 500)
    out = tmp_path / "table"
    arguments = ["compare", f"A={run}", "--source", str(texts[0]), "--reference", str(texts[1])]
    arguments += ["--train-target", str(train), "--out", str(out)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    table = read_comparison(out / "table.json")
    words = {each.label: each for each in table.rows[0].words}
    # 100 sentences of 5 words; n % 7 is 0 or 1 in 15 + 15 of them, n % 5 is 0 in 20.
    counts = {label: each.n_reference_words for label, each in words.items()}
    expected = {"0": 450, "1-4": 0, "5-9": 0, "10-99": 0, "100-999": 30, "1000+": 20}
    assert counts == expected
    assert words["1000+"].f1 == 100.0
    assert table.made is not None
    assert "train.fr" in table.made.inputs
    train.write_bytes(b"")
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 1
    assert "train.fr: found no lines, expected the target side of a training text" in done.output


def test_documents_are_told_and_change_the_interval_alone(
    texts: tuple[Path, Path], tmp_path: Path
) -> None:
    systems = {
        name: [make_run(tmp_path / f"{name}{q}", q) for q in qualities]
        for name, qualities in {"bad": (39, 41), "good": (60, 64)}.items()
    }
    (tmp_path / "groups").write_text("".join(f"document {n // 10}\n" for n in range(100)))
    table = compare(
        systems,
        texts[0],
        [texts[1]],
        CompareConfig(n_samples=9),
        context=TextContext(groups=tmp_path / "groups"),
    )
    plain = compare(systems, texts[0], [texts[1]], CompareConfig(n_samples=9))
    assert table.n_documents == 10
    found, by_sentence = table.rows[1].against_baseline, plain.rows[1].against_baseline
    assert found is not None
    assert by_sentence is not None
    assert found.delta == pytest.approx(by_sentence.delta)
    assert found.p_value != by_sentence.p_value
    assert found.standard_error is not None
    # The interval by its definition, from the two values that are kept for pooling.
    reach = student.ppf(0.975, found.degrees_of_freedom) * found.standard_error
    assert found.interval == pytest.approx((found.delta - reach, found.delta + reach))
    text = write_comparison(table, tmp_path / "table")
    assert "jackknife variance of the paired texts by document (10) + variance between runs" in text
    assert "Holm: p corrected for 1 rows" in text
    assert "|test:jackknife of documents+runs|" in text


def test_rows_of_one_network_are_said_to_be_of_one(
    texts: tuple[Path, Path], tmp_path: Path
) -> None:
    """One network, two, and the tables of the baseline: the first one alone says nothing of others."""
    networks = {"base": "tt", "one": "aa", "several": "bc", "optimiser": "tt", "single": "d"}
    systems = {
        name: [make_run(tmp_path / f"{name}{q}", q, own) for q, own in enumerate(letters, 40)]
        for name, letters in networks.items()
    }
    config = CompareConfig(n_samples=9)
    table = compare(systems, texts[0], [texts[1]], config)
    assert [row.same_models for row in table.rows] == [True, False, False, True, False]
    text = write_comparison(table, tmp_path / "table")
    note = "p and intervals: over texts and tunings of one network each; what another"
    assert f"\none, single: {note}" in text
    for suffix in ("md", "tex"):
        assert note in (tmp_path / "table" / f"table.{suffix}").read_text()
    first = {name: systems[name] for name in ("base", "one")}
    alone = write_comparison(compare(first, texts[0], [texts[1]], config), tmp_path / "alone")
    assert "\none: p and intervals: over texts and tunings of this one network; what" in alone
    few = {name: runs[:1] for name, runs in first.items()}
    single = write_comparison(compare(few, texts[0], [texts[1]], config), tmp_path / "few")
    assert "network" not in single.replace("between networks or noise columns where", "")


def test_too_few_far_sentences_have_no_lines(texts: tuple[Path, Path], tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 50)
    table = compare(
        {"A": [run]},
        texts[0],
        [texts[1]],
        CompareConfig(n_samples=9),
        context=TextContext([texts[0]]),
    )
    assert (table.n_far, table.rows[0].far) == (0, None)
    text = write_comparison(table, tmp_path / "table")
    assert "100.0% (>= 0.8)" in text
    assert "the 0 others, below 0.5, are too few for lines of their own." in text


def test_a_text_of_one_sentence_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 50)
    (tmp_path / "one.fr").write_bytes(b"a b\n")
    with pytest.raises(ConfigError, match="one sentence"):
        compared((tmp_path / "one.fr", tmp_path / "one.fr"), {"A": [run]})


def test_the_command_takes_training_texts_and_groups(
    texts: tuple[Path, Path], tmp_path: Path
) -> None:
    lines = texts[0].read_bytes().splitlines()
    write_lines(tmp_path / "train1", lines[:10])
    write_lines(tmp_path / "train2", lines[10:30])
    write_lines(tmp_path / "groups", [b"%d" % (number // 20) for number in range(100)])
    command = ["compare", *(f"{q}={make_run(tmp_path / f'run{q}', q)}" for q in (40, 60))]
    command += ["--source", str(texts[0]), "--reference", str(texts[1])]
    command += ["--out", str(tmp_path / "out"), "--groups", str(tmp_path / "groups")]
    for name in ("train1", "train2"):
        command += ["--train-source", str(tmp_path / name)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    table = read_comparison(tmp_path / "out" / "table.json")
    assert (table.near_copies or {})["0.8"] == 0.3
    assert (table.n_documents, table.n_far) == (5, 70)
    write_lines(tmp_path / "groups", [b"one"] * 100)
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code == 1
    assert "groups: found one document, expected two or more" in refused.output
