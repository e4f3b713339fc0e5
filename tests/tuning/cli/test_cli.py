"""The command tuning: its output as JSON, its faults in one line."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from moses_bridge.base.config import from_mapping, load_toml
from moses_bridge.base.config_text import commented_toml
from tuning.cli import main
from tuning.cli.tune import _print_end
from tuning.compare.scan import ScanConfig
from tuning.compare.systems import CompareConfig
from tuning.loop.run_directory import TuningRun
from tuning.loop.settings import RerankConfig, TuningConfig
from tuning.optimisers.by_name import OPTIMIZER_NAMES
from tuning.optimisers.contract import OptimizerConfig

if TYPE_CHECKING:
    from tests.tuning.conftest import FixedSystem

FEATURES = """\
FEATURES_TXT_BEGIN_0 0 2 2 A_0 B_0
1 0
0 1
FEATURES_TXT_END_0
FEATURES_TXT_BEGIN_0 1 2 2 A_0 B_0
0 1
2 0
FEATURES_TXT_END_0
"""
SCORES = """\
SCORES_TXT_BEGIN_0 0 2 9 BLEU
1 5 1 4 1 3 1 2 5
5 5 4 4 3 3 2 2 5
SCORES_TXT_END_0
SCORES_TXT_BEGIN_0 1 2 9 BLEU
5 5 4 4 3 3 2 2 5
1 5 1 4 1 3 1 2 5
SCORES_TXT_END_0
"""
TO_REFERENCE = ["--reference", "reference"]
COMPARED = ["--source", "output", "--reference", "reference", "--out", "table"]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    texts = {
        "features": FEATURES,
        "scores": SCORES,
        "init": "1 0.1\n0 0\n1 1\n",
        "output": "a b c d\nx y\n",
        "reference": "a b c d\nx y\n",
        "short": "a b c d\n",
        "empty": "",
    }
    paths = {name: tmp_path / f"{name}.fr" for name in texts}
    for name, text in texts.items():
        paths[name].write_text(text)
    return {name: str(path) for name, path in paths.items()}


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, arguments)
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("decoder", "trusted"), [({}, ""), ({"neural_lm": ["C0=rescorer serve c"]}, " --run-commands")]
)
def test_a_run_ends_with_the_command_to_type_next(
    decoder: dict[str, Any], trusted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _print_end(TuningRun("moses.ini", {}, 12.345, 1, 100, decoder), Path("runs/a b"))
    printed = capsys.readouterr()
    assert printed.out == "dev BLEU 12.35, weights in runs/a b/weights.json\n"
    assert printed.err == (
        "next: tuning compare BASELINE=RUN 'a b=runs/a b' --source TEST_SOURCE "
        f"--reference TEST_REFERENCE --out COMPARISON{trusted}\n"
    )


def optimize_arguments(files: dict[str, str]) -> list[str]:
    pairs = (("--features", "features"), ("--scores", "scores"), ("--init-weights", "init"))
    return ["optimize", *(part for option, name in pairs for part in (option, files[name]))]


@pytest.mark.parametrize("optimizer", OPTIMIZER_NAMES)
def test_optimize_finds_the_perfect_hypotheses(files: dict[str, str], optimizer: str) -> None:
    status, output = call(*optimize_arguments(files), "--optimizer", optimizer, "--jobs", "1")
    assert status == 0, output
    result = json.loads(output[output.index("{") :])
    assert result["bleu"] == pytest.approx(100)
    assert result["weights"]["B_0"] > result["weights"]["A_0"]


def test_evaluate_prints_bleu(files: dict[str, str]) -> None:
    arguments = ["evaluate", files["output"], "--reference", files["reference"]]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0
    scores = json.loads(result.stdout)
    assert scores["bleu"] == pytest.approx(100)
    assert scores["length_ratio"] == 1
    assert len(scores["signatures"]) == 3


def test_evaluate_prints_the_means_of_systems(files: dict[str, str]) -> None:
    arguments = [f"A={files['output']},{files['reference']}", f"B={files['output']}"]
    arguments = ["evaluate", *arguments, "--reference", files["reference"]]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    found = {scores["system"]: scores for scores in json.loads(result.stdout)}
    assert (found["A"]["means"]["bleu"], found["A"]["deviations"]["bleu"]) == (100, 0)
    assert (len(found["A"]["outputs"]), found["B"]["deviations"]) == (2, {})
    status, output = call(*arguments, "--format", "text")
    assert status == 0
    rows = [line.split() for line in output.splitlines() if line.strip().startswith(("A ", "B "))]
    assert [row[:4] for row in rows] == [["A", "2", "100.00", "0.00"], ["B", "1", "100.00", "*"]]


def test_language_and_tokenizer_are_in_the_signatures(files: dict[str, str]) -> None:
    def signatures(*options: str) -> list[str]:
        arguments = ["evaluate", files["output"], "--reference", files["reference"], *options]
        result = CliRunner().invoke(main, arguments)
        found: list[str] = json.loads(result.stdout)["signatures"]
        return found

    assert all("|detokenised|lang:fr|" in each for each in signatures())
    of_bleu, *others = signatures("--target-language", "pt_BR", "--tokenize", "intl")
    assert "|lang:pt_BR|" in of_bleu and "|tok:intl|" in of_bleu
    assert all("|lang:pt_BR|" in each for each in others)


def test_a_language_that_no_suffix_names_has_to_be_given(
    files: dict[str, str], tmp_path: Path
) -> None:
    reference = tmp_path / "reference"
    reference.write_text("a b c d\nx y\n")
    arguments = ["evaluate", files["output"], "--reference", str(reference)]
    status, output = call(*arguments)
    assert (status, "with --target-language, such as fr, de" in output) == (1, True)
    assert call(*arguments, "--target-language", "de")[0] == 0


def test_faults_of_texts_are_said_where_the_number_is(
    files: dict[str, str], tmp_path: Path
) -> None:
    output = tmp_path / "windows.fr"
    output.write_bytes(b"\xef\xbb\xbfA b c d\r\nx\xc2\xa0y\r\n")
    result = CliRunner().invoke(main, ["evaluate", str(output), "--reference", files["reference"]])
    notes = result.stderr.splitlines()
    assert [note.partition(f"note: {output}")[2] for note in notes if note.startswith("note")] == [
        ": left out the byte order mark before line 1 and the carriage return at the end of 2 of 2 lines",
        ":2: a blank that separates no words; in the text U+00A0 1 times",
        f" has capitals in 1 of 6 words, {files['reference']} in 0 of 6: they are other words to BLEU",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "short", "--reference", "reference"], "1 lines"),
        (["evaluate", "nowhere", "--reference", "reference"], "nowhere: "),
        (["evaluate", "A=nowhere", "--reference", "reference"], "nowhere: "),
        (["evaluate", "A=", "--reference", "reference"], "expected NAME=FILE[,FILE...]"),
        (["evaluate", "A=x", "A=y", "--reference", "reference"], "A is given twice"),
        (["evaluate", "output", "output", "--reference", "reference"], "expected NAME=FILE"),
        (["evaluate", "empty", "--reference", "empty"], "empty.fr: found no lines"),
        (["evaluate", "output", *TO_REFERENCE, "--target-language", "fra"], "the nearest: fr, "),
        (["evaluate", "output", *TO_REFERENCE, "--tokenize", "ko-mecab"], "cannot be loaded"),
        (["compare", "A=output", *COMPARED, "--target-language", "xx"], "found 'xx', expected"),
        (
            ["optimize", "--features", "scores", "--scores", "scores", "--init-weights", "init"],
            "scores.fr:1",
        ),
        (
            ["optimize", "--features", "features", "--scores", "scores", "--init-weights", "short"],
            "short",
        ),
        (["decode", "nowhere", "--source", "output"], "nowhere/weights.json"),
        (["compare", "Baseline", *COMPARED], "NAME=RUN"),
        (["compare", "Baseline=", *COMPARED], "NAME=RUN"),
        (["compare", "Baseline=run1,,run2", *COMPARED], "NAME=RUN"),
        (["compare", "Baseline=run1", "Baseline=run2", *COMPARED], "Baseline is given twice"),
    ],
)
def test_faults_end_in_one_line(files: dict[str, str], arguments: list[str], message: str) -> None:
    status, output = call(*(files.get(argument, argument) for argument in arguments))
    assert status == 1
    assert message in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    "command", ["tune", "rerank", "optimize", "evaluate", "compare", "decode", "plot", "scan"]
)
def test_each_command_shows_an_example(command: str) -> None:
    status, output = call(command, "--help")
    assert status == 0
    assert f"Example: tuning {command}" in " ".join(output.split())


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("tune", TuningConfig),
        ("rerank", RerankConfig),
        ("optimize", OptimizerConfig),
        ("compare", CompareConfig),
        ("scan", ScanConfig),
    ],
)
def test_printed_settings_are_read_again(command: str, kind: type[Any], tmp_path: Path) -> None:
    status, output = call(command, "--print-config")
    assert (status, output) == (0, commented_toml(kind()))
    (tmp_path / "c.toml").write_text(output)
    assert from_mapping(kind, load_toml(tmp_path / "c.toml"), "file") == kind()


@pytest.mark.parametrize("place", [1, 5, 9])
def test_options_of_tune_go_before_those_of_the_file(tmp_path: Path, place: int) -> None:
    path = tmp_path / "t.toml"
    path.write_text("nbest_size = 5\nmax_iterations = 6\n[decoder]\nstack_size = 7\n")
    arguments = ["tune", "--config", str(path), "--nbest-size", "20", "--neural-lm", "C=cat"]
    arguments += ["--optimizer", "pro"]
    status, output = call(*arguments[:place], "--print-config", *arguments[place:])
    assert status == 0, output
    found = tomllib.loads(output)
    assert (found["nbest_size"], found["max_iterations"]) == (20, 6)
    assert (found["decoder"]["stack_size"], found["decoder"]["neural_lm"]) == (7, ["C=cat"])
    assert found["optimizer"] == "pro"


@pytest.mark.parametrize(
    ("text", "arguments", "status", "message"),
    [
        ("[search]\nfroze = []\n", [], 1, "unknown key 'froze'; did you mean 'frozen'?"),
        ("[search]\nn_restart = 2\n", [], 1, "did you mean 'mert.n_restarts'?"),
        ("[search]\nn_restarts = 2\n", [], 1, "did you mean 'mert.n_restarts'?"),
        ("[search]\nmin_gain = 2\n", [], 1, "did you mean 'mert.min_gain' or 'pro.min_gain'?"),
        ("[decoder]\npop_limit = 0\n", [], 1, "decoder: pop_limit is 0; the smallest value is 1"),
        ("search = 3\n", [], 1, "search: found 3, expected a table"),
        ("", ["--max-iterations", "0"], 2, "--max-iterations"),
    ],
)
def test_faulty_settings_of_tune(
    tmp_path: Path, text: str, arguments: list[str], status: int, message: str
) -> None:
    path = tmp_path / "t.toml"
    path.write_text(text)
    found, output = call("tune", "--print-config", *arguments, "--config", str(path))
    assert found == status
    assert message in output


def test_decode_writes_the_file_of_a_single_run(system: FixedSystem, tmp_path: Path) -> None:
    run, out, source = str(tmp_path / "run"), tmp_path / "new.fr", str(system["source"])
    system.run(tmp_path / "run")
    assert call("decode", run, "--source", source, "--out", str(out)) == (0, f"{out}\n")
    assert len(out.read_text().splitlines()) == len(Path(source).read_text().splitlines())
    out.unlink()
    status, output = call("decode", run, run, "--source", source, "--out", str(out))
    assert status == 1
    assert "found 2 runs, expected one: --out is a single file" in output
    assert not out.exists()
