from __future__ import annotations

import os

import pytest

from moses_bridge.base.errors import ToolError, UserError
from moses_bridge.builtin.decoder import batches
from moses_bridge.builtin.decoder.batches import Work, translate_lines
from moses_bridge.builtin.decoder.model import Model
from moses_bridge.builtin.decoder.nbest_lines import NBestFormat
from moses_bridge.builtin.decoder.ngram_memo import CachedScorers
from moses_bridge.builtin.decoder.search import Limits
from moses_bridge.builtin.decoder.translator import Translator
from moses_bridge.builtin.decoder.weighted_model import make_weighted_model
from moses_bridge.formats.ngram_scorer import NeuralLm

LINES = [b"u v w", b"", b"x", b"w v u", b"u " * 30] * 4


@pytest.fixture
def work(toy: Model) -> Work:
    weighted = make_weighted_model(toy, toy.weight_vector(None))
    translator = Translator(toy, weighted, Limits(20, 20, 3))
    return Work(translator, NBestFormat(3, 5, False, False))


def test_several_processes_give_the_same_as_one_in_order(work: Work) -> None:
    alone = list(translate_lines(work, LINES, 1, CachedScorers()))
    assert list(translate_lines(work, LINES, 2, CachedScorers())) == alone
    for number, (line, (text, entries)) in enumerate(zip(LINES, alone, strict=True)):
        assert bool(text) == bool(line)
        assert all(entry.startswith(b"%d ||| " % number) for entry in entries)
    assert list(translate_lines(work, [], 2, CachedScorers())) == []


def test_a_killed_process_is_reported(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(first_id: int, lines: list[bytes]) -> list[tuple[bytes, list[bytes]]]:
        os._exit(9)

    die.__qualname__, die.__module__ = "_translate_shared", batches.__name__
    monkeypatch.setattr(batches, "_translate_shared", die)
    with pytest.raises(UserError, match="killed, perhaps for want of memory; use fewer jobs"):
        list(translate_lines(work, LINES, 2, CachedScorers()))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_scorer_that_fails_is_reported_from_any_process(work: Work, jobs: int) -> None:
    lm = NeuralLm("CSLM0", ("sh", "-c", "echo no model >&2; exit 4"))
    neural = Work(work.translator, None, (lm,), (0.5,))
    with pytest.raises(ToolError, match="status 4: no model"):
        list(translate_lines(neural, LINES * 4, jobs, CachedScorers()))


@pytest.mark.parametrize(
    ("n_lines", "jobs", "expected"), [(10, 2, 64), (300, 1, 300), (1000, 4, 84), (9999, 1, 512)]
)
def test_each_process_has_some_tasks_with_a_neural_model(
    work: Work, n_lines: int, jobs: int, expected: int
) -> None:
    neural = Work(work.translator, None, (NeuralLm("CSLM0", ("true",)),), (0.5,))
    assert batches._task_size(neural, n_lines, jobs) == expected
    assert batches._task_size(work, n_lines, jobs) == batches.LINES_PER_TASK
