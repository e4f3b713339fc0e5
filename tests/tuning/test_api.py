"""What `import tuning` offers: the results of the commands as DataFrames, and as a notebook shows them."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import tuning
from tuning.cli import main

if TYPE_CHECKING:
    from tests.tuning.conftest import FixedSystem

SETTINGS = {
    "optimizer": "mert",
    "nbest_size": 2,
    "max_iterations": 4,
    "keep": "best",
    "search": {"mert": {"n_restarts": 2, "n_directions": 1}},
}
TEXTS = ("source", "reference")


def tuned(system: FixedSystem, out: Path, seed: int = 1) -> tuning.Tuned:
    texts = [system[name] for name in TEXTS]
    return tuning.tune(system["moses.ini"], *texts, out, settings=SETTINGS, seed=seed)


def test_a_tuning_run(system: FixedSystem, tmp_path: Path) -> None:
    found = tuned(system, tmp_path / "run")
    assert found.dev_bleu == pytest.approx(100)
    assert found.weights == json.loads((tmp_path / "run" / "weights.json").read_text())["weights"]
    frame = found.frame()
    weights = ["weight Distortion0", "weight LM0"]
    measured = ["bleu", "length_ratio", "oracle_bleu", "pool_bleu", "kept"]
    assert [*frame.columns] == measured + weights
    assert frame["bleu"].max() == frame["bleu"][frame["kept"]].item() == found.dev_bleu
    assert frame["pool_bleu"].tolist() == [each.pool_bleu for each in found.run.iterations]
    assert frame[weights].abs().sum(axis=1).to_numpy() == pytest.approx(1)
    assert frame.index[0] == 1
    assert "<svg" in found._repr_svg_()


def test_the_last_decoding_before_the_limit_only_measures(
    system: FixedSystem, tmp_path: Path
) -> None:
    texts = [system[name] for name in TEXTS]
    settings = SETTINGS | {"max_iterations": 1}
    found = tuning.tune(system["moses.ini"], *texts, tmp_path / "run", settings)
    assert math.isnan(found.frame()["pool_bleu"].item())


def test_a_comparison(system: FixedSystem, tmp_path: Path) -> None:
    runs = [tmp_path / "run1", tmp_path / "run2"]
    for seed, run in enumerate(runs, start=1):
        tuned(system, run, seed)
    systems = {"Baseline": runs, "<B>": runs[0]}
    texts = [system[name] for name in TEXTS]
    found = tuning.compare_systems(systems, *texts, {"n_samples": 20})
    frame = found.frame()
    assert [*frame.index] == ["Baseline", "<B>"]
    assert [*frame["n_runs"]] == [2, 1]
    assert frame["test_bleu"].to_numpy() == pytest.approx(100)
    assert math.isnan(frame["test_sd"]["<B>"]) and frame["test_sd"]["Baseline"] == 0
    delta = frame["against_baseline.delta"]
    assert math.isnan(delta["Baseline"]) and delta["<B>"] == 0
    assert (frame["against_baseline.low"] <= delta).tolist() == [False, True]
    texts_of_frame = [name for name in frame if not pd.api.types.is_numeric_dtype(frame[name])]
    assert texts_of_frame == ["against_baseline.covers_runs"]
    shown = found._repr_html_()
    assert "<td>&lt;B&gt;</td>" in shown and "<td>100.00</td>" in shown and "<B>" not in shown
    assert found.write(tmp_path / "table") == (tmp_path / "table" / "table.txt").read_text()


def test_a_file_of_translations(system: FixedSystem, tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.write_text("a b c d e\nf g h i x\nk l m n o\n")
    frame = tuning.evaluate(output, system["reference"], n_samples=20)
    arguments = [output, "--reference", system["reference"], "--samples", 20]
    result = CliRunner().invoke(main, ["evaluate", *map(str, arguments)])
    printed = json.loads(result.stdout)
    assert len(frame) == 1
    for name in ("bleu", "bootstrap_sd", "chrf", "ter", "output_words"):
        assert frame[name].item() == printed[name]
    precisions = frame[[f"precision{n}" for n in (1, 2, 3, 4)]].to_numpy()[0]
    assert np.array_equal(precisions, printed["precisions"])
    assert isinstance(frame, pd.DataFrame)


def test_a_run_is_replaced_only_if_asked(system: FixedSystem, tmp_path: Path) -> None:
    tuned(system, tmp_path / "run")
    (tmp_path / "run" / "mine").write_text("stays")
    with pytest.raises(tuning.UserError, match=r"with resume=True, or replace it with overwrite="):
        tuned(system, tmp_path / "run")
    texts = [system[name] for name in TEXTS]
    settings = SETTINGS | {"max_iterations": 1}
    with pytest.raises(tuning.UserError, match=r"a run with other config; .*overwrite=True"):
        tuning.tune(system["moses.ini"], *texts, tmp_path / "run", settings)
    found = tuning.tune(system["moses.ini"], *texts, tmp_path / "run", settings, overwrite=True)
    assert len(found.run.iterations) == 1
    assert not [*(tmp_path / "run").glob("iter02*")]
    assert (tmp_path / "run" / "mine").exists()


def test_results_are_shown_on_a_line(system: FixedSystem, tmp_path: Path) -> None:
    found = tuned(system, tmp_path / "run")
    assert repr(found) == f"<tuning.Tuned {tmp_path / 'run'}: dev BLEU 100.00; {found.run.end}>"
    texts = [system[name] for name in TEXTS]
    systems = {f"S{number}": tmp_path / "run" for number in range(2)}
    compared = tuning.compare_systems(systems, *texts, {"n_samples": 20})
    assert repr(compared) == "<tuning.Compared test BLEU: S0 100.00, S1 100.00>"


def test_lists_of_any_decoder_are_reranked(tmp_path: Path) -> None:
    """The second hypothesis is right, and has the higher LM0."""
    texts = ["a b c d e", "f g h i j", "k l m n o"]
    files = [tmp_path / name for name in ("list", "source", "reference")]
    wrong = [" ".join(reversed(text.split())) for text in texts]
    files[0].write_text(
        "".join(
            f"{n} ||| {bad} ||| LM0= -2 ||| 0\n{n} ||| {good} ||| LM0= -1 ||| 0\n"
            for n, (bad, good) in enumerate(zip(wrong, texts, strict=True))
        )
    )
    for path in files[1:]:
        path.write_text("".join(f"{text}\n" for text in texts))
    settings = {"optimizer": "mert", "n_runs": 1}
    given = (*files, tmp_path / "out", files[0], files[1])
    found = tuning.rerank(*given, settings=settings)
    assert repr(found) == "<tuning.rerank bleu of dev: {'first': 0.0, 'reranked': 100.0}>"
    outputs = found.outputs(tmp_path / "out")
    french = {"n_samples": 20, "target_language": "fr"}
    compared = tuning.compare_systems(outputs, files[1], files[2], french)
    assert [*compared.frame()["test_bleu"]] == pytest.approx([0, 100], abs=1e-6)
    with pytest.raises(tuning.UserError, match="out: there is a run already; replace it with ov"):
        tuning.rerank(*given, settings=settings)
    again = tuning.rerank(*given[:4], settings=settings, seed=2, overwrite=True)
    assert again.systems["reranked"][0].seed == 2
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("dev.first.2.out", "dev.nbest.gz", "dev.reranked.2.out", "weights.json")
    ]
    with pytest.raises(tuning.UserError, match="test_list and test_source belong together"):
        tuning.rerank(*files, tmp_path / "new", test_list=files[0])
    with pytest.raises(tuning.UserError, match="list_format: found 'xml', expected one of moses"):
        tuning.rerank(*files, tmp_path / "new", settings={"list_format": "xml"})


def test_texts_are_evaluated_as_their_files(system: FixedSystem, tmp_path: Path) -> None:
    output = ["a b c d e", "f g h i x", "k l m n o"]
    (tmp_path / "output").write_text("".join(f"{text}\n" for text in output))
    reference = system["reference"].read_text().splitlines()
    rest = {"n_samples": 20, "target_language": "fr"}
    of_files = tuning.evaluate(tmp_path / "output", system["reference"], **rest)
    for given in (reference, [reference], [tuple(reference)]):
        pd.testing.assert_frame_equal(tuning.evaluate(output, given, **rest), of_files)
    series = pd.Series(output), pd.Series(reference)
    pd.testing.assert_frame_equal(tuning.evaluate(*series, **rest), of_files)
    two = tuning.evaluate(iter(output), [reference, output], **rest)
    assert two["bleu"].item() == pytest.approx(100)


@pytest.mark.parametrize(
    ("output", "references", "message"),
    [
        (["a", "b"], ["a"], "references: found 1 texts, expected 2, as many as output"),
        (["a"], [["a"], ["a", "b"]], r"references\[1\]: found 2 texts, expected 1"),
        (["a"], "reference", "references: found 'reference', expected texts, as output has"),
        (["a"], Path("reference"), r"references: found PosixPath\('reference'\), expected texts"),
        (["a", None], ["a", "b"], r"output\[1\]: found NoneType None, expected str or bytes"),
        (["a\nb"], ["a"], r"output\[0\]: found the end of a line"),
    ],
)
def test_what_are_no_texts_to_evaluate(output: object, references: object, message: str) -> None:
    with pytest.raises(tuning.UserError, match=message):
        tuning.evaluate(output, references)  # type: ignore[arg-type]


def test_settings_that_do_not_fit(system: FixedSystem, tmp_path: Path) -> None:
    texts = [system[name] for name in TEXTS]
    with pytest.raises(tuning.UserError, match="settings: unknown key 'nbest'; did you mean"):
        tuning.tune(system["moses.ini"], *texts, tmp_path / "run", {"nbest": 3})
    with pytest.raises(tuning.UserError, match="systems: found none, expected the runs of one"):
        tuning.compare_systems({}, *texts)
    with pytest.raises(tuning.UserError, match="nowhere"):
        tuning.compare_systems({"A": tmp_path / "nowhere"}, *texts)
    with pytest.raises(tuning.UserError, match="output"):
        tuning.evaluate(tmp_path / "output", system["reference"])


def test_importing_loads_nothing_heavy() -> None:
    code = "import sys, tuning; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numba", "numpy", "pandas", "scipy", "click"} & {*found.stdout.split()}


# What users call: a change here is one that they notice. Types are as they stand in the code.
PUBLIC = """\
Compared(comparison: Comparison) -> None
Compared.frame() -> pd.DataFrame
Compared.notes() -> list[str]
Compared.write(out: Path | str) -> str
Reranker(settings: Mapping[str, Any] | None = None, models: Mapping[str, StrPath] | None = None, \
nbest_features: Sequence[str] = (), seed: int = 1, jobs: int = 1) -> None
Reranker.apply(nbest: StrPath, source: StrPath, nbest_out: StrPath | None = None) -> Applied
Reranker.fit(nbest: StrPath, source: StrPath, references: StrPath | Sequence[StrPath]) -> Self
Reranker.load(path: StrPath) -> Self
Reranker.save(path: StrPath) -> None
Tuned(directory: Path, run: TuningRun) -> None
Tuned.frame() -> pd.DataFrame
UserError
compare_systems(systems: Mapping[str, StrPath | Sequence[StrPath]], source: StrPath, \
references: StrPath | Sequence[StrPath], settings: Mapping[str, Any] | None = None, \
training: StrPath | Sequence[StrPath] = (), groups: StrPath | None = None, jobs: int = 1) -> Compared
evaluate(output: StrPath | Texts, references: StrPath | Sequence[StrPath] | Texts | Sequence[Texts], \
target_language: str = '', n_samples: int = 1000, seed: int = 1, groups: StrPath | None = None, \
tokenize: TokenizerName | None = None) -> pd.DataFrame
rerank(dev_list: StrPath, source: StrPath, references: StrPath | Sequence[StrPath], out: StrPath, \
test_list: StrPath | None = None, test_source: StrPath | None = None, \
models: Mapping[str, StrPath] | None = None, nbest_features: Sequence[str] = (), \
settings: Mapping[str, Any] | None = None, seed: int = 1, jobs: int = 1, overwrite: bool = False) -> Reranked
run(experiment: StrPath | Sequence[StrPath], out: StrPath, \
settings: Mapping[str, Any] | None = None) -> None
tune(ini: StrPath, source: StrPath, references: StrPath | Sequence[StrPath], out: StrPath, \
settings: Mapping[str, Any] | None = None, seed: int = 1, resume: bool = False, \
init_weights: StrPath | None = None, nbest_features: Sequence[str] = (), jobs: int = 1, \
overwrite: bool = False) -> Tuned
worth(nbest: StrPath, source: StrPath, references: StrPath | Sequence[StrPath], \
columns: Mapping[str, StrPath] | None = None, models: Mapping[str, StrPath] | None = None, \
groups: StrPath | None = None, list_format: ListFormat = 'moses', metric: MetricName = 'bleu', \
metric_command: str = '', seed: int = 1, list_size: int = 0) -> Worth
"""


def test_the_public_names_and_their_signatures(
    public_signatures: Callable[[ModuleType], str],
) -> None:
    assert public_signatures(tuning) == PUBLIC
