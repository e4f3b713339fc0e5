from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from rescorer.model_scorer import unnormalized_scorer
from rescorer.scorers.encdec.agreement import agreement, sampled_rows

from moses_bridge.errors import ConfigError
from rescorer.cli import main
from rescorer.model_directory import load_model, save_model
from rescorer.scorers.cslm.network import Cslm, CslmConfig
from rescorer.scorers.encdec.network import EncDecConfig, EncoderDecoder
from rescorer.scorers.encdec.task import EncDecTrainingConfig, train_encdec
from rescorer.training.loop import LoopConfig
from rescorer.vocabulary import Vocabulary

SOURCE, TARGET = Vocabulary([b"a", b"b"]), Vocabulary([b"x", b"y"])
PAIRS = ([b"a b", b"a b", b"b"], [b"x y", b"z", b""])


def saved(path: Path, alpha: float) -> Path:
    torch.manual_seed(0)
    network = EncoderDecoder(EncDecConfig(8, 4, 4), len(SOURCE), len(TARGET))
    record = {"config": {"self_normalisation": alpha}}
    save_model(path, network, SOURCE, TARGET, record)
    return path


def logits_along(network: EncoderDecoder, target: list[int]) -> list[np.ndarray]:
    """The logits before each word of "a b" -> target, </s> included, by the network's own steps."""
    source_ids, lens = SOURCE.encode_phrases([b"a b"])
    encoded = network.encode(torch.from_numpy(source_ids).long(), torch.from_numpy(lens))
    context = network.decoder_start(encoded)
    hidden, row, result = context.hidden, torch.zeros(1, dtype=torch.long), []
    for word in [-1, *target]:
        inputs = network.target_inputs(torch.tensor([word]), context, row)
        hidden = network.decoder.step(hidden, inputs.unit)
        readout = network.readout(hidden, inputs.readout)
        result.append((readout @ network.output_weight.T + network.output_bias)[0].numpy())
    return result


def test_score_is_the_sum_of_the_logits(tmp_path: Path) -> None:
    model = load_model(saved(tmp_path / "m", 0.1))
    network, _ = model.encoder_decoder()
    x, y = (int(i) for i in TARGET.encode_phrases([b"x y"])[0][0][:2])
    with torch.inference_mode():
        logits = logits_along(network, [x, y])
    expected = logits[0][x] + logits[1][y] + logits[2][Vocabulary.end_id]
    found = unnormalized_scorer(tmp_path / "m").scorer.log_probs(*PAIRS)
    assert found[0] == pytest.approx(expected, abs=1e-5)
    compared = agreement(model, [b"a b"], [b"x y"])
    log_totals = [np.log(np.exp(row.astype(float)).sum()) for row in logits]
    assert compared.mean_abs_log_total == pytest.approx(np.abs(log_totals).mean(), abs=1e-5)
    assert compared.mean_difference == pytest.approx(abs(sum(log_totals)), abs=1e-5)


def test_training_draws_the_denominator_to_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [
        b"s%d ||| %b ||| 1" % (i % 40, b" ".join(b"t%d" % j for j in rng.integers(0, 30, 3)))
        for i in range(400)
    ]
    table = tmp_path / "table"
    table.write_bytes(b"\n".join(sorted(rows)) + b"\n")
    loop = LoopConfig(n_epochs=25, max_minutes=0)
    found = {}
    for alpha in (0.0, 0.1):
        config = EncDecTrainingConfig(
            self_normalisation=alpha, batch_pairs=50, loop=loop, model=EncDecConfig(16, 8, 8)
        )
        train_encdec(table, tmp_path / str(alpha), config)
        model = load_model(tmp_path / str(alpha))
        assert model.is_self_normalised == (alpha > 0)
        found[alpha] = agreement(model, *sampled_rows(str(table), 200, 1))
    assert found[0.1].mean_abs_log_total < 1 < found[0.0].mean_abs_log_total
    assert found[0.1].rank_correlation > 0.9


@pytest.mark.parametrize("n_rows", [1, 10, 100])
def test_rows_are_drawn_once_each(tmp_path: Path, n_rows: int) -> None:
    table = tmp_path / "t.gz"
    table.write_bytes(gzip.compress(b"".join(b"s%d ||| t%d ||| 1\n" % (i, i) for i in range(50))))
    sources, targets = sampled_rows(str(table), n_rows, 3)
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


def test_models_that_are_not_self_normalised_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="self_normalisation"):
        unnormalized_scorer(saved(tmp_path / "m", 0.0))
    save_model(tmp_path / "cslm", Cslm(CslmConfig(2, 4, 4, 4), len(TARGET)), None, TARGET, {})
    with pytest.raises(ConfigError, match="encoder-decoder"):
        unnormalized_scorer(tmp_path / "cslm")
