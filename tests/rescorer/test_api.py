"""What `import rescorer` offers: the same numbers as the commands, and one clear error for bad input."""

from __future__ import annotations

import importlib.metadata
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import rescorer
from rescorer.cli import main

ROWS = [
    (source, target)
    for source in ("a", "a b", "b c", "café")
    for target in ("x", "y x", "z z x", "été")
]
TABLE = "".join(f"{s} ||| {t} ||| 0.50 1e-3 ||| 0-0 ||| 2 4 1 ||| |||\n" for s, t in ROWS).encode()
SMALL = {
    "n_held_out": 4,
    "shortlist": 6,
    "loop": {"n_epochs": 1, "evaluations_per_epoch": 1},
    "model": {"hidden_width": 6, "embedding_width": 5, "maxout_width": 4},
}
CONFIG = (
    "n_held_out = 4\nshortlist = 6\nloop = { n_epochs = 1, evaluations_per_epoch = 1 }\n"
    "model = { hidden_width = 6, embedding_width = 5, maxout_width = 4 }\n"
)


def run(*arguments: object) -> bytes:
    result = CliRunner().invoke(main, [str(each) for each in arguments], prog_name="rescorer")
    assert result.exit_code == 0, result.output
    return result.stdout_bytes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, a model of its pairs that the command trained, and one that reads them reversed."""
    folder = tmp_path_factory.mktemp("api")
    (folder / "table").write_bytes(TABLE)
    config = folder / "config.toml"
    config.write_text(CONFIG)
    train = ["train", folder / "table", "--device", "cpu", "--config", config, "--out"]
    run(*train, folder / "rnn")
    run(*train, folder / "reversed", "--reading", "reversed-sides")
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> rescorer.Model:
    return rescorer.load(folder / "rnn", device="cpu")


SOURCES, TARGETS = [s for s, _ in ROWS], [t for _, t in ROWS]


def test_scores_are_those_of_the_command(
    model: rescorer.Model, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rescorer.models.model.PAIRS_AT_ONCE", 5)
    run("score", folder / "table", "--model", folder / "rnn", "--out", tmp_path / "scored")
    column = [float(line.split(b" ||| ")[2].split()[-1]) for line in lines_of(tmp_path / "scored")]
    scores = model.score(SOURCES, TARGETS)
    assert (scores.shape, scores.dtype) == ((16,), np.float64)
    assert np.log(column) == pytest.approx(scores, abs=1e-5)
    words = model.score_words(SOURCES, TARGETS)
    assert [each.sum() for each in words] == pytest.approx(scores, abs=1e-5)


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def test_texts_may_be_str_or_bytes_in_lists_or_series(model: rescorer.Model) -> None:
    expected = model.score(SOURCES, TARGETS)
    as_bytes = [text.encode() for text in SOURCES]
    frame = pd.DataFrame({"source": SOURCES, "target": TARGETS}, index=range(100, 116))
    mixed = [text if number % 2 else text.encode() for number, text in enumerate(TARGETS)]
    assert (model.score(as_bytes, mixed) == expected).all()
    assert (model.score(frame["source"], frame["target"]) == expected).all()


def test_a_pickled_model_is_loaded_again(model: rescorer.Model, folder: Path) -> None:
    content = pickle.dumps(model)
    assert len(content) < 1000  # no weights
    other = pickle.loads(content)
    assert (other.score(SOURCES, TARGETS) == model.score(SOURCES, TARGETS)).all()
    assert repr(other) == repr(model) == f"<rescorer.Model {folder / 'rnn'}>"


def test_an_empty_list_has_an_empty_array(model: rescorer.Model) -> None:
    scores = model.score([], pd.Series([], dtype=str))
    assert (scores.shape, scores.dtype) == ((0,), np.float64)


def test_a_path_that_is_no_model_directory(folder: Path) -> None:
    for path, found in ((folder / "nowhere", "no directory"), (folder, "no model")):
        with pytest.raises(rescorer.UserError) as error:
            rescorer.load(str(path))
        assert str(error.value) == (
            f"{path}: found {found}, expected the directory of a model, with config.json. "
            "Train one with `rescorer train` or rescorer.train, or write hf:DIRECTORY for a pretrained one"
        )


def test_sources_and_targets_of_different_lengths(model: rescorer.Model) -> None:
    with pytest.raises(rescorer.UserError, match="found 2 sources, 1 targets, expected as many"):
        model.score(["a", "b"], ["x"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a ||| b", r'sources\[1\]: found "\|\|\|" in \'a \|\|\| b\', expected one phrase'),
        (b"a\nb", r"sources\[1\]: found the end of a line in 'a\\nb'"),
        (None, r"sources\[1\]: found NoneType None, expected str or bytes"),
        ("\ud800", r"sources\[1\]: .* expected text: 'utf-8' codec can't encode"),
    ],
)
def test_what_is_no_phrase(model: rescorer.Model, text: str, message: str) -> None:
    with pytest.raises(rescorer.UserError, match=message):
        model.score(["a", text], ["x", "x"])


def test_one_text_is_no_list_of_texts(model: rescorer.Model) -> None:
    with pytest.raises(rescorer.UserError, match="targets: found 'x', expected a list"):
        model.score(["a"], "x")


def test_a_table_read_scored_and_written_is_what_the_command_writes(
    model: rescorer.Model, folder: Path, tmp_path: Path
) -> None:
    frame = rescorer.read_table(folder / "table")
    rescorer.write_table(frame, tmp_path / "same")
    assert (tmp_path / "same").read_bytes() == TABLE
    lines = rescorer.rescore(folder / "table", tmp_path / "scored", [model])
    assert any(str(tmp_path / "scored") in line for line in lines)
    own = ("--model", folder / "rnn", "--device", "cpu")
    run("score", folder / "table", *own, "--out", tmp_path / "by_command")
    assert lines_of(tmp_path / "scored") == lines_of(tmp_path / "by_command")
    frame["score2"] = np.exp(model.score(frame["source"], frame["target"]))
    rescorer.write_table(frame, tmp_path / "by_hand")
    rows, expected = (lines_of(tmp_path / name) for name in ("by_hand", "scored"))
    for row, other in zip(rows, expected, strict=True):
        cut = slice(0, row.index(b"1e-3") + 5)
        assert row[cut] == other[cut]
        assert row.split(b"|||")[3:] == other.split(b"|||")[3:]


def test_training_is_that_of_the_command(folder: Path, tmp_path: Path) -> None:
    report = rescorer.train(folder / "table", tmp_path / "rnn", settings=SMALL, device="cpu")
    assert report.n_epochs == 1
    weights = "model.safetensors"
    assert (tmp_path / "rnn" / weights).read_bytes() == (folder / "rnn" / weights).read_bytes()


def test_a_training_is_replaced_only_if_asked(folder: Path, tmp_path: Path) -> None:
    """So that a cell of a notebook can be run again."""
    shutil.copytree(folder / "rnn", tmp_path / "rnn")
    given = (folder / "table", tmp_path / "rnn")
    with pytest.raises(rescorer.UserError, match=r"resume=True, or replace it with overwrite=True"):
        rescorer.train(*given, settings=SMALL, device="cpu")
    assert rescorer.train(*given, settings=SMALL, device="cpu", overwrite=True).n_epochs == 1


def test_the_version() -> None:
    assert rescorer.__version__ == importlib.metadata.version("rescorer")
    with pytest.raises(AttributeError, match="has no attribute '__author__'"):
        _ = rescorer.__author__


def test_one_model_or_several(model: rescorer.Model, folder: Path, tmp_path: Path) -> None:
    for name, models in (("one", model), ("list", [model]), ("tuple", (model,))):
        rescorer.rescore(folder / "table", tmp_path / name, models)
    assert lines_of(tmp_path / "one") == lines_of(tmp_path / "list") == lines_of(tmp_path / "tuple")
    for other in ("rnn", ["rnn"], None, [model, folder]):
        with pytest.raises(rescorer.UserError, match=r"as a model, expected one of rescorer\.load"):
            rescorer.rescore(folder / "table", tmp_path / "out", other)  # type: ignore[arg-type]
    with pytest.raises(rescorer.UserError, match="found 'rnn' as a model"):
        files = (tmp_path / "list", tmp_path / "source", tmp_path / "out")
        rescorer.rescore_nbest(*files, "rnn", "RNN0")  # type: ignore[arg-type]


def test_an_nbest_list_as_a_frame(model: rescorer.Model, tmp_path: Path) -> None:
    (tmp_path / "list").write_text("0 ||| x  ||| LM0= 1 ||| 1\n1 ||| été  ||| LM0= 3 ||| 3\n")
    frame = rescorer.read_nbest(tmp_path / "list")
    frame["RNN0"] = model.score(["a b", "café"], frame["target"])
    rescorer.write_nbest(frame, tmp_path / "new")
    again = rescorer.read_nbest(tmp_path / "new")
    assert again["RNN0"].to_numpy() == pytest.approx(frame["RNN0"].to_numpy(), rel=1e-11)
    with pytest.raises(rescorer.UserError, match="list_format: found 'xml', expected one of moses"):
        rescorer.read_nbest(tmp_path / "list", "xml")  # type: ignore[arg-type]


def test_errors_name_arguments(folder: Path, tmp_path: Path) -> None:
    settings = {"source_language": "en"}
    with pytest.raises(rescorer.UserError, match=r"^source_language is for pretrained models"):
        rescorer.load(folder / "rnn", device="cpu", settings=settings)
    with pytest.raises(rescorer.UserError, match=r"^ini and ini_out belong together"):
        rescorer.rescore(folder / "table", tmp_path / "out", [], ini=tmp_path / "ini")


def test_an_nbest_list_with_a_feature(model: rescorer.Model, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "source").write_text("a b\ncafé\n")
    (tmp_path / "list").write_text(
        "0 ||| x  ||| LM0= 1 ||| 1\n0 ||| y x  ||| LM0= 2 ||| 2\n1 ||| été  ||| LM0= 3 ||| 3\n"
    )
    given = (tmp_path / "list", tmp_path / "source", tmp_path / "out")
    assert rescorer.rescore_nbest(*given, model, "RNN0") == 3
    values = [float(line.split(b"RNN0= ")[1].split()[0]) for line in lines_of(tmp_path / "out")]
    scores = model.score(["a b", "a b", "café"], ["x", "y x", "été"])
    assert values == pytest.approx(scores, abs=2e-6)
    two = [model, rescorer.load(folder / "rnn", device="cpu")]
    assert rescorer.rescore_nbest(*given, two, "RNN0", per_word_feature="RNN1") == 3


def test_settings_that_do_not_fit(model: rescorer.Model, folder: Path, tmp_path: Path) -> None:
    table, out = folder / "table", tmp_path / "out"
    with pytest.raises(
        rescorer.UserError, match="settings: unknown key 'lop'; did you mean 'loop'"
    ):
        rescorer.train(table, out, settings={"lop": {}})
    with pytest.raises(rescorer.UserError, match="no architecture 'encdek'"):
        rescorer.train(table, out, arch="encdek")
    with pytest.raises(rescorer.UserError, match="no column to add: name a model"):
        rescorer.rescore(table, out, [])
    with pytest.raises(
        rescorer.UserError, match="mean: found 'sum', expected one of sentence-log-"
    ):
        rescorer.rescore(table, out, [model, model], mean="sum")  # type: ignore[arg-type]
    with pytest.raises(rescorer.UserError, match="device: found 'gpu', expected one of auto, cpu"):
        rescorer.load(folder / "rnn", device="gpu")  # type: ignore[arg-type]
    with pytest.raises(rescorer.UserError, match="is named twice"):
        rescorer.rescore(table, table, [model])
    assert not out.exists()


def test_values_of_words_add_up_to_those_of_pairs(model: rescorer.Model) -> None:
    words = model.score_words(SOURCES, TARGETS)
    assert [len(values) for values in words] == [len(target.split()) + 1 for target in TARGETS]
    assert [values.sum() for values in words] == pytest.approx(model.score(SOURCES, TARGETS))
    assert model.score_words([], []) == []


def test_vectors_of_phrases(model: rescorer.Model) -> None:
    vectors = model.embed(["a b", "café", "a b"])
    assert vectors.shape == (3, SMALL["model"]["hidden_width"])  # type: ignore[index]
    assert (vectors[0] == vectors[2]).all() and not (vectors[0] == vectors[1]).all()
    assert model.embed([]).shape == (0, 6)


def test_generated_targets_are_those_of_the_command(
    model: rescorer.Model, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "phrases").write_text("a b\ncafé\n")
    printed = run("generate", folder / "rnn", tmp_path / "phrases", "-n", 3).decode()
    frame = model.generate(["a  b", "café"], n=3)
    assert [*frame.columns] == ["source", "target", "log_prob", "score"]
    rows = [
        f"{row.source} ||| {row.target} ||| {row.log_prob:.6f} ||| {row.score:.6f}\n"
        for row in frame.itertuples()
    ]
    assert "".join(rows) == printed
    scores = model.score(frame["source"], frame["target"])
    known = ~frame["target"].str.contains("<unk>")
    assert scores[known] == pytest.approx(frame["log_prob"][known], abs=1e-5)
    assert model.generate([]).shape == (0, 4)


def test_what_a_model_does_not_have(folder: Path, tmp_path: Path) -> None:
    model = rescorer.load(folder / "reversed", device="cpu")
    assert model.score(["a"], ["x"]).shape == (1,)
    with pytest.raises(rescorer.UserError, match="gives no values of target words"):
        model.score_words(["a"], ["x"])
    (tmp_path / "text").write_text("".join(f"{target}\n" for target in TARGETS))
    settings = SMALL | {"model": {"context_words": 2}, "n_held_out": 0}
    rescorer.train(tmp_path / "text", tmp_path / "cslm", "cslm", settings, device="cpu")
    language_model = rescorer.load(tmp_path / "cslm", device="cpu")
    values = language_model.score(["x", "y x"])
    assert values.tolist() == language_model.score(["", "a"], ["x", "y x"]).tolist()
    assert [each.sum() for each in language_model.score_words(["x", "y x"])] == pytest.approx(
        values
    )
    with pytest.raises(rescorer.UserError, match="texts: found 'x', expected a list"):
        language_model.score("x")
    with pytest.raises(rescorer.UserError, match="reversed scores pairs: give targets, too"):
        model.score(["a"])
    with pytest.raises(rescorer.UserError, match="'cslm', which makes no vector of a phrase"):
        language_model.embed(["a"])
    with pytest.raises(rescorer.UserError, match="'cslm', which cannot generate"):
        language_model.generate(["a"])


def test_a_model_of_linked_words_needs_links(tmp_path: Path) -> None:
    for name, lines in (("en", ["a b"] * 8), ("fr", ["x y z"] * 8), ("links", ["0-0 1-2"] * 8)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    settings = {"n_held_out": 0, "loop": {"n_epochs": 1}}
    data = {"source": tmp_path / "en", "links": tmp_path / "links"}
    with pytest.raises(rescorer.UserError, match="nnjm is trained on linked text: name source too"):
        rescorer.train(tmp_path / "fr", tmp_path / "nnjm", "nnjm", settings, device="cpu")
    rescorer.train(tmp_path / "fr", tmp_path / "nnjm", "nnjm", settings, **data, device="cpu")
    model = rescorer.load(tmp_path / "nnjm", device="cpu")
    given = (["a b", "b"], ["x", "y z"])
    with pytest.raises(rescorer.UserError, match="nnjm needs word links: give links too, like 0-0"):
        model.score(*given)
    with pytest.raises(rescorer.UserError, match="found 2 sources, 2 targets, 1 links"):
        model.score(*given, ["0-0"])
    values = model.score(*given, ["0-0", b"0-0 0-1"])
    assert values.shape == (2,) and (values < 0).all()


def test_importing_loads_nothing_heavy() -> None:
    code = "import sys, rescorer; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "numba", "numpy", "pandas", "scipy", "click"} & {*found.stdout.split()}


# What users call: a change here is one that they notice. Types are as they stand in the code.
PUBLIC = """\
Model(directory: Path, compute: Compute, trust_code: bool = False, \
settings: PretrainedSettings | None = None) -> None
Model.embed(phrases: Texts) -> NDArray[np.float32]
Model.generate(sources: Texts, n: int = 1, beam: int = 10, sample: bool = False, temperature: float = 1.0, \
length_penalty: float = 0.0, max_words: int = 100, unknown_words: bool = True, seed: int = 1) -> pd.DataFrame
Model.score(sources: Texts, targets: Texts | None = None, links: Texts | None = None) -> NDArray[np.float64]
Model.score_words(sources: Texts, targets: Texts | None = None, links: Texts | None = None) \
-> list[NDArray[np.float64]]
UserError
load(model: StrPath, device: Device = 'auto', precision: Precision = 'float32', unnormalized: bool = False, \
trust_code: bool = False, settings: Mapping[str, Any] | None = None) -> Model
read_nbest(path: StrPath, list_format: ListFormat = 'moses', list_size: int = 0) -> pd.DataFrame
read_table(path: StrPath) -> pd.DataFrame
rescore(table: StrPath, out: StrPath, models: Model | Sequence[Model], columns: str = 'sum', \
mean: Mean | None = None, column_format: ColumnFormat = 'prob', ini: StrPath | None = None, \
ini_out: StrPath | None = None, replace: bool = False, resume: bool = False, jobs: int | None = None) \
-> list[str]
rescore_nbest(nbest: StrPath, source: StrPath, out: StrPath, model: Model | Sequence[Model], feature: str, \
mean: Mean = 'sentence-log-probs', per_word_feature: str = '', jobs: int | None = None, \
settings: Mapping[str, Any] | None = None, resume: bool = False) -> int
score_lines(source: StrPath, target: StrPath | None, out: StrPath, models: Model | Sequence[Model], \
links: StrPath | None = None, settings: Mapping[str, Any] | None = None, resume: bool = False, \
jobs: int | None = None) -> int
train(data: StrPath, out: StrPath, arch: str = 'encdec', settings: Mapping[str, Any] | None = None, \
source: StrPath | None = None, links: StrPath | None = None, texts: tuple[StrPath, StrPath] | None = None, \
cache: StrPath | None = None, resume: bool = False, device: Device = 'auto', seed: int = 1, \
overwrite: bool = False) -> TrainingReport
write_nbest(frame: pd.DataFrame, path: StrPath) -> None
write_table(frame: pd.DataFrame, path: StrPath) -> None
"""


def test_the_public_names_and_their_signatures(
    public_signatures: Callable[[ModuleType], str],
) -> None:
    assert public_signatures(rescorer) == PUBLIC
