"""Weights applied to lists without references, by the command and from Python, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from moses_bridge.base.errors import InputError
from tuning import Reranker, UserError
from tuning.cli import main
from tuning.loop.list_features import NBestFeature
from tuning.loop.rerank import ListedText, Reranked, RerankedRun, rerank_lists
from tuning.loop.reranker import apply_weights, read_reranked
from tuning.loop.settings import RerankConfig
from tuning.optimisers.contract import MertConfig, OptimizerConfig

QUICK = {"optimizer": "mert", "n_runs": 2, "list_format": "jsonl", "metric": "chrf"}
RIGHT = ["a b c d e", "f g h i j", "k l m n o"]


# Of the first sentence the second hypothesis has the higher 2 LM0 + 0.5 TM0, of the second one the first.
LIST = """\
0 ||| a b ||| LM0= -2 TM0= 1 -4 ||| 0
0 ||| a b c ||| LM0= -1 TM0= 1 -4 ||| 0
1 ||| d ||| LM0= -1 TM0= 0 -1 ||| 0
1 ||| e f ||| LM0= -3 TM0= 0 2 ||| 0
"""
WEIGHTS = {"LM0": [2.0], "TM0": [1.0, 0.5]}
# By hand: 2 LM0 + TM0's first value + half of its second value.
SCORES = [-5.0, -3.0, -2.5, -5.0]
ADD = """\
import gzip, sys
with gzip.open(sys.argv[1], "rt") as lines, gzip.open(sys.argv[2], "wt") as out:
    for line in lines:
        number, words, features, total = line.split(" ||| ")
        out.write(f"{number} ||| {words} ||| {features} A0= {len(words.split())} ||| {total}")
"""


@pytest.fixture
def text(tmp_path: Path) -> ListedText:
    (tmp_path / "list").write_text(LIST)
    (tmp_path / "source").write_text("x\ny\n")
    return ListedText(tmp_path / "list", tmp_path / "source")


def weights(folder: Path, content: object = WEIGHTS) -> Path:
    path = folder / "w.json"
    path.write_text(json.dumps(content))
    return path


def run(text: ListedText, *words: object) -> tuple[int, str]:
    line = ["rerank", "--list", text.nbest, "--source", text.source, *words]
    result = CliRunner().invoke(main, [*map(str, line)])
    return result.exit_code, result.output


def test_a_list_without_references_is_reranked(text: ListedText, tmp_path: Path) -> None:
    out, nbest = tmp_path / "out", tmp_path / "new.nbest"
    given = ("--apply", weights(tmp_path), "--out", out, "--nbest-out", nbest)
    code, printed = run(text, *given)
    assert code == 0, printed
    assert (out / "chosen.out").read_text() == "a b c\nd\n"
    rows = [line.split("\t") for line in (out / "scores.tsv").read_text().splitlines()]
    assert rows[0] == ["score", "first_score"]
    assert [[float(value) for value in row] for row in rows[1:]] == [[-3, -5], [-2.5, -2.5]]
    assert nbest.read_text().splitlines() == [
        "0 ||| a b c  ||| LM0= -1 TM0= 1 -4 ||| -3",
        "0 ||| a b  ||| LM0= -2 TM0= 1 -4 ||| -5",
        "1 ||| d  ||| LM0= -1 TM0= 0 -1 ||| -2.5",
        "1 ||| e f  ||| LM0= -3 TM0= 0 2 ||| -5",
    ]
    assert printed.splitlines()[-3:] == [
        "changed: 1 of 2 sentences (50.0%)",
        "words: 3 in the first hypotheses, 4 in the chosen ones",
        "score of a sentence: +1.0000 (LM0 +1.0000)",
    ]
    code, printed = run(text, *given)
    assert code == 1 and "found files in it, expected a new or an empty directory" in printed
    assert run(text, *given, "--overwrite")[0] == 0


def test_what_speaks_against_the_weights_is_said(text: ListedText, tmp_path: Path) -> None:
    learned = {"seed": 1, "weights": WEIGHTS, "dev_score": 0, "dev": ""}
    record = {"optimizer": "mert", "metric": "bleu", "features": [], "caution": "it is 0: why?"}
    kept = weights(tmp_path, record | {"systems": {"reranked": [learned]}})
    code, printed = run(text, "--apply", kept, "--out", tmp_path / "out")
    assert (code, printed.endswith("; warning: it is 0: why?\n")) == (0, True)


def test_nothing_changed_and_hypotheses_anywhere_in_the_list(text: ListedText) -> None:
    lines = LIST.splitlines()
    text.nbest.write_text("".join(f"{lines[place]}\n" for place in (2, 1, 3, 0)))
    found = apply_weights(text, read_reranked(weights(text.nbest.parent)), RerankConfig())
    assert found.scores == found.first_scores == [SCORES[1], SCORES[2]]
    assert found.summary.startswith("changed: 0 of 2 sentences (0.0%)\n")


def learned(text: ListedText, folder: Path, config: RerankConfig, *features: str) -> Path:
    """OUT/weights.json of a reranking whose references are the second hypotheses, which are longer."""
    (folder / "reference").write_text("a b c\ne f\n")
    dev = ListedText(text.nbest, text.source, (folder / "reference",))
    added = [NBestFeature.parse(feature) for feature in features]
    rerank_lists(dev, dev, folder / "learned", config, added)
    return folder / "learned" / "weights.json"


@pytest.mark.parametrize("mbr", [None, "chrf"])
def test_weights_of_a_reranking_choose_as_it_did(
    mbr: str | None, text: ListedText, tmp_path: Path
) -> None:
    """Its test text was the same; WordPenalty0 and MBR0 are added again since the weights name them."""
    search = OptimizerConfig(mert=MertConfig(n_restarts=2, n_directions=1))
    config = RerankConfig(optimizer="mert", metric="ter", n_runs=2, search=search, mbr=mbr)  # type: ignore[arg-type]
    path = learned(text, tmp_path, config)
    reranked = read_reranked(path)
    assert reranked.best.dev_score == 0 and "WordPenalty0" in reranked.best.weights
    found = apply_weights(text, reranked, RerankConfig())
    chosen = (tmp_path / "learned" / reranked.best.test).read_bytes().splitlines()
    assert found.texts == chosen == [b"a b c", b"e f"]


@pytest.mark.parametrize(("metric", "seed"), [("bleu", 1), ("ter", 2)])
def test_the_best_run_is_best_by_the_metric(metric: str, seed: int) -> None:
    runs = [RerankedRun(1, {}, 50.0, ""), RerankedRun(2, {}, 40.0, "")]
    assert Reranked("mert", metric, [], systems={"all": runs}).best.seed == seed


def test_features_of_commands_are_added_again(text: ListedText, tmp_path: Path) -> None:
    script = tmp_path / "add.py"
    script.write_text(ADD)
    feature = f"A0={sys.executable} {script} {{nbest}} {{out}}"
    record = {
        "optimizer": "mert",
        "metric": "bleu",
        "features": [{"name": "A0", "command": feature[3:]}],
        "systems": {
            "+A0": [{"seed": 1, "weights": WEIGHTS | {"A0": [-9.0]}, "dev_score": 1, "dev": ""}]
        },
    }
    reranked = read_reranked(weights(tmp_path, record))
    message = (
        r"list:1: found the features LM0 \(1\), TM0 \(2\), "
        r"expected LM0 \(1\), TM0 \(2\), A0 \(1\), which have weights. "
        "Add A0 with --model or --nbest-feature, or with --run-commands"
    )
    with pytest.raises(InputError, match=message):
        apply_weights(text, reranked, RerankConfig())
    found = [
        apply_weights(text, reranked, RerankConfig(run_commands=True)),
        apply_weights(text, reranked, RerankConfig(), [NBestFeature.parse(feature)]),
    ]
    for each in found:
        assert (each.texts, each.scores[0]) == ([b"a b", b"d"], SCORES[0] - 2 * 9)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"LM0": 1.0},
            r"features LM0 \(1\), TM0 \(2\), expected LM0 \(1\), which have weights. Apply",
        ),
        ({"LM0": 1, "TM0": [1]}, r"TM0 \(2\), expected LM0 \(1\), TM0 \(1\)"),
        ({}, "w.json: found no learned weights, expected the weights.json of a reranking"),
        ({"systems": {}}, "w.json: found the key 'optimizer' is missing, expected the weights"),
        ({"LM0": "x"}, "w.json: found 'x' as a weight of LM0, expected a finite number"),
    ],
)
def test_other_weights_are_refused_and_nothing_is_written(
    content: object, message: str, text: ListedText, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        apply_weights(text, read_reranked(weights(tmp_path, content)), RerankConfig())
    given = ("--apply", weights(tmp_path, content), "--nbest-out", tmp_path / "n")
    assert run(text, *given, "--out", tmp_path / "out")[0] == 1
    assert not (tmp_path / "out").exists() and not (tmp_path / "n").exists()


def test_no_list_is_written_where_the_output_is_refused(text: ListedText, tmp_path: Path) -> None:
    out, nbest = tmp_path / "out", tmp_path / "new.nbest"
    given = ("--apply", weights(tmp_path), "--out", out, "--nbest-out")
    code, printed = run(text, *given, out / "list")
    assert code == 1 and "found a file in --out, expected one elsewhere" in printed
    assert not (out / "list").exists()
    out.mkdir(exist_ok=True)
    (out / "mine").touch()
    code, printed = run(text, *given, nbest)
    assert code == 1 and "found files in it" in printed and not nbest.exists()
    loaded = Reranker().load(weights(tmp_path))
    with pytest.raises(UserError, match="named twice"):
        loaded.apply(text.nbest, text.source, text.nbest)
    assert text.nbest.read_text() == LIST


def test_a_feature_of_weight_0_and_what_moses_never_lists_may_be_missing(
    text: ListedText, tmp_path: Path
) -> None:
    path = weights(tmp_path, WEIGHTS | {"NN0": [0.0], "UnknownWordPenalty0": [1.0]})
    assert len(apply_weights(text, read_reranked(path), RerankConfig()).texts) == 2
    text.source.write_text("")
    with pytest.raises(InputError, match="source: found no lines, expected a line for each"):
        apply_weights(text, read_reranked(path), RerankConfig())


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--metric", "chrf"], "found --metric, an option for learning alone"),
        (["--runs", "2"], "found --runs, an option for lists with references alone"),
        (["--resume"], "found --resume, an option for a RUN alone"),
    ],
)
def test_options_for_learning_are_refused(
    more: list[str], message: str, text: ListedText, tmp_path: Path
) -> None:
    code, printed = run(text, "--apply", weights(tmp_path), "--out", tmp_path / "out", *more)
    assert (code, message in printed) == (1, True), printed
    code, printed = run(text, "--out", tmp_path / "out")
    assert code == 1 and "found no --reference, expected one to learn from, or --apply" in printed


def files(folder: Path) -> tuple[Path, Path, Path]:
    """The second hypothesis is right, and has the higher LM0."""
    found = folder / "list", folder / "source", folder / "reference"
    hypotheses = [
        [
            {"text": text[::-1], "features": {"LM0": -2.0 - place, "TM0": 1.0}},
            {"text": text, "features": {"LM0": -1.0 - place, "TM0": 0.5}},
        ]
        for place, text in enumerate(RIGHT)
    ]
    found[0].write_text("".join(json.dumps({"hypotheses": each}) + "\n" for each in hypotheses))
    for path in found[1:]:
        path.write_text("".join(f"{text}\n" for text in RIGHT))
    return found


def test_what_was_fitted_is_applied_saved_and_loaded(tmp_path: Path) -> None:
    nbest, source, reference = files(tmp_path)
    fitted = Reranker(QUICK, seed=3).fit(nbest, source, reference)
    config = RerankConfig("mert", n_runs=2, list_format="jsonl", metric="chrf")
    expected = rerank_lists(
        ListedText(nbest, source, [reference]), None, tmp_path / "out", config, seed=3
    )
    assert fitted.weights == expected.best.weights
    fitted.save(tmp_path / "w.json")
    loaded = Reranker({"list_format": "jsonl"}).load(tmp_path / "w.json")
    for each in (fitted, loaded):
        found = each.apply(nbest, source, tmp_path / "new.nbest")
        assert found.texts == [text.encode() for text in RIGHT]
    assert (
        (tmp_path / "new.nbest").read_text().startswith("0 ||| a b c d e  ||| LM0= -1.0 TM0= 0.5")
    )


def test_bars_in_a_text_are_chosen_as_they_are(tmp_path: Path) -> None:
    """Lists of Moses, which are made of these, separate their fields by them."""
    nbest, source, reference = files(tmp_path)
    for path in (nbest, reference):
        path.write_text(path.read_text().replace("c", "|||"))
    search = OptimizerConfig(mert=MertConfig(n_restarts=1, n_directions=1))
    config = RerankConfig("mert", n_runs=1, list_format="jsonl", metric="chrf", search=search)
    text = ListedText(nbest, source, [reference])
    best = rerank_lists(text, text, tmp_path / "out", config).best
    expected = reference.read_bytes()
    assert b"a b ||| d e\n" in expected
    assert [(tmp_path / "out" / name).read_bytes() for name in (best.dev, best.test)] == [
        expected
    ] * 2
    applied = apply_weights(text, read_reranked(tmp_path / "out" / "weights.json"), config)
    assert [*applied.texts] == expected.splitlines()


def test_bars_in_a_text_are_counted_as_they_are(tmp_path: Path) -> None:
    """Escaped they would be 18 wrong characters a word, and texts with other words instead better."""
    nbest, source, reference = files(tmp_path)
    right = [text.replace(" ", " ||| ") for text in RIGHT]
    reference.write_text("".join(f"{text}\n" for text in right))
    pairs = [{text.replace("|||", "x"): -1.0, text: 1.0} for text in right]
    lists = [[{"text": t, "features": {"LM0": v}} for t, v in pair.items()] for pair in pairs]
    nbest.write_text("".join(json.dumps({"hypotheses": each}) + "\n" for each in lists))
    fitted = Reranker(QUICK).fit(nbest, source, reference)
    assert fitted.apply(nbest, source).texts == [text.encode() for text in right]


def test_weights_of_lists_that_teach_nothing_say_so_wherever_they_are_used(tmp_path: Path) -> None:
    nbest, source, reference = files(tmp_path)
    alike = [[{"text": each} for each in (text[::-1], text)] for text in RIGHT]
    nbest.write_text("".join(json.dumps({"hypotheses": each}) + "\n" for each in alike))
    fitted = Reranker(QUICK).fit(nbest, source, reference)
    warning = (
        "; warning: nothing can be learned from these lists: no feature whose weight may change"
    )
    assert warning in repr(fitted) and repr(Reranker()) == "<tuning.Reranker without weights>"
    assert warning in repr(fitted.apply(nbest, source))


def test_a_reranker_without_weights_or_with_faulty_settings(tmp_path: Path) -> None:
    nbest, source, _ = files(tmp_path)
    with pytest.raises(UserError, match="found a Reranker without weights; call fit or load first"):
        Reranker(QUICK).apply(nbest, source)
    with pytest.raises(UserError, match="list_format: found 'xml', expected one of moses"):
        Reranker({"list_format": "xml"})
