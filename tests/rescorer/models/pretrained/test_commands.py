"""Pretrained models named on the command line: nbest, score and perplexity."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import rescorer
from moses_bridge.base.errors import InputError
from rescorer.cli import main
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.models.pretrained import choice
from rescorer.models.pretrained.choice import local_directory
from rescorer.models.pretrained.settings import PretrainedSettings

SOURCES = ["the house", "it can be used ."]
HYPOTHESES = [(0, "la maison"), (0, "une maison"), (1, "peut être utilisé ."), (1, "il peut")]
ROWS = [("a house", "une maison"), ("a house", "maison"), ("house", "la maison")]


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, words)), prog_name="rescorer")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("dev.en").write_text("".join(f"{line}\n" for line in SOURCES))
    Path("dev.fr").write_text("la maison\npeut être utilisé .\n")
    lines = [f"{at} ||| {words} ||| LM0= -1 ||| -1\n" for at, words in HYPOTHESES]
    Path("dev.nbest").write_text("".join(lines))
    rows = [f"{source} ||| {target} ||| 0.5 0.25\n" for source, target in ROWS]
    Path("table").write_text("".join(rows))
    return tmp_path


def values(model: Path, pairs: list[tuple[str, str]]) -> list[float]:
    from rescorer.models.pretrained.hugging_face import load_hugging_face

    scorer = load_hugging_face(model, PretrainedSettings(), Compute(device="cpu"), True)
    sides = [[side.encode() for side in column] for column in zip(*pairs, strict=True)]
    found: list[float] = scorer.values(Batch(*sides)).tolist()
    return found


def test_a_feature_of_an_nbest_list(here: Path, marian: Path) -> None:
    list_options = ("dev.nbest", "--source", "dev.en", "--out", "new.nbest", "--feature", "HF0")
    result = run("nbest", *list_options, "--model", f"hf:{marian}", "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert f"HF0: hf:{marian} (natural log p of the target's subwords and </s>" in result.stderr
    assert "text by English rules, unless the tokenizer names languages)" in result.stderr
    found = [
        float(line.split("HF0= ")[1].split()[0])
        for line in Path("new.nbest").read_text().splitlines()
    ]
    expected = values(marian, [(SOURCES[at], words) for at, words in HYPOTHESES])
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)


def test_a_column_of_a_phrase_table_and_its_record(here: Path, marian: Path) -> None:
    model = f"hf:{marian}"
    options = ("--device", "cpu", "--case", "lower", "--source-language", "en")
    result = run("score", "table", "--model", model, "--out", "new.gz", *options)
    assert result.exit_code == 0, result.output
    rows = gzip.decompress(Path("new.gz").read_bytes()).decode().splitlines()
    found = np.log([float(row.split(" ||| ")[2].split()[-1]) for row in rows])
    np.testing.assert_allclose(found, np.maximum(values(marian, ROWS), np.log(1e-30)), atol=1e-3)
    name = json.loads(Path("new.gz.json").read_text())["columns"][0]["scorer"]
    assert name == (
        f"{model} (natural log p of the target's subwords and </s> given the source; "
        "detokenized text, lower case, en)"
    )
    again = run("score", "table", "--model", model, "--out", "new.gz", "--resume", *options)
    assert again.exit_code == 0, again.output


def test_a_row_too_long_for_the_model_gets_the_least_of_its_source(
    here: Path, marian: Path
) -> None:
    pairs = [("the house", "la maison"), ("the house", "la"), ("the house", "la " * 600), ROWS[-1]]
    rows = [f"{source} ||| {target.strip()} ||| 0.5\n" for source, target in pairs]
    Path("long").write_text("".join(rows))
    command = ("score", "long", "--model", f"hf:{marian}", "--out", "new", "--device", "cpu")
    refused = run(*command)
    assert refused.exit_code == 1 and "long:3: found 601 subwords on the target" in refused.stderr
    result = run(*command, "--resume", "--skip-bad", "1")
    assert result.exit_code == 0, result.output
    found = np.log([float(row.split()[-1]) for row in Path("new").read_text().splitlines()])
    first, second, last = values(marian, [pairs[0], pairs[1], pairs[3]])
    expected = np.maximum([first, second, min(first, second), last], np.log(1e-30))
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_perplexity_of_pretrained_models(
    here: Path, marian: Path, converted: Path, gpt2: Path
) -> None:
    models = (f"hf:{marian}", f"ct2:{converted}", f"hf-lm:{gpt2}")
    result = run("perplexity", *models, "dev.fr", "--source", "dev.en", "--format", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["models"]
    expected = values(
        marian, list(zip(SOURCES, Path("dev.fr").read_text().split("\n"), strict=False))
    )
    n_words = 8  # with </s>
    assert found[0]["perplexity"] == pytest.approx(np.exp(-sum(expected) / n_words), rel=1e-3)
    assert found[1]["perplexity"] == pytest.approx(found[0]["perplexity"], rel=1e-3)
    assert [one["n_unknown"] for one in found] == [0, 0, 0]


def test_a_word_that_another_model_does_not_know_leaves_no_perplexity_without_it(
    here: Path, marian: Path
) -> None:
    Path("lm.arpa").write_text(
        "\\data\\\nngram 1=4\n\n\\1-grams:\n-1\t<unk>\n-99\t<s>\n-1\t</s>\n-1\tmaison\n\n\\end\\\n"
    )
    options = ("dev.fr", "--source", "dev.en", "--format", "json")
    found = json.loads(run("perplexity", "lm.arpa", f"hf:{marian}", *options).stdout)["models"]
    assert found[0]["perplexity"] == pytest.approx(10)
    assert found[1]["perplexity"] is None and found[1]["log_prob"] is None
    alone = json.loads(run("perplexity", f"hf:{marian}", *options).stdout)["models"][0]
    assert found[1]["perplexity_with_unknown"] == alone["perplexity_with_unknown"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ["--model", "hf:nowhere"],
            "nowhere: found no directory, expected that of a model. --download",
        ),
        (["--model", "hf:."], ": found no model that loads"),
        (["--control", "length", "--case", "lower"], "--case is for pretrained models"),
        (["--model", "hf:nowhere", "--unnormalized"], "needs the denominator"),
        (["--model", "hf:"], "Directory 'hf:' does not exist"),
    ],
)
def test_what_does_not_fit_is_one_line_and_nothing_is_written(
    here: Path, maker: object, options: list[str], told: str
) -> None:
    result = run("score", "table", "--out", "new.gz", *options)
    assert result.exit_code in (1, 2)
    assert told in result.stderr.splitlines()[-1]
    assert not Path("new.gz").exists()


def test_a_loaded_model_scores_as_the_commands_do(here: Path, marian: Path, gpt2: Path) -> None:
    pairs = [(SOURCES[at], words) for at, words in HYPOTHESES]
    sides = ([one for one, _ in pairs], [other for _, other in pairs])
    model = rescorer.load(f"hf:{marian}", device="cpu")
    np.testing.assert_allclose(model.score(*sides), values(marian, pairs), atol=1e-5, rtol=0)
    n_entries = rescorer.rescore_nbest("dev.nbest", "dev.en", "new.nbest", model, "HF0")
    again = pickle.loads(pickle.dumps(model))
    assert (again.score(*sides) == model.score(*sides)).all()
    assert (n_entries, repr(model).startswith(f"<rescorer.Model hf:{marian} (")) == (4, True)
    raised = rescorer.load(Path(f"hf:{marian}"), device="cpu", settings={"case": "sentence"})
    assert not np.allclose(raised.score(*sides), model.score(*sides))
    assert len(rescorer.load(f"hf-lm:{gpt2}", device="cpu").score(*sides)) == 4


def test_lines_have_the_values_of_lists_and_their_subwords(
    here: Path, marian: Path, converted: Path, gpt2: Path, converted_gpt2: Path, bert: Path
) -> None:
    """Each kind of models side by side, p(source | target) among them."""
    lines = ["la maison", "peut être utilisé ."]
    Path("list").write_text(
        "".join(f"{n} ||| {line} ||| LM0= 0 ||| 0\n" for n, line in enumerate(lines))
    )
    names = [
        f"hf:{marian}",
        f"ct2:{converted}",
        f"hf-lm:{gpt2}",
        f"ct2-lm:{converted_gpt2}",
        f"hf-mlm:{bert}",
    ]
    models = [rescorer.load(name, device="cpu") for name in names]
    back = rescorer.load(names[0], device="cpu", settings={"reading": "reversed-sides"})
    for side_by_side in (models, [back]):
        rescorer.score_lines(
            "dev.en", "dev.fr", "out", side_by_side, settings={"tokens": True, "format": "jsonl"}
        )
        rescorer.score_lines("dev.en", "dev.fr", "no-end", side_by_side, settings={"end": False})
        ends = [line.split("\t") for line in Path("no-end").read_text().splitlines()]
        records = [json.loads(line) for line in Path("out").read_text().splitlines()]
        for place, model in enumerate(side_by_side):
            rescorer.rescore_nbest("list", "dev.en", "new.nbest", model, "NN0")
            found = Path("new.nbest").read_text().splitlines()
            features = [line.split("NN0= ")[1].split()[0] for line in found]
            name = str(model.directory)
            assert [one[name] for one in records] == pytest.approx(
                [*map(float, features)], abs=1e-5
            )
            sides = SOURCES if model is back else lines
            for one, end, line in zip(records, ends, sides, strict=True):
                tokens = one[f"{name} tokens"]
                assert sum(value for _, value in tokens) == pytest.approx(one[name], abs=1e-4)
                is_masked = name.startswith("hf-mlm")
                assert (tokens[-1][0] == "</s>") != is_masked
                without = one[name] - (0 if is_masked else tokens[-1][1])
                assert float(end[place]) == pytest.approx(without, abs=1e-4)
                spelt = "".join(token for token, _ in tokens).replace("##", "")
                assert spelt.lstrip("▁").startswith(line[0])


def test_a_text_alone_is_for_language_models(
    here: Path, marian: Path, gpt2: Path, bert: Path
) -> None:
    options = ("--model", f"hf-lm:{gpt2}", "--model", f"hf-mlm:{bert}", "--device", "cpu")
    result = run("lines", "dev.fr", *options)
    assert result.exit_code == 0 and result.stdout.count("\t") == 2, result.output
    assert "pseudo-log-likelihood: " in result.stderr
    assert run("lines", "dev.en", "dev.fr", *options).stdout == result.stdout
    result = run("lines", "dev.fr", *options, "--model", f"hf:{marian}")
    assert result.exit_code == 1 and "scores pairs: name a target text, too" in result.stderr
    result = run("perplexity", f"hf-mlm:{bert}", "dev.fr")
    assert result.exit_code == 1 and "a masked language model has no perplexity" in result.stderr


def test_reversed_sides_are_the_swapped_call(
    here: Path, marian: Path, converted: Path, gpt2: Path
) -> None:
    """p(source | target) of French to English, by models from English to French."""
    pairs = [(words, SOURCES[at]) for at, words in HYPOTHESES]
    for name in (f"hf:{marian}", f"ct2:{converted}"):
        reversed_sides = {"reading": "reversed-sides"}
        model = rescorer.load(name, device="cpu", settings=reversed_sides)
        expected = values(marian, [(english, french) for french, english in pairs])
        sides = ([french for french, _ in pairs], [english for _, english in pairs])
        np.testing.assert_allclose(model.score(*sides), expected, atol=1e-4, rtol=0)
    option = ("--reading", "reversed-sides")
    rows = [" ||| ".join([*pair, "0.5"]) + "\n" for pair in pairs]
    Path("table").write_text("".join(rows))
    result = run("score", "table", "--model", f"hf:{marian}", "--out", "new.gz", *option)
    assert result.exit_code == 0, result.output
    record = json.loads(Path("new.gz.json").read_text())["columns"][0]["scorer"]
    assert record.startswith("p(source | target), the model's source being the target: hf:")
    found = gzip.decompress(Path("new.gz").read_bytes()).decode().splitlines()
    scores = np.log([float(row.split()[-1]) for row in found])
    np.testing.assert_allclose(scores, np.maximum(expected, np.log(1e-30)), atol=1e-3)
    refused = run("score", "table", "--model", f"hf-lm:{gpt2}", "--out", "other.gz", *option)
    assert refused.exit_code == 1 and "reads no source: leave --reading" in refused.stderr
    refused = run("perplexity", f"hf:{marian}", "dev.fr", "--source", "dev.en", *option)
    assert refused.exit_code == 1 and "would predict the source" in refused.stderr


def test_what_a_loaded_pretrained_model_does_not_give_is_refused(
    here: Path, marian: Path, tmp_path: Path
) -> None:
    model = rescorer.load(f"hf:{marian}", device="cpu")
    for what, call in {
        "vectors of phrases": lambda: model.embed(["a"]),
        "generated targets": lambda: model.generate(["a"]),
    }.items():
        with pytest.raises(rescorer.UserError, match=f"a pretrained model, which gives no {what}"):
            call()
    with pytest.raises(rescorer.UserError, match="no directory, expected that of a model"):
        rescorer.load("hf:nowhere")
    with pytest.raises(rescorer.UserError, match="case is for pretrained models"):
        (tmp_path / "config.json").write_text("{}")
        rescorer.load(tmp_path, settings={"case": "lower"})
    with pytest.raises(rescorer.UserError, match="settings: unknown key"):
        rescorer.load(f"hf:{marian}", settings={"cases": "lower"})


def test_a_missing_package_is_told_with_the_command_to_type(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "find_spec", lambda package: None)
    result = run("score", "table", "--model", "ct2:model", "--out", "new.gz")
    assert result.exit_code == 1
    assert "ctranslate2 is not installed: pip install 'rescorer[ct2]'" in result.stderr


def test_a_pretrained_model_is_not_sent_to_a_cluster(here: Path, marian: Path) -> None:
    result = run("score", "table", "--model", f"hf:{marian}", "--out", "o.gz", "--ray", "auto")
    assert result.exit_code == 1
    assert "a pretrained model is not sent to a cluster: leave --ray out" in result.stderr


def test_a_name_of_the_hub_is_downloaded_only_on_demand(
    maker: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    asked = []

    def snapshot_download(name: str, ignore_patterns: list[str]) -> str:
        asked.append(name)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    with pytest.raises(InputError, match="no directory"):
        local_directory("some/model", download=False)
    assert not asked
    assert local_directory("some/model", download=True) == tmp_path
    assert asked == ["some/model"]
