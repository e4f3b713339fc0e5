from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from rescorer.cli import main
from rescorer.cli.train import TrainOptions, _next_command, _on_gpu
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import save_model
from rescorer.scorers.cslm import Cslm, CslmConfig, CslmTrainingConfig
from rescorer.scorers.encdec import EncDecConfig, EncDecTrainingConfig, EncoderDecoder
from rescorer.scorers.rnnsearch import RnnSearch, RnnSearchConfig
from tests.rescorer.plain_networks import log_probs

TABLE = b"a b ||| x y ||| 0.5 1 ||| 0-0 1-1\na b ||| z ||| 0.5 1 |||\nb ||| y ||| 0.1 0.2 ||| 0-0\n"
INI = b"""\
[feature]
PhraseDictionaryMemory name=TranslationModel0 num-features=2 path=table.gz
[weight]
TranslationModel0= 0.2 0.2
"""
SOURCE, TARGET = Vocabulary([b"a", b"b"]), Vocabulary([b"x", b"y"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table, its ini, and two models with random weights."""
    torch.manual_seed(0)
    encdec = EncoderDecoder(EncDecConfig(8, 4, 4), len(SOURCE), len(TARGET))
    save_model(tmp_path / "rnn", "encdec", encdec, encdec.config, Shortlists(SOURCE, TARGET), {})
    cslm = Cslm(CslmConfig(2, 4, 4, 4), len(TARGET))
    save_model(tmp_path / "cslm", "cslm", cslm, cslm.config, Shortlists(None, TARGET), {})
    (tmp_path / "table.gz").write_bytes(gzip.compress(TABLE))
    (tmp_path / "moses.ini").write_bytes(INI)
    return tmp_path


def run(folder: Path, *arguments: str) -> Result:
    paths = {name: str(folder / name) for name in ("table.gz", "moses.ini", "rnn", "cslm", "none")}
    filled = [paths.get(argument, argument.replace("DIR", str(folder))) for argument in arguments]
    return CliRunner().invoke(main, filled, prog_name="rescorer")


def expected_log_probs(folder: Path) -> list[float]:
    torch.manual_seed(0)
    model = EncoderDecoder(EncDecConfig(8, 4, 4), len(SOURCE), len(TARGET))
    pairs = [(b"a b", b"x y"), (b"a b", b"z"), (b"b", b"y")]
    result = []
    for source, target in pairs:
        source_ids, source_lens = SOURCE.encode_phrases([source])
        target_ids, target_lens = TARGET.encode_phrases([target])
        arrays = (source_ids, source_lens, target_ids, target_lens)
        with torch.inference_mode():
            result.append(log_probs(model, *(torch.from_numpy(a).long() for a in arrays)).item())
    return result


def test_score_adds_columns_and_patches_the_ini(folder: Path) -> None:
    result = run(
        folder,
        *(
            "score",
            "table.gz",
            "--model",
            "rnn",
            "--out",
            "DIR/out.gz",
            "--columns",
            "sum,unknown-words",
        ),
        *("--ini", "moses.ini", "--ini-out", "DIR/new.ini", "--jobs", "1", "--resume"),
    )
    assert result.exit_code == 0, result.output
    assert "-nscores 4" in result.stderr and "--num-scores 4" in result.stderr
    rows = gzip.decompress((folder / "out.gz").read_bytes()).split(b"\n")[:-1]
    scores = np.log([[float(s) for s in row.split(b"|||")[2].split()[2:]] for row in rows])
    np.testing.assert_allclose(scores[:, 0], expected_log_probs(folder), atol=1e-5)
    np.testing.assert_allclose(scores[:, 1], [0, 1, 0], atol=1e-6)
    ini = (folder / "new.ini").read_bytes()
    assert b"num-features=4 path=out.gz\n" in ini
    assert b"TranslationModel0= 0.2 0.2 0.02 0\n" in ini


@pytest.mark.parametrize(
    ("options", "n_scores"),
    [
        (["--model", "rnn", "--columns", "per-word,sum"], 4),
        (["--model", "rnn", "--model", "rnn", "--precision", "bfloat16"], 4),
        (["--model", "cslm"], 3),
        (["--model", "cslm", "--columns", "sum,unknown-words"], 4),
        (["--control", "random", "--seed", "3"], 3),
        (["--control", "length"], 3),
    ],
)
def test_score_options(folder: Path, options: list[str], n_scores: int) -> None:
    result = run(folder, "score", "table.gz", "--out", "DIR/out", "--jobs", "1", *options)
    assert result.exit_code == 0, result.output
    rows = (folder / "out").read_bytes().split(b"\n")[:-1]
    assert {len(row.split(b"|||")[2].split()) for row in rows} == {n_scores}


@pytest.mark.parametrize("model", ["rnn", "cslm"])
def test_nbest(folder: Path, model: str) -> None:
    (folder / "list").write_bytes(b"0 ||| x y  ||| LM0= 1 ||| 1\n0 ||| z ||| LM0= 2 ||| 2\n")
    (folder / "source").write_bytes(b"a b\n")
    arguments = ["DIR/list", "--source", "DIR/source", "--model", model, "--feature", "NN0"]
    result = run(folder, "nbest", *arguments, "--out", "DIR/new")
    assert result.exit_code == 0, result.output
    values = [float(line.split()[-3]) for line in (folder / "new").read_bytes().split(b"\n")[:-1]]
    if model == "rnn":
        np.testing.assert_allclose(values, expected_log_probs(folder)[:2], atol=1e-5)
    assert values[0] < values[1] < 0


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["score", "table.gz", "--out", "DIR/o"], 1, "either a model"),
        (
            ["score", "table.gz", "--out", "DIR/o", "--model", "rnn", "--control", "length"],
            1,
            "either",
        ),
        (["score", "table.gz", "--out", "DIR/o", "--model", "none"], 2, "does not exist"),
        (
            ["score", "table.gz", "--out", "DIR/o", "--model", "rnn", "--columns", "mean"],
            1,
            "'mean'",
        ),
        (["score", "table.gz", "--out", "table.gz", "--control", "length"], 1, "never modified"),
        (
            ["score", "table.gz", "--out", "DIR/o", "--control", "length", "--unnormalized"],
            1,
            "a control has no denominator",
        ),
        (
            ["score", "table.gz", "--out", "DIR/o", "--model", "rnn", "--mean", "word-probs"],
            1,
            "name two at least",
        ),
        (["train", "table.gz", "--out", "DIR/o", "--source", "moses.ini"], 1, "leave --source out"),
        (["score", "table.gz", "--out", "-", "--control", "length", "--resume"], 1, "resumed"),
        (
            ["score", "table.gz", "--out", "DIR/o", "--control", "length", "--ini", "moses.ini"],
            1,
            "--ini-out",
        ),
        (
            ["score", "moses.ini", "--out", "DIR/o", "--control", "length"],
            1,
            "moses.ini:1: found 1 column",
        ),
    ],
)
def test_faults_end_with_one_line(
    folder: Path, arguments: list[str], status: int, message: str
) -> None:
    result = run(folder, *arguments)
    assert result.exit_code == status
    assert message in result.stderr and "Traceback" not in result.stderr
    assert not (folder / "o").exists()


@pytest.mark.parametrize("mean", ["sentence-log-probs", "word-probs"])
def test_models_of_phrases_are_one_column(folder: Path, mean: str) -> None:
    def column(*options: str) -> list[float]:
        result = run(folder, "score", "table.gz", "--out", "DIR/out", "--jobs", "1", *options)
        assert result.exit_code == 0, result.output
        rows = (folder / "out").read_bytes().splitlines()
        assert {len(row.split(b"|||")[2].split()) for row in rows} == {3}
        return [float(row.split(b"|||")[2].split()[2]) for row in rows]

    models = ("--model", "rnn", "--model", "cslm")
    rnn, cslm, both = column(*models[:2]), column(*models[2:]), column(*models, "--mean", mean)
    for one, other, mean_value in zip(rnn, cslm, both, strict=True):
        assert min(one, other) <= mean_value <= max(one, other)
    if mean == "sentence-log-probs":
        assert both == pytest.approx(np.sqrt(np.multiply(rnn, cslm)), rel=1e-5)
    sidecar = json.loads((folder / "out.json").read_bytes())
    (added,) = sidecar["columns"]
    assert added["scorer"].startswith(f"mean of {mean} of {folder / 'rnn'}, {folder / 'cslm'}")


def test_damaged_model_is_refused(folder: Path) -> None:
    weights = folder / "rnn" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    result = run(folder, "score", "table.gz", "--out", "DIR/o", "--model", "rnn")
    assert result.exit_code == 1 and "model.safetensors" in result.stderr


@pytest.mark.parametrize("mean", ["sentence-log-probs", "word-probs"])
def test_nbest_of_an_ensemble(folder: Path, mean: str) -> None:
    """The mean by word, of equal models that of each; of two models between theirs."""
    (folder / "list").write_bytes(b"0 ||| x y ||| F= 1 ||| 2\n0 ||| z ||| F= 1 ||| 2\n")
    (folder / "src").write_bytes(b"a b\n")

    def values(*options: str) -> list[float]:
        arguments = ("DIR/list", "--source", "DIR/src", "--feature", "A0", "--out", "DIR/new")
        result = run(folder, "nbest", *arguments, "--mean", mean, *options)
        assert result.exit_code == 0, result.output
        lines = (folder / "new").read_bytes().splitlines()
        return [float(line.split(b"A0= ")[1].split()[0]) for line in lines]

    rnn, cslm = values("--model", "rnn"), values("--model", "cslm")
    assert values("--model", "rnn", "--model", "rnn") == pytest.approx(rnn, abs=2e-6)
    both = values("--model", "rnn", "--model", "cslm")
    for one, other, mean_value in zip(rnn, cslm, both, strict=True):
        assert min(one, other) <= mean_value <= max(one, other)
    by_word = values("--model", "rnn", "--per-word")
    assert by_word == pytest.approx([rnn[0] / 3, rnn[1] / 2], abs=2e-6)


@pytest.mark.parametrize(
    "verb",
    [
        *("train", "score", "nbest", "lines", "generate", "decode", "perplexity", "align"),
        "expected-bleu",
    ],
)
def test_help_has_an_example(verb: str) -> None:
    result = CliRunner().invoke(main, [verb, "--help"])
    assert result.exit_code == 0 and f"Example: rescorer {verb}" in result.output


TOML = """n_held_out = 1
[model]
hidden_width = 4
embedding_width = 2
maxout_width = 2
"""


NEXT = """next: rescorer score {folder}/pairs --model {folder}/m --out {folder}/m/phrase-table.gz
--ini {folder}/moses.ini --ini-out {folder}/m/moses.ini"""


def test_train_says_why_it_ended(folder: Path) -> None:
    (folder / "c.toml").write_text(TOML)
    (folder / "pairs").write_bytes(
        b"".join(b"s%d ||| t%d ||| 1 1 1 1\n" % (n, n) for n in range(20))
    )
    arguments = ["train", "DIR/pairs", "--out", "DIR/m", "--config", "DIR/c.toml", "--epochs", "2"]
    result = run(folder, *arguments, "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert ", 2 updates, 2 passes, " in result.stdout
    assert result.stdout.endswith("; ended as the planned passes or minutes are over\n")
    told = result.stderr.splitlines()
    assert told[-1].split() == NEXT.format(folder=folder).split()
    assert (
        "training ends after 2 passes over the data, or when the held-out loss does not fall"
        in (result.stderr)
    )
    again = run(folder, *arguments, "--device", "cpu")
    assert again.exit_code == 1
    assert "Continue it with --resume, or replace it with --overwrite\n" in again.stderr
    assert run(folder, *arguments, "--device", "cpu", "--overwrite").exit_code == 0
    new_ini = ("--ini", "DIR/moses.ini", "--ini-out", "DIR/my new.ini")
    scored = run(folder, "score", "table.gz", "--out", "DIR/o", "--model", "DIR/m", *new_ini)
    assert scored.exit_code == 0, scored.output
    tuned = f"next: tuning tune --ini '{folder}/my new.ini' --source DEV_SOURCE --reference DEV_REF"
    assert scored.stderr.splitlines()[-1].startswith(tuned)


@pytest.mark.parametrize(
    ("arch", "command"),
    [
        (
            "cslm",
            """tuning tune --ini MOSES_INI --neural-lm 'CSLM0=rescorer serve '"'"'a b'"'"'' """,
        ),
        (
            "nnjm",
            """tuning tune --ini MOSES_INI --neural-lm 'NNJM0=rescorer serve '"'"'a b'"'"'' """,
        ),
        ("rnn_lm", "rescorer nbest NBEST --model 'a b' --source SOURCE --feature RNNLM0 --out NEW"),
        (
            "rescorer.scorers.rnn_lm:ARCHITECTURE",
            "rescorer nbest NBEST --model 'a b' --source SOUR",
        ),
    ],
)
def test_what_to_type_after_a_training(arch: str, command: str) -> None:
    assert _next_command(arch, Path("text"), Path("a b")).startswith(command)


def on_gpu(folder: Path, config: str, arch: str = "encdec", epochs: int | None = None) -> Any:
    (folder / "given.toml").write_text(config)
    options = TrainOptions(
        out=folder / "out", arch=arch, config=folder / "given.toml", epochs=epochs
    )
    return options.settings(on_gpu=True)


def test_defaults_of_a_gpu(folder: Path) -> None:
    settings = on_gpu(folder, "shortlist = 77")
    assert (settings.batch_pairs, settings.shortlist) == (4096, 77)
    assert (settings.loop.learning_rate, settings.loop.n_epochs) == (4e-3, 12)
    assert settings.loop.patience == EncDecTrainingConfig().loop.patience
    assert TrainOptions(out=folder / "out").settings() == EncDecTrainingConfig()


def test_settings_from_a_pipe_are_read_once_on_a_gpu(folder: Path) -> None:
    ends = os.pipe()
    os.write(ends[1], b"shortlist = 77")
    os.close(ends[1])
    options = TrainOptions(out=folder / "out", config=Path(f"/dev/fd/{ends[0]}"))
    settings: Any = options.settings(on_gpu=True)
    os.close(ends[0])
    assert (settings.batch_pairs, settings.shortlist) == (4096, 77)


@pytest.mark.parametrize(
    ("config", "epochs", "expected"),
    [
        ("loop.learning_rate = 6e-3", None, (4096, 6e-3, 12)),
        ("loop.n_epochs = 3", None, (4096, 4e-3, 3)),
        ("", 2, (4096, 4e-3, 2)),
        ("batch_pairs = 512", None, (512, 6e-3, 3)),
        ('loop.recipe = "paper"', None, (0, 6e-3, 3)),
    ],
)
def test_given_settings_win_on_a_gpu(
    folder: Path, config: str, epochs: int | None, expected: tuple[float, ...]
) -> None:
    settings = on_gpu(folder, config, epochs=epochs)
    loop = settings.loop
    assert (settings.batch_pairs, loop.learning_rate, loop.n_epochs) == expected


def test_other_networks_have_one_default(folder: Path) -> None:
    assert on_gpu(folder, "", "cslm") == CslmTrainingConfig()


def test_train_tells_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", "the {0.type} chip".format)
    place, known = torch.device("cuda"), "training on the cuda chip"
    assert _on_gpu(place, CslmTrainingConfig()) == known
    assert _on_gpu(place, EncDecTrainingConfig.of_gpu()) == (
        f"{known} with batch_pairs = 4096, loop.learning_rate = 0.004, loop.n_epochs = 12"
    )


def test_train_without_an_end_is_refused(folder: Path) -> None:
    (folder / "c.toml").write_text("n_held_out = 0\n")
    arguments = ["train", "table.gz", "--out", "DIR/m", "--config", "DIR/c.toml", "--epochs", "0"]
    result = run(folder, *arguments)
    assert result.exit_code == 1
    assert "no data are held out" in result.stderr and "Traceback" not in result.stderr
    assert not (folder / "m").exists()


def test_the_command_line_stands_beside_the_table(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/bin/rescorer", "score", "a table"])
    assert run(folder, "score", "table.gz", "--out", "DIR/o", "--control", "length").exit_code == 0
    assert json.loads((folder / "o.json").read_bytes())["command"] == "rescorer score 'a table'"


@pytest.mark.parametrize("column", [("--control", "length"), ("--values", "sed -u s/..*/-1/")])
def test_a_column_without_a_network_loads_no_torch(folder: Path, column: tuple[str, str]) -> None:
    """It takes longer to load than a short table takes to be scored."""
    code = """
import sys
from rescorer.cli import main
main(sys.argv[1:], standalone_mode=False)
sys.exit("torch" in sys.modules)
"""
    out = folder / "out"
    arguments = ["score", str(folder / "table.gz"), *column, "--out", str(out), "--jobs", "2"]
    subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, check=True)
    assert out.read_bytes().count(b"\n") == TABLE.count(b"\n")


def test_a_reversed_model_generates_sources(folder: Path) -> None:
    path = folder / "rnn" / "config.json"
    description = json.loads(path.read_bytes())
    description["training"]["config"] = {"reading": "reversed-sides"}
    path.write_text(json.dumps(description))
    (folder / "phrases").write_bytes(b"x\n")
    result = run(folder, "generate", "rnn", "DIR/phrases", "--table", "table.gz")
    assert result.exit_code == 1 and "generates sources of target phrases" in result.stderr
    assert run(folder, "generate", "rnn", "DIR/phrases").exit_code == 0


def test_generate(folder: Path) -> None:
    (folder / "phrases").write_bytes(b"a b\nb\n")
    arguments = ["generate", "rnn", "DIR/phrases", "-n", "2", "--device", "cpu"]
    searched = run(folder, *arguments, "--table", "table.gz", "--out", "DIR/out")
    assert searched.exit_code == 0, searched.output
    rows = [line.split(b" ||| ") for line in (folder / "out").read_bytes().splitlines()]
    assert [row[0] for row in rows] == [b"a b"] * 2 + [b"b"] * 2 and {len(row) for row in rows} == {
        5
    }
    drawn = [
        run(folder, *arguments, "--sample", "--seed", seed, "--format", "json", "--max-words", "5")
        for seed in ("1", "1", "2")
    ]
    assert drawn[0].stdout == drawn[1].stdout != drawn[2].stdout
    assert [json.loads(line)["source"] for line in drawn[0].stdout.splitlines()] == ["a b", "b"]


def test_the_column_of_a_language_model_is_called_an_approximation(folder: Path) -> None:
    result = run(folder, "score", "table.gz", "--out", "DIR/o", "--model", "cslm")
    note = "cslm (an approximation: each target phrase as a sentence of its own)"
    assert note in result.stderr
    (column,) = json.loads((folder / "o.json").read_bytes())["columns"]
    assert column["scorer"].endswith(note)


def test_decode(folder: Path) -> None:
    (folder / "text").write_bytes(b"a b\nb\n")
    (folder / "lex").write_bytes(b"z a 0.5\n")
    arguments = ["decode", "rnn", "DIR/text", "--out", "DIR/out", "--lexicon", "DIR/lex"]
    options = ["--nbest", "DIR/list", "--nbest-size", "3", "--length-penalty", "1"]
    result = run(folder, *arguments, *options, "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert len((folder / "out").read_bytes().splitlines()) == 2
    entries = (folder / "list").read_bytes().splitlines()
    assert [entry.split()[0] for entry in entries] == [b"0"] * 3 + [b"1"] * 3
    assert "<unk> left in the translations" in result.stderr


def test_align(folder: Path) -> None:
    torch.manual_seed(0)
    network = RnnSearch(RnnSearchConfig("attention", 4, 3, 3, 2), len(SOURCE), len(TARGET), 0.0)
    shortlists = Shortlists(SOURCE, TARGET)
    save_model(folder / "search", "rnnsearch", network, network.config, shortlists, {})
    (folder / "source").write_bytes(b"a b\nb\n")
    (folder / "target").write_bytes(b"x y\nz\n")
    (folder / "links").write_bytes(b"0-0 1-1\n0-0\n")
    arguments = ["align", "DIR/search", "DIR/source", "DIR/target", "--out", "DIR/out"]
    pictures = ["--pictures", "DIR/pictures", "--draw", "2"]
    options = ["--links", "DIR/links", "--matrix", "DIR/matrix", "--device", "cpu"]
    result = run(folder, *arguments, *pictures, *options)
    assert result.exit_code == 0, result.output
    assert "links: AER " in result.stderr and "3 given" in result.stderr
    assert len((folder / "out").read_bytes().splitlines()) == 2
    assert len((folder / "matrix").read_bytes().splitlines()) == 2
    assert (folder / "pictures" / "line-2.svg").exists()


def test_perplexity(folder: Path) -> None:
    (folder / "text").write_bytes(b"x y\nz\n")
    (folder / "source").write_bytes(b"a b\nb\n")
    arguments = ["perplexity", "cslm", "rnn", "DIR/text", "--source", "DIR/source"]
    result = run(folder, *arguments, "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert "2 sentences, 5 words with </s>; 1 (20.00%) outside" in result.stdout
    as_json = run(folder, *arguments, "--format", "json")
    models = json.loads(as_json.stdout)["models"]
    assert [model["kind"] for model in models] == ["cslm", "encdec"]
    assert [model["n_unknown"] for model in models] == [1, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["generate", "cslm", "table.gz"], "'cslm', which cannot generate"),
        (["perplexity", "rnn", "moses.ini"], "name --source too"),
        (["perplexity", "moses.ini", "moses.ini"], "Is this an ARPA file"),
        (["decode", "rnn", "moses.ini", "--lexicon", "moses.ini"], "lex.f2e"),
        (["align", "rnn", "table.gz", "table.gz"], "without an attention"),
        (
            ["align", "rnn", "table.gz", "table.gz", "--draw", "1"],
            "both --pictures DIR and --draw",
        ),
        (["align", "rnn", "table.gz", "table.gz", "--draw", "1,x"], "'1,x': write numbers from 1"),
    ],
)
def test_faults_of_looking_inside_end_with_one_line(
    folder: Path, arguments: list[str], message: str
) -> None:
    result = run(folder, *arguments)
    assert result.exit_code == 1
    assert message in result.stderr and "Traceback" not in result.stderr
