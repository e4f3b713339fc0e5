from __future__ import annotations

from pathlib import Path

import pytest
from sacrebleu.metrics import CHRF

from moses_bridge.base.errors import InputError
from tuning.compare.output_scores import metrics_of_runs, tuned_metrics

REFERENCE = ["the old cat sat here .", "a dog ran home"]
OUTPUTS = {
    "one": ["the cat sat here .", "a dog ran"],
    "two": ["the old cat sat .", "dogs run home"],
}


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_bleu_and_columns_are_not_counted_again_and_each_metric_once() -> None:
    found = metrics_of_runs(["chrf", "bleu", "cer", "column", "chrf"])
    assert [choice.name for choice in found] == ["cer", "chrf"]


def test_a_system_has_the_mean_over_its_outputs(tmp_path: Path) -> None:
    reference = write(tmp_path / "reference", REFERENCE)
    outputs = [write(tmp_path / name, lines) for name, lines in OUTPUTS.items()]
    found = tuned_metrics({"a": outputs}, metrics_of_runs(["chrf"]), [reference], reference)
    scores = [CHRF().corpus_score(lines, [REFERENCE]).score for lines in OUTPUTS.values()]
    assert found == {"a": {"chrf": pytest.approx(sum(scores) / 2)}}


def test_an_output_of_another_length_is_refused(tmp_path: Path) -> None:
    reference = write(tmp_path / "reference", REFERENCE)
    short = write(tmp_path / "short", OUTPUTS["one"][:1])
    with pytest.raises(InputError, match="short"):
        tuned_metrics({"a": [short]}, metrics_of_runs(["cer"]), [reference], reference)
