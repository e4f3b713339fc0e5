"""What scores are worth, against the coefficients that lists are made of and a plain computation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

import tuning
from moses_bridge.base.errors import ConfigError, UserError
from tuning.cli import main
from tuning.compare.worth import ScoreWorth, worth_of_pool
from tuning.metrics.column_metric import COLUMN
from tuning.optimisers.nbest_pool import NBestPool, make_pool

Floats = NDArray[np.float64]
N_SENTENCES, N_HYPOTHESES = 60, 20
DOCUMENTS = np.arange(N_SENTENCES) // 3


def made_pool(twin: bool = False) -> NBestPool:
    """Numbers 0.4 A0 - 0.3 B0 + chance; C0 is A0 and as much chance; D0 is the same in each list."""
    rng = np.random.default_rng(5)
    ids = np.repeat(np.arange(N_SENTENCES), N_HYPOTHESES)
    a, b, c, chance = rng.standard_normal((4, len(ids)))
    numbers = 50 + 0.4 * a - 0.3 * b + 0.5 * chance
    a += 5 * rng.standard_normal(N_SENTENCES)[ids]  # some sentences are easier, which says nothing
    last = 2 * b if twin else 7.0 * ids
    columns = np.column_stack([a, 3 * b, a + c, last])
    statistics = np.column_stack([numbers, np.ones(len(ids))])
    return make_pool(("A0_0", "B0_0", "C0_0", "D0_0"), ids, columns, statistics, COLUMN)


def centred(pool: NBestPool, values: Floats) -> Floats:
    """Each list minus its mean, list by list."""
    ends = zip(pool.offsets, pool.offsets[1:], strict=False)
    return np.concatenate([values[a:b] - values[a:b].mean(axis=0) for a, b in ends])


def plain(pool: NBestPool, columns: Floats, place: int, halves: list[set[int]]) -> ScoreWorth:
    """By the definitions, hypothesis by hypothesis and with the least squares of NumPy."""
    y = centred(pool, pool.statistics[:, 0])
    x = centred(pool, columns)
    x /= x.std(axis=0)
    documents = np.repeat(DOCUMENTS, N_HYPOTHESES)
    weights = np.linalg.lstsq(x, y)[0]
    meat = np.zeros((x.shape[1], x.shape[1]))
    for document in set(DOCUMENTS.tolist()):
        rows = documents == document
        s = sum(row * (own - row @ weights) for row, own in zip(x[rows], y[rows], strict=True))
        meat += np.outer(s, s)
    bread = np.linalg.inv(x.T @ x)
    error = np.sqrt((bread @ meat @ bread)[place, place])
    others = np.delete(x, place, axis=1)
    rest = x[:, place] - others @ np.linalg.lstsq(others, x[:, place])[0]
    gains = [chosen(pool, x, y, half) - chosen(pool, others, y, half) for half in halves]
    explained = 1 - (rest @ rest) / (x[:, place] @ x[:, place])
    worth = weights[place]
    return ScoreWorth("", worth, worth / error, explained, np.mean(gains), np.std(gains, ddof=1))


def chosen(pool: NBestPool, x: Floats, y: Floats, half: set[int]) -> float:
    """The mean number of what weights of the other half choose in each sentence."""
    total = 0.0
    for sentence, document in enumerate(DOCUMENTS.tolist()):
        is_in = document in half
        learned = np.repeat([(d in half) != is_in for d in DOCUMENTS.tolist()], N_HYPOTHESES)
        weights = np.linalg.lstsq(x[learned], y[learned])[0]
        first = sentence * N_HYPOTHESES
        best = first + int(np.argmax(x[first : first + N_HYPOTHESES] @ weights))
        total += pool.statistics[best, 0]
    return total / N_SENTENCES


def test_all_numbers_are_those_of_a_plain_computation() -> None:
    pool = made_pool()
    found = worth_of_pool(pool, DOCUMENTS, seed=3)
    rng = np.random.default_rng(3)
    noise = rng.standard_normal((len(pool), 3))
    halves = [set(np.flatnonzero(rng.permutation(20) < 10).tolist()) for _ in range(20)]
    own = pool.features[:, :3]
    for place, score in enumerate(found.scores[:4]):
        columns = own if place < 3 else np.column_stack([own, noise[:, 0]])
        expected = plain(pool, columns, place, halves)
        for name in ("worth", "t", "explained", "gain", "gain_sd"):
            assert getattr(score, name) == pytest.approx(getattr(expected, name), abs=1e-9), name


def test_what_the_lists_are_made_of_is_found() -> None:
    found = worth_of_pool(made_pool(), DOCUMENTS, seed=1)
    a, b, c, *noise = found.scores
    assert [score.name for score in found.scores] == [
        "A0_0",
        "B0_0",
        "C0_0",
        *(f"noise {n}" for n in (1, 2, 3)),
    ]
    # The deviations within lists are about 1: the coefficients are those of `made_pool`.
    assert a.worth == pytest.approx(0.4, abs=0.05)
    assert b.worth == pytest.approx(-0.3, abs=0.05)
    assert min(a.t, -b.t) > 10 and abs(c.t) < 3 and c.worth == pytest.approx(0, abs=0.05)
    assert max(abs(score.t) for score in noise) < 3
    # C0 has half of its variance from A0.
    assert (b.explained, c.explained) == (pytest.approx(0, abs=0.02), pytest.approx(0.5, abs=0.05))
    assert min(a.gain, b.gain) > 0.1 > max(abs(score.gain) for score in (c, *noise))
    assert (found.constant, found.n_documents, found.n_hypotheses) == (["D0_0"], 20, 1200)


def test_a_score_that_another_one_makes_up_adds_nothing() -> None:
    """Without the cut of small eigenvalues the two would have huge weights."""
    pool = made_pool(twin=True)
    found = {score.name: score for score in worth_of_pool(pool, DOCUMENTS, seed=1).scores}
    twins = found["B0_0"], found["D0_0"]
    assert [score.explained for score in twins] == [pytest.approx(1), pytest.approx(1)]
    assert sum(score.worth for score in twins) == pytest.approx(-0.3, abs=0.05)
    assert [score.gain for score in twins] == [0, 0]


def test_of_the_published_scores_noise_alone_cannot_help() -> None:
    """Each network by the intervals of the tunings that followed (docs/results.md)."""
    results = Path(__file__).resolve().parents[3] / "docs" / "results"
    judged = json.loads((results / "worth.json").read_text())["rows"]
    found = {}
    for row in judged:
        table = json.loads((results / f"{row.get('table', 'table1')}.json").read_text())
        (tuned,) = (each for each in table["rows"] if each["system"] == row["system"])
        can_help = [ScoreWorth("", **network).can_help for network in row["networks"]]
        found[row["score"]] = can_help
        assert all(can_help) or tuned["against_baseline"]["interval"][0] <= 0
    assert found["noise, three columns"] == [False, False, False]


@pytest.mark.parametrize(
    ("t", "gain", "helps"),
    [(2.0, 0.0, True), (-2.0, -9.0, True), (1.99, 1.0, False), (1.99, 1.01, True)],
)
def test_a_score_may_help_by_its_t_or_its_gain(t: float, gain: float, helps: bool) -> None:
    score = ScoreWorth("A0_0", 0.456, t, 0.0, gain, 0.5)
    assert score.can_help == helps
    assert str(score) == (
        f"worth +0.46 BLEU a sentence (t {t:.1f}), reranking foretells {gain:+.2f}"
    )


def test_four_documents_are_enough() -> None:
    assert worth_of_pool(made_pool(), np.arange(N_SENTENCES) // 15, seed=1).n_documents == 4


REFERENCES = [f"{a} {b} c d {a} f" for a in "uvwxyz" for b in "klmn"]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A list whose LM0 says nothing, and a file whose numbers are higher for the right hypotheses."""
    rng = np.random.default_rng(2)
    lines, numbers = [], []
    for text in REFERENCES:
        words = text.split()
        texts = [" ".join([*words[:n], "e", *words[n + 1 :]]) for n in range(4)]
        hypotheses = [*texts, text]
        found = [{"text": each, "features": {"LM0": rng.normal()}} for each in hypotheses]
        lines.append(json.dumps({"hypotheses": found}))
        numbers += [rng.normal() + 9 * (each == text) for each in hypotheses]
    contents = {"list": lines, "numbers": map(str, numbers), "text": REFERENCES}
    for name, content in contents.items():
        (tmp_path / name).write_text("".join(f"{each}\n" for each in content))
    return {name: str(tmp_path / name) for name in contents}


def run(files: dict[str, str], *words: str) -> tuple[int, str]:
    given = ["--list", files["list"], "--source", files["text"], "--reference", files["text"]]
    result = CliRunner().invoke(main, ["worth", *given, "--list-format", "jsonl", *words])
    return result.exit_code, result.stdout or result.stderr.splitlines()[-1]


def test_the_command_judges_a_score_from_a_file(files: dict[str, str]) -> None:
    code, printed = run(files, "--feature", f"Q0={files['numbers']}")
    assert code == 0, printed
    head, lm, score, *noise = printed.splitlines()[:6]
    assert head.split() == ["score", "worth", "t", "explained", "gain", "s.d."]
    assert [line.split()[0] for line in (lm, score)] == ["LM0_0", "Q0_0"] and len(noise) == 3
    assert float(score.split()[1]) > 5 > abs(float(lm.split()[1]))
    assert "120 hypotheses; t and halves by 24 documents or sentences." in printed
    assert "The same for all hypotheses of each sentence: WordPenalty0_0." in printed
    again = json.loads(run(files, "--feature", f"Q0={files['numbers']}", "--format", "json")[1])
    assert f"{again['scores'][1]['worth']:+.2f}" == score.split()[1]


def test_the_function_of_python(files: dict[str, str]) -> None:
    given = files["list"], files["text"], files["text"], {"Q0": files["numbers"]}
    found = tuning.worth(*given, list_format="jsonl", metric="chrf")
    assert found.metric == "chrF" and found.scores[1].t > 5
    found = tuning.worth(*given, list_format="jsonl", metric="ter")  # less of it is better
    assert found.scores[1].t > 5 and found.scores[1].gain > 0


def test_three_bars_are_a_word_like_others(files: dict[str, str]) -> None:
    """In the list that is made of this one they are escaped."""
    given = files["list"], files["text"], files["text"], {"Q0": files["numbers"]}
    expected = tuning.worth(*given, list_format="jsonl")
    for path in map(Path, given[:2]):
        path.write_text(path.read_text().replace(" c ", " ||| "))
    assert tuning.worth(*given, list_format="jsonl") == expected


def test_documents_and_the_seed_are_those_that_are_given(files: dict[str, str]) -> None:
    """Documents change the errors and halves, not the weights; the seed the noise."""
    given = files["list"], files["text"], files["text"], {"Q0": files["numbers"]}
    groups = Path(files["text"]).with_name("groups")
    groups.write_text("".join(f"{text[0]}\n" for text in REFERENCES))
    alone, grouped, other = (
        tuning.worth(*given, groups=path, list_format="jsonl", seed=seed)
        for path, seed in ((None, 1), (groups, 1), (None, 2))
    )
    assert [each.n_documents for each in (alone, grouped, other)] == [24, 6, 24]
    for place, is_noise in enumerate([False] * 2 + [True] * 3):
        one, two, three = (each.scores[place] for each in (alone, grouped, other))
        assert one.worth == pytest.approx(two.worth) and one.t != pytest.approx(two.t)
        assert (one.worth == pytest.approx(three.worth)) != is_noise


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--feature", "Q0={text}"], "text: found 24 lines, expected 120, one for each hypothesis"),
        (["--feature", "LM0={numbers}"], "the list has a feature LM0; use another name"),
        (["--feature", "Q_0={numbers}"], "found the feature name 'Q_0', expected letters and dig"),
        (["--feature", "{numbers}"], "expected NAME=PATH"),
        (["--groups", "{numbers}"], "numbers: found 120 lines, expected 24, as"),
        (["--list-format", "moses"], "list:1: found"),
    ],
)
def test_faulty_input_ends_in_one_line(
    words: list[str], message: str, files: dict[str, str]
) -> None:
    code, printed = run(files, *(word.format(**files) for word in words))
    assert code == 1 and message in printed


def test_a_number_of_a_score_that_is_none_is_named(files: dict[str, str]) -> None:
    path = Path(files["numbers"])
    lines = path.read_text().splitlines()
    for bad in ("x", "nan"):
        path.write_text("".join(f"{line}\n" for line in [*lines[:6], bad, *lines[7:]]))
        code, printed = run(files, "--feature", f"Q0={path}")
        assert (
            code == 1 and f"numbers:7: found the value '{bad}', expected a finite number" in printed
        )


def test_too_few_documents_and_lists_that_teach_nothing_are_refused(files: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="found 3 documents or sentences, expected 4 at least"):
        worth_of_pool(made_pool(), np.arange(N_SENTENCES) // 20, seed=1)
    path = Path(files["list"])
    lines = [json.loads(line)["hypotheses"][-1:] for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({"hypotheses": each}) + "\n" for each in lines))
    with pytest.raises(UserError, match="nothing can be learned from these lists: all hypothe"):
        tuning.worth(path, files["text"], files["text"], list_format="jsonl")
