from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import rescorer.runs.agreement
from moses_bridge.base.errors import ConfigError, InputError
from rescorer.cli import main
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.contract.training import Data
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.models.model_directory import load_model, save_model, scorer_of_model
from rescorer.runs.agreement import agreement, sampled_rows, table_agreement
from rescorer.runs.train import train
from rescorer.scorers.cslm import Cslm, CslmConfig
from rescorer.scorers.encdec import EncDecConfig, EncDecTrainingConfig, EncoderDecoder
from rescorer.training.loop_config import LoopConfig
from tests.rescorer.plain_networks import encode

SOURCE, TARGET = Vocabulary([b"a", b"b"]), Vocabulary([b"x", b"y"])
PAIRS = Batch([b"a b", b"a b", b"b"], [b"x y", b"z", b""])
ON_CPU = Compute(device="cpu")
UNNORMALIZED = Compute(device="cpu", unnormalized=True)


def saved(path: Path, alpha: float) -> Path:
    torch.manual_seed(0)
    network = EncoderDecoder(EncDecConfig(8, 4, 4), len(SOURCE), len(TARGET))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    record = {"config": {"self_normalisation": alpha}}
    save_model(path, "encdec", network, network.config, Shortlists(SOURCE, TARGET), record)
    return path


def logits_along(
    network: EncoderDecoder, target: list[int], source_phrase: bytes = b"a b"
) -> list[np.ndarray]:
    """The logits before each word of the target, </s> included, by the network's own steps."""
    source_ids, lens = SOURCE.encode_phrases([source_phrase])
    encoded = encode(network, torch.from_numpy(source_ids).long(), torch.from_numpy(lens))
    source = network.decoder_start(encoded)
    state, row, result = network.start(source), torch.zeros(1, dtype=torch.long), []
    for word in [-1, *target]:
        inputs = network.inputs(torch.tensor([word]), source, row)
        state = network.step(network.carry(state), inputs, source)
        result.append(network.output(network.factors(state, inputs, source))[0].numpy())
    return result


def test_score_is_the_sum_of_the_logits(tmp_path: Path) -> None:
    model = load_model(saved(tmp_path / "m", 0.1))
    x, y = (int(i) for i in TARGET.encode_phrases([b"x y"])[0][0][:2])
    with torch.inference_mode():
        logits = logits_along(model.network, [x, y])
    expected = logits[0][x] + logits[1][y] + logits[2][Vocabulary.end_id]
    found = scorer_of_model(tmp_path / "m", UNNORMALIZED).scorer.values(PAIRS)
    assert found[0] == pytest.approx(expected, abs=1e-5)
    compared = agreement(model, Batch([b"a b", b"b"], [b"x y", b"x y"]), ON_CPU)
    with torch.inference_mode():
        other = logits_along(model.network, [x, y], b"b")
    log_totals = [
        [np.log(np.exp(row.astype(float)).sum()) for row in rows] for rows in (logits, other)
    ]
    assert compared.n_pairs == 2
    assert compared.mean_abs_log_total == pytest.approx(np.abs(log_totals).mean(), abs=1e-5)
    differences = [abs(sum(row)) for row in log_totals]
    assert compared.mean_difference == pytest.approx(np.mean(differences), abs=1e-5)


def test_training_draws_the_denominator_to_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [
        b"s%d ||| %b ||| 1" % (i % 40, b" ".join(b"t%d" % j for j in rng.integers(0, 30, 3)))
        for i in range(400)
    ]
    table = tmp_path / "table"
    table.write_bytes(b"\n".join(sorted(rows)) + b"\n")
    loop = LoopConfig(n_epochs=25)
    found = {}
    for alpha in (0.0, 0.1):
        config = EncDecTrainingConfig(
            self_normalisation=alpha, batch_pairs=50, loop=loop, model=EncDecConfig(16, 8, 8)
        )
        train("encdec", Data(table), tmp_path / str(alpha), config)
        model = load_model(tmp_path / str(alpha))
        assert model.training.is_self_normalised == (alpha > 0)
        found[alpha] = agreement(model, sampled_rows(str(table), 200, 1), ON_CPU)
    assert found[0.1].mean_abs_log_total < 1 < found[0.0].mean_abs_log_total
    assert found[0.1].rank_correlation > 0.9


@pytest.mark.parametrize("n_rows", [1, 10, 100])
def test_rows_are_drawn_once_each(tmp_path: Path, n_rows: int) -> None:
    table = tmp_path / "t.gz"
    table.write_bytes(gzip.compress(b"".join(b"s%d ||| t%d ||| 1\n" % (i, i) for i in range(50))))
    batch = sampled_rows(str(table), n_rows, 3)
    sources, targets = batch.sources, batch.targets
    assert len(set(sources)) == len(sources) == min(n_rows, 50)
    assert [source[1:] for source in sources] == [target[1:] for target in targets]


def test_command(tmp_path: Path) -> None:
    saved(tmp_path / "m", 0.1)
    table = tmp_path / "t"
    table.write_bytes(b"a b ||| x y ||| 0.5\na b ||| z ||| 0.5\n")
    arguments = ["score", str(table), "--model", str(tmp_path / "m"), "--out", f"{table}2"]
    result = CliRunner().invoke(main, [*arguments, "--unnormalized", "--jobs", "1"])
    assert result.exit_code == 0, result.output
    assert "2 pairs without the denominator" in result.stderr


def test_a_draw_is_from_all_blocks_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row with the same chance: of 40 draws of 10 in 50 rows the mean place is 24.5, +- 5 * 0.72."""
    table = tmp_path / "t"
    table.write_bytes(b"".join(b"s%02d ||| t%d ||| 1\n" % (i, i) for i in range(50)))
    whole = [sampled_rows(str(table), 10, seed).sources for seed in range(40)]
    monkeypatch.setattr(rescorer.runs.agreement, "BLOCK_ROWS", 4)
    batches = [sampled_rows(str(table), 10, seed) for seed in range(40)]
    assert [batch.sources for batch in batches] == whole
    places = [int(target[1:]) for batch in batches for target in batch.targets]
    assert np.mean(places) == pytest.approx(24.5, abs=3.6)
    sources = [source for batch in batches for source in batch.sources]
    assert [b"s%02d" % place for place in places] == sources


def saved_cslm(path: Path, alpha: float) -> Path:
    torch.manual_seed(1)
    network = Cslm(CslmConfig(2, 4, 4, 4), len(TARGET))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    record = {"config": {"self_normalisation": alpha}}
    save_model(path, "cslm", network, network.config, Shortlists(None, TARGET), record)
    return path


def test_models_that_are_not_self_normalised_are_refused(tmp_path: Path) -> None:
    for folder in (saved(tmp_path / "m", 0.0), saved_cslm(tmp_path / "cslm", 0.0)):
        with pytest.raises(ConfigError, match="trained without self_normalisation"):
            scorer_of_model(folder, UNNORMALIZED)


def test_any_architecture_with_a_softmax_can_be_compared(tmp_path: Path) -> None:
    """log Z of each distinct context of "x y" and "x": <s> <s>, <s> x, x y; by the plain network."""
    model = load_model(saved_cslm(tmp_path / "cslm", 0.1))
    compared = agreement(model, Batch([b"a", b"b"], [b"x y", b"x"]), ON_CPU)
    with torch.inference_mode():
        contexts = torch.tensor([[4, 4], [4, 2], [2, 3]])
        log_z = torch.logsumexp(model.network.output(model.network.hidden(contexts)), 1).numpy()
    assert compared.mean_abs_log_total == pytest.approx(np.abs(log_z).mean(), abs=1e-5)
    differences = [abs(log_z.sum()), abs(log_z[:2].sum())]
    assert compared.mean_difference == pytest.approx(np.mean(differences), abs=1e-5)


def test_links_are_drawn_with_their_rows(tmp_path: Path) -> None:
    table = tmp_path / "t"
    table.write_bytes(b"".join(b"s%d ||| t%d ||| 1 ||| %d-%d\n" % (i, i, i, i) for i in range(30)))
    batch = sampled_rows(str(table), 10, 3)
    assert batch.links is not None
    assert [b"s" + link.split(b"-")[0] for link in batch.links] == list(batch.sources)


def test_a_malformed_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"a ||| x\n")
    with pytest.raises(InputError, match="t:1: found 2 columns"):
        table_agreement(saved(tmp_path / "m", 0.1), str(tmp_path / "t"), 1, ON_CPU)


def test_a_reversed_model_is_compared_on_what_it_reads(tmp_path: Path) -> None:
    model = load_model(saved(tmp_path / "m", 0.1))
    description = {"training": {"config": {"self_normalisation": 0.1, "reading": "reversed-sides"}}}
    turned = replace(model, description=description)
    asked = Batch([b"x y", b"x"], [b"a b", b"b"])
    found = agreement(turned, asked, ON_CPU)
    assert found == agreement(model, asked.sides_swapped(), ON_CPU)
    assert found != agreement(model, asked, ON_CPU)
