"""Scans of a system whose translations are all known, against a search through all weights."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from moses_bridge.base.errors import ConfigError
from moses_bridge.base.textio import read_lines, write_lines
from moses_bridge.decoding.interface import DecoderConfig
from tuning.cli import main
from tuning.compare import scan as scan_module
from tuning.compare.scan import Decoding, Scan, ScanConfig, at_length, next_weights, scan
from tuning.loop.fingerprints import ParallelText
from tuning.loop.run_directory import TuningRun, save_run
from tuning.metrics.bleu import References, bleu

INI = """\
[feature]
WordPenalty
Quality name=Known0
Noise name=Noise0
Pair name=Pair0 num-features=2

[weight]
WordPenalty0= -0.2
Known0= 0.0
Noise0= 0.5
Pair0= 0.0 0.0
"""
N_SENTENCES, N_HYPOTHESES = 150, 30
CONFIG = ScanConfig(grid=(-0.2, 0.2, 0.4), max_adaptations=6, length_tolerance=0.002)


class ListedDecoder:
    """Chooses among listed hypotheses; Known0 is the share of words that are the reference's."""

    calls = 0

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        self.references = [
            [b"w%d" % word for word in rng.permutation(40)[: rng.integers(8, 16)]]
            for _ in range(N_SENTENCES)
        ]
        self.counted = References([[b" ".join(words)] for words in self.references])
        self.texts = [
            [self.hypothesis(words, rng) for _ in range(N_HYPOTHESES)] for words in self.references
        ]
        self.features = np.array(
            [[self.of(text, words, rng) for text in texts]
             for texts, words in zip(self.texts, self.references, strict=True)]
        )  # fmt: skip

    @staticmethod
    def hypothesis(words: Sequence[bytes], rng: np.random.Generator) -> list[bytes]:
        wrong = rng.uniform(0, 0.6)
        text = [b"x" if rng.random() < wrong else word for word in words]
        n_words = max(5, len(words) + int(rng.integers(-4, 5)))
        return (text + [b"y"] * n_words)[:n_words]

    @staticmethod
    def of(text: list[bytes], words: list[bytes], rng: np.random.Generator) -> tuple[float, ...]:
        right = sum(one == other for one, other in zip(text, words, strict=False))
        return -len(text), 10 * right / len(text), rng.normal(), rng.normal(), rng.normal()

    def outputs(self, weights: NDArray[np.float64]) -> list[bytes]:
        chosen = (self.features @ weights).argmax(axis=1)
        return [b" ".join(texts[i]) for texts, i in zip(self.texts, chosen, strict=True)]

    def decode(
        self,
        source: Path,
        out: Path,
        weights: Mapping[str, Sequence[float]],
        nbest: Path | None,
        nbest_size: int,
    ) -> None:
        type(self).calls += 1
        names = ("WordPenalty0", "Known0", "Noise0", "Pair0")
        write_lines(out, self.outputs(np.concatenate([weights[name] for name in names])))


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ListedDecoder:
    decoder = ListedDecoder()

    @contextmanager
    def opened(ini: Path, config: DecoderConfig, jobs: int) -> Iterator[ListedDecoder]:
        yield decoder

    monkeypatch.setattr(scan_module, "open_decoder", opened)
    ListedDecoder.calls = 0
    (tmp_path / "moses.ini").write_text(INI)
    write_lines(tmp_path / "source", [b"s"] * N_SENTENCES)
    write_lines(tmp_path / "reference", [b" ".join(words) for words in decoder.references])
    return decoder


def scanned(
    folder: Path, feature: str, config: ScanConfig = CONFIG, out: str = "scan", resume: bool = False
) -> Scan:
    ini = folder / "moses.ini"
    return scan(ini, feature, text_of(folder), folder / out, config, resume=resume)


def text_of(folder: Path) -> ParallelText:
    return ParallelText(folder / "source", [folder / "reference"])


def sums_of(listed: ListedDecoder, known: float, penalty: float) -> NDArray[np.int64]:
    """BLEU statistics of the output with these weights."""
    outputs = listed.outputs(np.array([penalty, known, 0.5, 0.0, 0.0]))
    rows: NDArray[np.int64] = listed.counted.statistics(enumerate(outputs)).sum(axis=0)
    return rows


def test_a_column_that_helps_shows_its_gain_at_equal_length(
    listed: ListedDecoder, tmp_path: Path
) -> None:
    found = scanned(tmp_path, "Known0")
    worse, none, better, best = found.points
    assert [point.weight for point in found.points] == [-0.2, 0.0, 0.2, 0.4]
    assert none.plain.delta == 0.0 and none.plain.error == 0.0 and none.plain == none.equal
    assert all(point.has_length for point in found.points)
    assert worse.equal.delta < -3 * worse.equal.error
    assert best.equal.delta > better.equal.delta > 3 * better.equal.error > 0
    assert best.equal.length_ratio == pytest.approx(none.plain.length_ratio, abs=0.002)


def test_a_column_of_noise_gains_nothing(listed: ListedDecoder, tmp_path: Path) -> None:
    weights = tmp_path / "weights.json"
    weights.write_text('{"WordPenalty0": [-0.2], "Known0": [0.6], "Noise0": [0.0]}')
    config = replace(CONFIG, grid=(-0.4, -0.1, 0.1, 0.4))
    ini, out = tmp_path / "moses.ini", tmp_path / "scan"
    found = scan(ini, "Pair0_1", text_of(tmp_path), out, config, init_weights=weights)
    changed = [point for point in found.points if point.weight]
    assert all(point.equal.delta < 2 * point.equal.error for point in changed)
    assert all(point.equal.delta < 0 for point in (changed[0], changed[-1]))


def test_equal_length_is_that_of_a_search_through_all_penalties(
    listed: ListedDecoder, tmp_path: Path
) -> None:
    found = scanned(tmp_path, "Known0")
    sums = partial(sums_of, listed)
    base = sums(0.0, -0.2)
    assert found.points[1].plain.bleu == pytest.approx(float(bleu(base)))
    for point in found.points:
        plain = sums(point.weight, -0.2)
        assert point.plain.bleu == pytest.approx(float(bleu(plain)))
        assert point.plain.delta == pytest.approx(float(bleu(plain)) - float(bleu(base)))
        assert point.plain.length_ratio == pytest.approx(plain[1] / plain[-1])
        all_sums = [sums(point.weight, penalty) for penalty in np.linspace(-1.5, 1.5, 301)]
        nearest = min(all_sums, key=lambda each: abs(int(each[1] - base[1])))
        assert point.equal.bleu == pytest.approx(float(bleu(nearest)), abs=0.6)


def test_errors_are_those_of_texts_without_one_sentence_each(
    listed: ListedDecoder, tmp_path: Path
) -> None:
    """The jackknife: (n - 1) / n times the sum of squares about the mean."""
    found = scanned(tmp_path, "Known0").points[-1].plain
    references = References.read([tmp_path / "reference"])
    one, other = (
        references.statistics(enumerate(listed.outputs(np.array([-0.2, known, 0.5, 0, 0]))))
        for known in (0.4, 0.0)
    )
    deltas = [
        bleu(np.delete(one, i, axis=0).sum(axis=0)) - bleu(np.delete(other, i, axis=0).sum(axis=0))
        for i in range(N_SENTENCES)
    ]
    assert found.error == pytest.approx(np.sqrt((N_SENTENCES - 1) * np.var(deltas)))


def test_the_first_step_goes_by_what_the_other_weight_does_alone(
    listed: ListedDecoder, tmp_path: Path
) -> None:
    """A tenth of -0.2 to both sides, without the feature; and the slope of the length between them."""
    config = replace(CONFIG, grid=(0.4,), max_adaptations=1, length_tolerance=0.0)
    found = scanned(tmp_path, "Known0", config)
    sums = partial(sums_of, listed)

    def length(known: float, penalty: float) -> float:
        rows = sums(known, penalty)
        return float(rows[1] / rows[-1])

    for measures, penalty in zip(found.without, (-0.22, -0.18), strict=True):
        assert measures.against == penalty
        assert measures.length_ratio == pytest.approx(length(0.0, penalty))
        delta = float(bleu(sums(0.0, penalty))) - float(bleu(sums(0.0, -0.2)))
        assert measures.delta == pytest.approx(delta)
    slope = (length(0.0, -0.18) - length(0.0, -0.22)) / 0.04
    penalty = -0.2 + (length(0.0, -0.2) - length(0.4, -0.2)) / slope
    made = {path.name for path in (tmp_path / "scan" / "decodings").glob("*.out")}
    expected = {(0, -0.2), (0, -0.22), (0, -0.18), (0.4, -0.2), (0.4, penalty)}
    assert made == {f"{known:+.6f}{each:+.6f}.out" for known, each in expected}


def test_a_weight_of_0_is_moved_by_a_tenth_of_1(listed: ListedDecoder, tmp_path: Path) -> None:
    config = replace(CONFIG, grid=(), against="Pair0_0")
    found = scanned(tmp_path, "Known0", config)
    assert [each.against for each in found.without] == [-0.1, 0.1]
    assert [point.weight for point in found.points] == [0.0]


def test_a_length_that_is_met_between_two_decodings_is_reached(
    listed: ListedDecoder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = replace(CONFIG, grid=(0.1, 0.45, 0.5, 0.4), length_tolerance=0.0)
    found = scanned(tmp_path, "Known0", config)
    none, best = found.points[0], found.points[2]
    assert all(point.has_length for point in found.points)
    assert best.equal.length_ratio == pytest.approx(none.plain.length_ratio, abs=1e-12)
    (told,) = [each for each in capsys.readouterr().err.splitlines() if " 0.4: " in each]
    plain, equal = best.plain, best.equal
    assert told.startswith(
        f"scan: Known0_0 0.4: BLEU {plain.bleu:.2f}, length {plain.length_ratio:.3f}"
    )
    assert told.endswith(f"at equal length {equal.bleu:.2f} ({equal.delta:+.2f})")


def test_a_text_of_two_sentences_is_enough(listed: ListedDecoder, tmp_path: Path) -> None:
    for name in ("source", "reference"):
        path = tmp_path / name
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    listed.texts, listed.features = listed.texts[:2], listed.features[:2]
    assert scanned(tmp_path, "Known0", out="new/scan").n_sentences == 2
    listed.texts, listed.features = listed.texts[:1], listed.features[:1]
    for name in ("source", "reference"):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes().split(b"\n")[0] + b"\n")
    with pytest.raises(ConfigError, match="one sentence; a scan needs two or more"):
        scanned(tmp_path, "Known0", out="one")
    assert not (tmp_path / "one").exists()


def test_precision_is_bleu_without_the_brevity_penalty(
    listed: ListedDecoder, tmp_path: Path
) -> None:
    for point in scanned(tmp_path, "Known0").points:
        brevity = min(1.0, np.exp(1 - 1 / point.plain.length_ratio))
        assert point.plain.precision * brevity == pytest.approx(point.plain.bleu)


def test_decodings_that_are_there_are_not_made_again(listed: ListedDecoder, tmp_path: Path) -> None:
    whole = scanned(tmp_path, "Known0")
    n_calls = listed.calls
    assert scanned(tmp_path, "Known0", resume=True) == whole
    assert listed.calls == n_calls
    kept = sorted((tmp_path / "scan" / "decodings").glob("*.out"))
    assert len(kept) == n_calls
    kept[0].unlink()
    *lines, last = read_lines(kept[1])
    write_lines(kept[1], [*lines, last + b" x"])
    assert scanned(tmp_path, "Known0", resume=True) == whole
    assert listed.calls == n_calls + 2
    wider = scanned(tmp_path, "Known0", replace(CONFIG, grid=(*CONFIG.grid, 0.3)), resume=True)
    assert [point.weight for point in wider.points] == [-0.2, 0.0, 0.2, 0.3, 0.4]
    assert [point for point in wider.points if point.weight != 0.3] == whole.points


def test_another_scan_is_not_mixed_in(listed: ListedDecoder, tmp_path: Path) -> None:
    scanned(tmp_path, "Known0")
    with pytest.raises(ConfigError, match="--resume"):
        scan(tmp_path / "moses.ini", "Known0", text_of(tmp_path), tmp_path / "scan", CONFIG)
    with pytest.raises(ConfigError, match="other columns"):
        scanned(tmp_path, "Noise0", resume=True)


def test_a_length_out_of_reach_is_said(listed: ListedDecoder, tmp_path: Path) -> None:
    config = replace(CONFIG, grid=(0.4,), max_adaptations=0, length_tolerance=0.0)
    found = scanned(tmp_path, "Known0", config)
    assert [point.has_length for point in found.points] == [True, False]
    assert found.points[1].equal == found.points[1].plain


@pytest.mark.parametrize(
    ("feature", "change", "message"),
    [
        ("Pair0", {}, "no column Pair0; there are WordPenalty0_0, Known0_0"),
        ("Known0_1", {}, "no column Known0_1"),
        ("Known0", {"against": "Nothing0"}, "no column Nothing0"),
        ("WordPenalty0", {}, "cannot be scanned against itself"),
    ],
)
def test_columns_must_be_there(
    listed: ListedDecoder, tmp_path: Path, feature: str, change: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        scanned(tmp_path, feature, replace(CONFIG, **change))  # type: ignore[arg-type]
    assert listed.calls == 0


def test_a_grid_is_of_numbers() -> None:
    with pytest.raises(ConfigError, match="expected finite numbers"):
        ScanConfig(grid=(float("nan"),))


def saved_run(folder: Path, command: str = "") -> Path:
    weights = {"WordPenalty0": [-0.2], "Known0": [0.3], "Noise0": [0.5], "Pair0": [0.0, 0.0]}
    decoder = {"kind": "builtin"} | ({"neural_lm": [f"CSLM0={command}"]} if command else {})
    directory = folder / "run"
    directory.mkdir()
    save_run(TuningRun(str(folder / "moses.ini"), weights, 30.0, 1, 10, decoder), directory)
    return directory


def test_a_run_brings_its_weights(listed: ListedDecoder, tmp_path: Path) -> None:
    found = scan(saved_run(tmp_path), "Known0", text_of(tmp_path), tmp_path / "scan", CONFIG)
    assert found.own_weight == 0.3
    assert found.points[2].plain == scanned(tmp_path, "Known0", out="other").points[2].plain


def test_what_does_not_go_with_a_run_is_refused(listed: ListedDecoder, tmp_path: Path) -> None:
    run = saved_run(tmp_path, "serve x")
    weights = tmp_path / "run" / "weights.json"
    with pytest.raises(ConfigError, match="has its weights"):
        scan(run, "Known0", text_of(tmp_path), tmp_path / "scan", CONFIG, init_weights=weights)
    with pytest.raises(ConfigError, match="has its search"):
        other = replace(CONFIG, decoder=DecoderConfig(stack_size=5))
        scan(run, "Known0", text_of(tmp_path), tmp_path / "scan", other)
    with pytest.raises(ConfigError, match="CSLM0 of this run comes from the command 'serve x'"):
        scan(run, "Known0", text_of(tmp_path), tmp_path / "scan", CONFIG)
    assert not (tmp_path / "scan").exists()


def test_the_command_writes_table_and_picture(listed: ListedDecoder, tmp_path: Path) -> None:
    arguments = ["scan", tmp_path / "moses.ini", "--column", "Known0", "--grid", "-0.1,0.2"]
    arguments += ["--source", tmp_path / "source", "--reference", tmp_path / "reference"]
    arguments += ["--out", tmp_path / "scan", "--jobs", 1]
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    stored = json.loads((tmp_path / "scan" / "scan.json").read_text())
    assert [point["weight"] for point in stored["points"]] == [-0.1, 0.0, 0.2]
    assert stored["points"][2]["equal"]["delta"] > 0
    table = (tmp_path / "scan" / "scan.md").read_text()
    assert "BLEU at equal length" in result.output
    assert f"{stored['points'][2]['plain']['bleu']:.2f}" in table
    assert "<!-- weight of Known0_0 -->" in (tmp_path / "scan" / "scan.svg").read_text()


def test_a_grid_that_is_none_ends_the_command(listed: ListedDecoder, tmp_path: Path) -> None:
    arguments = ["scan", tmp_path / "moses.ini", "--column", "Known0", "--grid", "0.1;0.2"]
    arguments += ["--source", tmp_path / "source", "--reference", tmp_path / "reference"]
    result = CliRunner().invoke(main, [*map(str, arguments), "--out", str(tmp_path / "scan")])
    assert result.exit_code == 1
    assert "--grid: found '0.1;0.2', expected numbers joined by commas" in result.output


def planted_system(folder: Path) -> None:
    """Words with three translations of one to three words; the third score is e^2 for the right one."""
    rng = np.random.default_rng(8)
    rows = []
    for word in range(12):
        targets = {b"r%d s%d": 2.0, b"v%d": -1.0, b"w%d w%d w%d": -1.0}
        for target, value in targets.items():
            text = target.replace(b"%d", b"%d" % word)
            noise, planted = np.exp([rng.normal(), value])
            row = b"q%d ||| %s ||| %.5f %.5f %.5f" % (word, text, rng.uniform(), noise, planted)
            rows.append(row)
    write_lines(folder / "table", sorted(rows))
    ini = f"""\
        [distortion-limit]
        0
        [feature]
        WordPenalty
        PhraseDictionaryMemory name=TM0 num-features=3 path={folder / "table"}
        [weight]
        WordPenalty0= -0.1
        TM0= 1 0 0
        """
    (folder / "moses.ini").write_text("\n".join(map(str.strip, ini.splitlines())))
    sentences = [rng.integers(0, 12, rng.integers(4, 9)) for _ in range(40)]
    write_lines(folder / "source", [b" ".join(b"q%d" % w for w in words) for words in sentences])
    right = [b" ".join(b"r%d s%d" % (w, w) for w in words) for words in sentences]
    write_lines(folder / "reference", right)


def test_a_planted_column_of_a_real_table_is_found_and_its_noise_is_not(tmp_path: Path) -> None:
    planted_system(tmp_path)
    config = ScanConfig(grid=(1.0, 3.0), decoder=DecoderConfig(kind="builtin"))
    planted = scanned(tmp_path, "TM0_2", config, "planted")
    assert planted.points[-1].plain.bleu == pytest.approx(100)
    assert planted.points[-1].equal.delta > 3 * planted.points[-1].equal.error
    noise = scanned(tmp_path, "TM0_1", config, "noise")
    assert max(point.equal.bleu for point in noise.points) < 60


def decoding(against: float, length: float, matches: float = 5.0) -> Decoding:
    """One sentence of 10 reference words."""
    words = 10 * length
    return Decoding(against, np.array([[matches, words, 4, words - 1, 3, 6, 2, 5, 10.0]]))


def tried_for(
    length_of: Callable[[float], float], slope: float, n: int, tolerance: float = 1e-6
) -> list[Decoding]:
    """The decodings that a search from 0 for length 1 makes."""
    tried = [decoding(0.0, length_of(0.0))]
    for against in islice(next_weights(tried, 1.0, slope, tolerance), n):
        tried.append(decoding(against, length_of(against)))
    return tried


def test_on_a_straight_line_one_step_is_enough() -> None:
    tried = tried_for(lambda against: 0.9 - 2 * against, -2.0, 5)
    assert [each.against for each in tried] == [0.0, -0.05]


def test_a_bent_line_is_followed_by_its_secants() -> None:
    tried = tried_for(lambda against: math.exp(-0.5 - against), -1.0, 6)
    assert tried[-1].against == pytest.approx(-0.5, abs=1e-5)
    assert 3 < len(tried) <= 6


def test_a_slope_by_chance_is_not_followed() -> None:
    lengths = {0.0: 0.9, -0.1: 0.9001, -0.1999: 0.98}
    tried = tried_for(lambda against: lengths[against], -1.0, 2)
    assert [each.against for each in tried] == [0.0, -0.1, -0.1999]


@pytest.mark.parametrize("share", [0.2, 0.25, 0.5, 3.5, 4.0, 4.5])
def test_secants_by_hand(share: float) -> None:
    """The second slope is a share of the first, -0.25; from a quarter to four times it is followed."""
    second = 0.5 + 0.5 * share
    tried = tried_for(lambda against: second if against else 0.5, -0.25, 2)
    slope = -0.25 * (share if 0.25 <= share <= 4.0 else 1.0)
    assert tried[1].against == -2.0
    assert tried[2].against == pytest.approx(-2.0 + (1.0 - second) / slope, abs=1e-6)


def test_it_ends_at_the_length_and_without_a_slope() -> None:
    assert len(tried_for(lambda against: 1.0005, -1.0, 5, tolerance=0.001)) == 1
    assert len(tried_for(lambda against: 0.75, -1.0, 5, tolerance=0.25)) == 1
    assert len(tried_for(lambda against: 0.9, 0.0, 5)) == 1
    second_is_near = {0.0: 0.9, -0.1: 0.995}
    assert len(tried_for(second_is_near.__getitem__, -1.0, 5, tolerance=0.01)) == 2


def test_values_have_six_digits() -> None:
    assert tried_for(lambda against: 0.9, -3.0, 1)[1].against == -0.033333


def test_between_two_decodings_counts_change_in_proportion() -> None:
    tried = [decoding(0.0, 0.8, 4.0), decoding(-0.4, 1.2, 9.0), decoding(-0.2, 0.9, 6.0)]
    tried.append(decoding(-0.7, 1.5, 3.0))
    found = at_length(tried, 1.0)
    # a third of the way from 0.9 to 1.2
    assert found.length == pytest.approx(1.0)
    assert found.against == pytest.approx(-0.2 - 0.2 / 3)
    assert found.statistics[0, 0] == pytest.approx(7.0)


def test_what_lies_on_one_side_is_not_extended() -> None:
    tried = [decoding(0.0, 0.8), decoding(-0.1, 0.9)]
    assert at_length(tried, 1.0) is tried[1]


def test_an_output_of_the_length_stays_as_it_is() -> None:
    tried = [decoding(0.0, 0.9), decoding(-0.1, 1.0), decoding(-0.2, 1.1)]
    assert at_length(tried, 1.0) is tried[1]
    assert at_length(tried[1:2], 1.0) is tried[1]
