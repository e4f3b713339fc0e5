"""Reranking the lists of any decoder: weights, chosen translations, and the command with its comparison."""

from __future__ import annotations

import gzip
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from sacrebleu.metrics.chrf import CHRF

from moses_bridge.base.errors import ConfigError, InputError, UserError
from moses_bridge.base.lock import held_file
from moses_bridge.formats.nbest import read_nbest
from tuning.cli import main
from tuning.loop import rerank
from tuning.loop.list_features import NBestFeature, feature_of_model
from tuning.loop.rerank import ListedText, _start, rerank_lists
from tuning.loop.settings import RerankConfig
from tuning.optimisers.by_name import OptimizerName
from tuning.optimisers.contract import MertConfig, OptimizerConfig, OptimizerResult
from tuning.optimisers.nbest_pool import NBestPool, make_pool

REFERENCES = ["a b c d e", "f g h i j", "k l m n o", "p q r s t"]
REVERSED = [" ".join(reversed(text.split())) for text in REFERENCES]
# The first hypothesis is wrong; LM0 is higher for the right one, which comes second.
LIST = [
    {
        "hypotheses": [
            {"text": wrong, "features": {"LM0": -2.0, "TM0": -1.0}},
            {"text": text, "features": {"LM0": -1.0, "TM0": -1.5}},
        ]
    }
    for wrong, text in zip(REVERSED, REFERENCES, strict=True)
]
FIRST_CHRF = CHRF().corpus_score(REVERSED, [REFERENCES]).score
MERT = RerankConfig(
    optimizer="mert",
    n_runs=2,
    list_format="jsonl",
    search=OptimizerConfig(mert=MertConfig(n_restarts=2, n_directions=1)),
)
# Adds A0, which is 1 for texts that begin with one of these letters.
ADD = """\
import gzip, sys
with gzip.open(sys.argv[1]) as lines, gzip.open(sys.argv[2], "wb") as out:
    for line in lines:
        number, words, features, total = line.split(b" ||| ")
        features += b" A0= %d" % (words[:1] in b"afkp")
        out.write(b" ||| ".join((number, words, features, total)))
"""


@pytest.fixture
def text(tmp_path: Path) -> ListedText:
    folder = tmp_path / "text"
    folder.mkdir()
    (folder / "list.jsonl").write_text("".join(json.dumps(each) + "\n" for each in LIST))
    for name in ("source", "reference.fr"):
        (folder / name).write_text("".join(f"{each}\n" for each in REFERENCES))
    return ListedText(folder / "list.jsonl", folder / "source", (folder / "reference.fr",))


@pytest.fixture
def feature(tmp_path: Path) -> str:
    script = tmp_path / "add.py"
    script.write_text(ADD)
    return f"A0={sys.executable} {script} {{nbest}} {{out}}"


def test_a_folder_with_files_is_refused_before_the_work(text: ListedText, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes").touch()
    touch = NBestFeature("A0", f"touch {tmp_path}/worked {{nbest}} {{out}}")
    with pytest.raises(ConfigError, match="out: found files in it, expected a new or an empty"):
        rerank_lists(text, None, tmp_path / "out", MERT, [touch])
    assert not (tmp_path / "worked").exists()


def test_two_never_write_one_folder(text: ListedText, tmp_path: Path) -> None:
    with (
        held_file(tmp_path / "out"),
        pytest.raises(UserError, match="another command writes there"),
    ):
        rerank_lists(text, None, tmp_path / "out", MERT)


def test_the_weights_choose_the_right_hypotheses(
    text: ListedText, feature: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    found = rerank_lists(text, text, out, MERT, [NBestFeature.parse(feature)], seed=5)
    seeds = {name: [run.seed for run in runs] for name, runs in found.systems.items()}
    assert seeds == {"first": [5], "reranked": [5, 6], "+A0": [5, 6]}
    assert [round(run.dev_score, 6) for run in found.systems["first"]] == [0.0]
    for name in ("reranked", "+A0"):
        for run in found.systems[name]:
            assert run.dev_score == pytest.approx(100)
            assert (out / run.test).read_text().splitlines() == REFERENCES
            assert list(run.weights) == ["LM0", "TM0", "WordPenalty0", "A0"]
    assert {run.weights["A0"][0] for run in found.systems["reranked"]} == {0.0}
    first = (out / found.systems["first"][0].test).read_text().splitlines()
    assert first == REVERSED
    assert json.loads((out / "weights.json").read_text())["optimizer"] == "mert"


def test_faults_of_the_dev_text_are_said_with_the_files_that_stay(
    text: ListedText, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text.references[0].write_text("".join(f"{each.upper()}\n" for each in REFERENCES))
    found = rerank_lists(text, None, tmp_path / "out", replace(MERT, n_runs=1))
    first = tmp_path / "out" / found.systems["first"][0].dev
    (note,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    assert note.startswith(f"note: {first} has capitals in 0 of ")
    assert note.endswith("(1 more files likewise)") and first.exists()


@pytest.mark.parametrize(
    "metric", ["chrf", "ter", "word-accuracy", "line-accuracy", "cer", "bleu=0.5,chrf=0.5"]
)
def test_each_metric_chooses_the_right_hypotheses(
    metric: str, text: ListedText, tmp_path: Path
) -> None:
    config = replace(MERT, metric=metric, n_runs=1)
    found = rerank_lists(text, None, tmp_path / "out", config)
    (run,) = found.systems["reranked"]
    assert (found.metric, run.dev_score) == (metric, 0.0 if metric in ("ter", "cer") else 100.0)
    assert (tmp_path / "out" / run.dev).read_text().splitlines() == REFERENCES


def test_a_column_of_numbers_is_tuned_for_and_a_short_one_leaves_nothing(
    text: ListedText, tmp_path: Path
) -> None:
    """The command of the first one gives 1 where hypothesis and reference are equal."""
    equal = 'paste -d: "$1" "$2" | awk -F: \'{print $1 == $2}\''
    for program, n_lines in {equal: 0, f"{equal} | tail -n +2": 7}.items():
        script = tmp_path / "equal.sh"
        script.write_text(f'{program} > "$3"\n')
        command = f"sh {script} {{hypotheses}} {{reference}} {{out}}"
        config = replace(MERT, metric="column", metric_command=command, n_runs=1)
        out = tmp_path / f"out{n_lines}"
        if n_lines:
            with pytest.raises(InputError, match="found 7 lines, expected 8, one a hypothesis"):
                rerank_lists(text, None, out, config)
            assert not out.exists()
        else:
            found = rerank_lists(text, None, out, config)
            assert [found.systems[name][0].dev_score for name in found.systems] == [0.0, 1.0]


def test_likeness_to_the_others_is_a_feature_of_its_own_system(
    text: ListedText, tmp_path: Path
) -> None:
    found = rerank_lists(text, None, tmp_path / "out", replace(MERT, mbr="chrf"))
    assert (found.mbr, [*found.systems]) == ("chrf", ["first", "reranked", "+MBR0"])
    assert found.systems["reranked"][0].weights["MBR0"] == [0.0]
    named = text.nbest.read_text().replace("TM0", "MBR0")
    text.nbest.write_text(named)
    with pytest.raises(ConfigError, match="has a feature MBR0; use another name"):
        rerank_lists(text, None, tmp_path / "other", replace(MERT, mbr="bleu"))


@pytest.mark.parametrize("optimizer", ["mert", "pro"])
def test_a_plain_list_is_reranked_by_an_added_feature(
    optimizer: OptimizerName, text: ListedText, feature: str, tmp_path: Path
) -> None:
    pairs = zip(REVERSED, REFERENCES, strict=True)
    text.nbest.write_text("".join(f"{wrong}\n{right}\n" for wrong, right in pairs))
    config = replace(MERT, optimizer=optimizer, list_format="plain", list_size=2, n_runs=1)
    found = rerank_lists(text, text, tmp_path / "out", config, [NBestFeature.parse(feature)])
    assert found.systems["reranked"][0].weights["A0"] == [0.0]
    (run,) = found.systems["+A0"]
    assert (tmp_path / "out" / run.test).read_text().splitlines() == REFERENCES
    with pytest.raises(ConfigError, match="the list format plain and the list size 0"):
        rerank_lists(text, None, tmp_path / "other", replace(config, list_size=0))
    assert not (tmp_path / "other").exists()


def test_likeness_by_a_command_is_a_feature_and_a_short_answer_leaves_nothing(
    text: ListedText, tmp_path: Path
) -> None:
    """The command gives 1 where both texts begin with the same letter; there are 8 hypotheses, 4 pairs of 2."""
    script = tmp_path / "same.sh"
    cut = 'cut -c1 "$1" | paste -d: - "$2" | awk -F: \'{print $1 == substr($2, 1, 1)}\''
    command = f"sh {script} {{hypotheses}} {{reference}} {{out}}"
    config = replace(MERT, n_runs=1, mbr="column", mbr_command=command)
    script.write_text(f'{cut} > "$3"\n')
    found = rerank_lists(text, text, tmp_path / "out", config)
    assert (found.mbr, [*found.systems]) == ("column", ["first", "reranked", "+MBR0"])
    for part in ("dev", "test"):
        with gzip.open(tmp_path / "out" / f"{part}.nbest.gz", "rt") as lines:
            assert {line.split("MBR0= ")[1].split()[0] for line in lines} == {"0.000000"}
    script.write_text(f'{cut} | head -n 5 > "$3"\n')
    with pytest.raises(InputError, match="found 5 lines, expected 16, one a hypothesis"):
        rerank_lists(text, None, tmp_path / "other", config)
    assert not (tmp_path / "other").exists()


def test_a_start_may_come_from_a_file(text: ListedText, tmp_path: Path) -> None:
    start = tmp_path / "start.json"
    start.write_text('{"LM0": [0.0], "TM0": [1.0]}')
    frozen = OptimizerConfig(frozen=("LM0_0", "TM0_0", "WordPenalty0_0"))
    config = RerankConfig(n_runs=1, list_format="jsonl", search=frozen)
    found = rerank_lists(text, None, tmp_path / "out", config, init_weights=start)
    (run,) = found.systems["reranked"]
    assert (run.weights["LM0"], run.weights["TM0"], run.test) == ([0.0], [1.0], "")
    assert run.dev_score == pytest.approx(0.0)


def test_features_start_with_the_same_influence_and_others_with_none() -> None:
    """Deviations within lists by hand: LM0 1, TM0 10; W0 differs between lists alone, A0 is added."""
    columns = [
        [-1, 20, 5, 1, 0],
        [1, 40, 5, 9, 2],
        [7, 60, 6, 1, 0],
        [9, 40, 6, 3, 5],
    ]
    names = ("LM0_0", "TM0_0", "W0_0", "A0_0", "WT_a~b_0")
    ids, counts = np.array([0, 0, 1, 1]), np.arange(36).reshape(4, 9)
    pool = make_pool(names, ids, np.array(columns, float), counts)
    assert _start(pool, ["A0"], None).tolist() == pytest.approx([10 / 11, 1 / 11, 0, 0, 0])


@pytest.mark.parametrize(
    ("name", "message"),
    [("LM0", "list.jsonl has a feature LM0; use another name"), ("A0:LM0", "leave :LM0 out")],
)
def test_a_feature_that_does_not_fit_is_refused(
    name: str, message: str, text: ListedText, tmp_path: Path
) -> None:
    feature = NBestFeature.parse(f"{name}=cp {{nbest}} {{out}}")
    with pytest.raises(ConfigError, match=message):
        rerank_lists(text, None, tmp_path / "out", MERT, [feature])
    assert not (tmp_path / "out").exists()


def test_an_empty_hypothesis_is_left_out_unless_its_source_is_empty(
    text: ListedText, tmp_path: Path
) -> None:
    text.nbest.write_text(text.nbest.read_text().replace('"k l m n o"', '" "'))
    for source in ("k l m n o", ""):
        text.source.write_text(text.source.read_text().replace(REFERENCES[2], source))
        rerank_lists(text, None, tmp_path / f"out{source}", MERT)
        words = [entry.words for entry in read_nbest(tmp_path / f"out{source}" / "dev.nbest.gz")]
        assert (b"" in words) == (source == "")


def test_a_test_list_with_other_features_is_refused(text: ListedText, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    other.write_text(text.nbest.read_text().replace("TM0", "LP0"))
    test = ListedText(other, text.source)
    message = "found the features LM0, LP0, WordPenalty0, expected LM0, T"
    with pytest.raises(InputError, match=message):
        rerank_lists(text, test, tmp_path / "out", MERT)
    assert not (tmp_path / "out").exists()


def test_the_feature_of_a_model_is_added_by_rescorer_nbest() -> None:
    feature = feature_of_model("NN0=a b/{c}")
    command = "rescorer nbest N --source S --model a\\ b/{c} --feature NN0 --out O"
    assert " ".join(word.replace(" ", "\\ ") for word in feature.words("N", "S", "O")) == command
    assert feature_of_model("NN0=rnn", 3).command.endswith("--skip-bad 3 --out {out}")
    with pytest.raises(ConfigError, match="found 'rnn', expected NAME=DIRECTORY"):
        feature_of_model("rnn")


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["rerank", *words])
    return result.exit_code, result.output


def test_an_unknown_target_language_is_refused_before_any_work(
    text: ListedText, tmp_path: Path
) -> None:
    reference = tmp_path / "reference"
    reference.write_bytes(text.references[0].read_bytes())
    test = ["--test-list", str(text.nbest), "--test-source", str(text.source)]
    words = [*options(text, tmp_path / "out"), *test, "--test-reference", str(reference)]
    code, printed = run(*words)
    assert code == 1 and "found no language in the names of the references" in printed
    code, printed = run(*words, "--target-language", "fra")
    assert code == 1 and "--target-language: found 'fra'" in printed
    assert not (tmp_path / "out").exists()


def options(text: ListedText, out: Path) -> list[str]:
    dev = ["--list", str(text.nbest), "--source", str(text.source)]
    references = [word for path in text.references for word in ("--reference", str(path))]
    return [*dev, *references, "--out", str(out), "--list-format", "jsonl", "--runs", "2"]


def test_the_command_compares_what_was_chosen(
    text: ListedText, feature: str, tmp_path: Path
) -> None:
    test = ["--test-list", str(text.nbest), "--test-source", str(text.source)]
    test += ["--test-reference", str(text.references[0]), "--nbest-feature", feature]
    words = [*options(text, tmp_path / "out"), *test, "--optimizer", "mert", "--metric", "chrf"]
    code, printed = run(*words)
    assert code == 0, printed
    table = json.loads((tmp_path / "out" / "table.json").read_text())
    rows = {row["system"]: row for row in table["rows"]}
    runs = {name: (row["n_runs"], row["dev_bleu"]) for name, row in rows.items()}
    assert runs == {"first": (1, None), "reranked": (2, None), "+A0": (2, None)}
    assert rows["+A0"]["test_bleu"] == pytest.approx(100)
    assert (table["control"], rows["first"]["test_bleu"]) == ("reranked", 0.0)
    tuned_for = {name: row.get("tuned_for") for name, row in rows.items()}
    assert tuned_for == {"first": None, "reranked": "chrf", "+A0": "chrf"}
    assert "+A0: tuned for chrf, not for BLEU." in printed
    by_metric = {name: row["metrics"]["chrf"] for name, row in rows.items()}
    assert (by_metric["first"], by_metric["+A0"]) == (pytest.approx(FIRST_CHRF), 100)
    assert "tuned: chrf" in printed and "as in the tuning" in printed


def test_without_a_test_text_the_command_prints_dev_scores(
    text: ListedText, tmp_path: Path
) -> None:
    code, printed = run(*options(text, tmp_path / "out"), "--optimizer", "mert")
    assert code == 0, printed
    assert printed.splitlines()[-3:] == [
        "first: dev bleu 0.00",
        "reranked: dev bleu 100.00, 100.00",
        f"weights in {tmp_path / 'out' / 'weights.json'}",
    ]


def test_lists_that_teach_nothing_are_told_on_the_last_line(
    text: ListedText, tmp_path: Path
) -> None:
    alike = {"LM0": -1.0, "TM0": -1.0}
    lists = [
        {"hypotheses": [{"text": each["text"], "features": alike} for each in line["hypotheses"]]}
        for line in LIST
    ]
    text.nbest.write_text("".join(json.dumps(each) + "\n" for each in lists))
    code, printed = run(*options(text, tmp_path / "out"))
    assert code == 0, printed
    reason = "no feature whose weight may change differs between the hypotheses of a sentence"
    assert printed.splitlines()[-1].endswith(
        f"tokenised like it?; nothing can be learned from these lists: {reason}"
    )


def test_a_reranking_far_below_the_first_hypotheses_is_told(
    text: ListedText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An optimiser that takes the wrong sign: the right hypotheses come first, and the last ones are chosen."""
    lists = [{"hypotheses": each["hypotheses"][::-1]} for each in LIST]
    text.nbest.write_text("".join(json.dumps(each) + "\n" for each in lists))

    def wrong(pool: NBestPool, *_: object) -> OptimizerResult:
        weights = dict.fromkeys(pool.names, 0.0) | {"LM0_0": -1.0}
        return OptimizerResult(weights, 0.0)

    monkeypatch.setattr(rerank, "load_optimizer", lambda name: wrong)
    found = rerank_lists(text, None, tmp_path / "out", MERT)
    assert found.caution == "reranked: first had 100.00, 100.00 better"


def test_the_table_shows_the_column_that_was_tuned_for(text: ListedText, tmp_path: Path) -> None:
    """The command counts words; each reference has five."""
    script = tmp_path / "count.sh"
    script.write_text('awk "{print NF}" "$1" > "$2"\n')
    test = ["--test-list", str(text.nbest), "--test-source", str(text.source)]
    test += ["--test-reference", str(text.references[0]), "--optimizer", "mert"]
    test += ["--metric", "column", "--metric-command", f"sh {script} {{hypotheses}} {{out}}"]
    code, printed = run(*options(text, tmp_path / "out"), *test)
    assert code == 0, printed
    table = json.loads((tmp_path / "out" / "table.json").read_text())
    assert [row["metrics"] for row in table["rows"]] == [{"column": 5.0}, {"column": 5.0}]


def test_options_that_do_not_belong_together_are_refused(text: ListedText, tmp_path: Path) -> None:
    given = options(text, tmp_path / "out")
    cases = {
        "belong together": ["--test-list", str(text.nbest)],
        "found --resume, an option for a RUN alone": ["--resume"],
        "found --nbest-size, an option for a RUN alone": ["--nbest-size", "5"],
        "found --list, an option for lists alone": [str(tmp_path)],
    }
    for message, more in cases.items():
        code, printed = run(*given, *more)
        assert (code, message in printed) == (1, True), printed
    code, printed = run(*given[2:6], "--out", str(tmp_path / "out"))
    assert (code, "found neither a RUN nor --list" in printed) == (1, True), printed
    assert not (tmp_path / "out").exists()
