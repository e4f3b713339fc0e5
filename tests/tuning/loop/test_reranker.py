"""Fit, apply, save and load from Python, against the function of the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tuning import Reranker, UserError
from tuning.loop.rerank import ListedText, rerank_lists
from tuning.loop.settings import RerankConfig

QUICK = {"optimizer": "mert", "n_runs": 2, "list_format": "jsonl", "metric": "chrf"}
RIGHT = ["a b c d e", "f g h i j", "k l m n o"]


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
        assert [*found.frame()["text"]] == RIGHT
    assert (
        (tmp_path / "new.nbest").read_text().startswith("0 ||| a b c d e  ||| LM0= -1.0 TM0= 0.5")
    )


def test_a_reranker_without_weights_or_with_faulty_settings(tmp_path: Path) -> None:
    nbest, source, _ = files(tmp_path)
    with pytest.raises(UserError, match="found a Reranker without weights; call fit or load first"):
        Reranker(QUICK).apply(nbest, source)
    with pytest.raises(UserError, match="list_format: found 'xml', expected one of moses"):
        Reranker({"list_format": "xml"})
