"""What every architecture must do, also one that the package does not have."""

from __future__ import annotations

import gzip
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from numpy.typing import NDArray
from safetensors.torch import load_file

from moses_bridge.base.config import from_mapping
from moses_bridge.base.errors import ConfigError, InputError
from rescorer.cli import main
from rescorer.contract.architectures import ARCHITECTURES, load
from rescorer.contract.batch import Batch
from rescorer.contract.choices import Device
from rescorer.contract.compute import Compute
from rescorer.contract.scorer import Scorer, WordScorer
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.training import Data
from rescorer.layers.units import GatedState
from rescorer.models.model_directory import load_model, save_model, scorer_of_model
from rescorer.models.reading import turned
from rescorer.runs.train import train
from rescorer.tables.column import ColumnConfig
from rescorer.tables.nbest import add_feature
from rescorer.tables.scored_table import Run, add_columns
from rescorer.training import loop as loop_module
from rescorer.training.loop import TrainingReport
from rescorer.tries.tiles import Tiles, can_be_tiled
from rescorer.views.perplexity import load_text_model
from tests.rescorer.plain_networks import log_probs

ADDED = {"lstm": "lstm_pairs", "linked": "linked_windows"}
NAMES = [*ARCHITECTURES, *ADDED]
# A bag has no words one after another, and its value is no log-probability.
BAG_NAMES = {"bae", "cptm", "word_pairs"}
WORD_NAMES = [name for name in NAMES if name not in BAG_NAMES]
# A contrast learns nothing here, where each source has each target; its own tests have other pairs.
LEARNING_NAMES = [name for name in NAMES if name not in {"cptm", "word_pairs"}]
SOURCES = [b"a", b"a b", b"b c", b"c", b"c a b", b"d d", b"e"]
TARGETS = [b"x", b"y x", b"y", b"z z x", b"w", b"x y z w", b"unheard x"]
PAIRS = [(source, target) for source in SOURCES for target in TARGETS]
LOOP = {"n_epochs": 3, "evaluations_per_epoch": 1}


@pytest.fixture(autouse=True)
def added_architectures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "added"))
    for name, module in ADDED.items():
        monkeypatch.setitem(ARCHITECTURES, name, module)


def links_of(source: bytes, target: bytes) -> bytes:
    """Word i of the target is linked to word i of the source, where there is one."""
    n_links = min(len(source.split()), len(target.split()))
    return b" ".join(b"%d-%d" % (i, i) for i in range(n_links))


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "table.gz"
    rows = [
        b"%s ||| %s ||| 0.5 0.25 0.125 0.0625 ||| %s ||| 4 3 2\n" % (s, t, links_of(s, t))
        for s, t in PAIRS
    ]
    path.write_bytes(gzip.compress(b"".join(rows)))
    return path


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    columns = {
        "source": [source for source, _ in PAIRS],
        "target": [target for _, target in PAIRS],
        "links": [links_of(*pair) for pair in PAIRS],
    }
    for name, lines in columns.items():
        (folder / name).write_bytes(b"".join(line + b"\n" for line in lines * 3))
    return folder


def data_of(name: str, table: Path, text: Path) -> Data:
    kinds = {
        "phrase pairs": Data(table),
        "text": Data(text / "target"),
        "parallel text": Data(text / "target", text / "source"),
        "linked text": Data(text / "target", text / "source", text / "links"),
    }
    return kinds[load(name).data]


def settings_of(name: str, **loop: Any) -> Any:
    mapping = {"n_held_out": 4, "shortlist": 4, "loop": {**LOOP, **loop}}
    return from_mapping(load(name).settings, mapping, "the test")


Trained = Callable[[str], Path]


@pytest.fixture(scope="session")
def trained_once(
    device: Device, table: Path, text: Path, tmp_path_factory: pytest.TempPathFactory
) -> Trained:
    """One training for each architecture: a directory that no test may change."""
    folder = tmp_path_factory.mktemp("trained")

    @cache
    def make(name: str) -> Path:
        train(name, data_of(name, table, text), folder / name, settings_of(name), device=device)
        if name == "word_pairs":
            draw_weights(folder / name)
        return folder / name

    return make


@pytest.fixture
def trained(tmp_path: Path, trained_once: Trained) -> Trained:
    """A copy of that directory, which the test may change."""
    return lambda name: shutil.copytree(trained_once(name), tmp_path / name, dirs_exist_ok=True)


Uninterrupted = Callable[[str], tuple[TrainingReport, Path]]


@pytest.fixture(scope="session")
def uninterrupted(
    device: Device, table: Path, text: Path, tmp_path_factory: pytest.TempPathFactory
) -> Uninterrupted:
    """One training for each architecture that keeps its state after each update, as interrupted ones do."""
    folder = tmp_path_factory.mktemp("uninterrupted")

    @cache
    def make(name: str) -> tuple[TrainingReport, Path]:
        data, out = data_of(name, table, text), folder / name
        settings = settings_of(name, checkpoint_minutes=0.0)
        return train(name, data, out, settings, device=device), out

    return make


def draw_weights(directory: Path) -> None:
    """Its weights begin with 0, and a contrast learns nothing here."""
    model = load_model(directory)
    with torch.no_grad():
        model.network.pair_weights.normal_(0, 0.3)
    training = model.description["training"]
    save_model(
        directory, "word_pairs", model.network, model.network.config, model.shortlists, training
    )


def batch_of(pairs: Sequence[tuple[bytes, bytes]] = PAIRS) -> Batch:
    return Batch([s for s, _ in pairs], [t for _, t in pairs], [links_of(*pair) for pair in pairs])


def plain_encdec(model: TrainedModel[Any], batch: Batch) -> NDArray[np.float64]:
    """Pair by pair through the plain network, which its tests compare with NumPy."""
    result = []
    for source, target in zip(batch.sources, batch.targets, strict=True):
        arrays = (
            *model.shortlists.source.encode_phrases([source]),
            *model.shortlists.target.encode_phrases([target]),
        )
        result.append(
            log_probs(model.network, *(torch.from_numpy(a).long() for a in arrays)).item()
        )
    return np.array(result)


def plain_rnnsearch(model: TrainedModel[Any], batch: Batch) -> NDArray[np.float64]:
    """Pair by pair and step by step, the attention written out; its network's tests have it in NumPy."""
    network, result = model.network, []
    for source, target in zip(batch.sources, batch.targets, strict=True):
        vectors = network.source_embedding(
            torch.tensor([*model.shortlists.source.encode_words(source.split()).tolist(), 0])
        )
        to_right = stepped(network.encoder.to_right, vectors)
        to_left = stepped(network.encoder.to_left, vectors.flip(0)).flip(0)
        annotations = torch.cat([to_right, to_left], dim=1)
        hidden = torch.tanh(network.decoder_start_layer(to_left[:1]))
        vector, total = torch.zeros(1, vectors.shape[1]), 0.0
        for word in [*model.shortlists.target.encode_words(target.split()).tolist(), 0]:
            attention = network.context
            layer = torch.tanh(attention.query(hidden) + attention.key(annotations))
            context = torch.softmax(layer @ attention.energy, 0) @ annotations
            pieces = network.hidden_to_readout(hidden) + network.word_to_readout(vector)
            pieces = pieces + network.context_to_readout(context)
            logits = network.output(pieces.view(-1, 2).amax(1))
            total += torch.log_softmax(logits, 0)[word].item()
            inputs = network.decoder.inputs(vector) + network.context_to_unit(context)
            unit = network.decoder
            hidden = unit.step(unit.carry(GatedState(hidden)), inputs).hidden
            vector = network.target_embedding(torch.tensor([word]))
        result.append(total)
    return np.array(result)


def stepped(unit: Any, vectors: torch.Tensor) -> torch.Tensor:
    """The states of a gated unit behind each vector."""
    states = [unit.start(1)]
    for vector in vectors:
        states.append(unit.step(unit.carry(states[-1]), unit.inputs(vector[None])))
    return torch.cat([state.hidden for state in states[1:]])


def plain_cslm(model: TrainedModel[Any], batch: Batch) -> NDArray[np.float64]:
    network, result = model.network, []
    for target in batch.targets:
        ids = [*model.shortlists.target.encode_words(target.split()).tolist(), 0]
        padded = [network.start_id] * network.config.context_words + ids
        rows = [padded[i : i + network.config.context_words] for i in range(len(ids))]
        result.append(log_probs(network, torch.tensor(rows), torch.tensor(ids)).sum().item())
    return np.array(result)


def plain_lstm(model: TrainedModel[Any], batch: Batch) -> NDArray[np.float64]:
    """With torch.nn.LSTM and the same weights."""
    network, result = model.network, []
    encoder, decoder = (as_torch_lstm(unit) for unit in (network.encoder, network.decoder))
    for source, target in zip(batch.sources, batch.targets, strict=True):
        source_ids = [*model.shortlists.source.encode_words(source.split()).tolist(), 0]
        target_ids = [*model.shortlists.target.encode_words(target.split()).tolist(), 0]
        _, state = encoder(network.source(torch.tensor(source_ids)))
        before = torch.tensor([len(model.shortlists.target), *target_ids[:-1]])
        hidden, _ = decoder(network.target(before), state)
        log_probs = torch.log_softmax(network.output(hidden), dim=1)
        result.append(log_probs[torch.arange(len(target_ids)), target_ids].sum().item())
    return np.array(result)


def as_torch_lstm(unit: Any) -> torch.nn.LSTM:
    lstm = torch.nn.LSTM(unit.input.in_features, unit.recurrent.in_features)
    weights = {
        "weight_ih_l0": unit.input.weight,
        "bias_ih_l0": unit.input.bias,
        "weight_hh_l0": unit.recurrent.weight,
        "bias_hh_l0": torch.zeros_like(unit.input.bias),
    }
    lstm.load_state_dict(weights)
    return lstm


def plain_linked(model: TrainedModel[Any], batch: Batch) -> NDArray[np.float64]:
    network, result = model.network, []
    for source, target in zip(batch.sources, batch.targets, strict=True):
        source_ids = model.shortlists.source.encode_words(source.split()).tolist()
        target_ids = [*model.shortlists.target.encode_words(target.split()).tolist(), 0]
        n_links = min(len(source_ids), len(target_ids) - 1)
        linked = [*source_ids[:n_links], *[0] * (len(target_ids) - n_links)]
        total = 0.0
        for before, other, word in zip([0, *target_ids], linked, target_ids, strict=False):
            window = torch.tensor([[before, len(model.shortlists.target) + other]])
            logits = network.output(network.hidden(window))
            total += torch.log_softmax(logits, dim=1)[0, word].item()
        result.append(total)
    return np.array(result)


def plain_nnjm(model: TrainedModel[Any], batch: Batch) -> NDArray[np.float64]:
    """Word by word; the links here are those of `links_of`, so affiliations are easy to say."""
    network, (sources, targets), result = model.network, model.shortlists, []
    for source, target in zip(batch.sources, batch.targets, strict=True):
        source_ids = sources.encode_words(source.split()).tolist()
        ids = [*targets.encode_words(target.split()).tolist(), 0]
        padded = [len(sources)] * 5 + source_ids + [0] * 6
        history = [len(targets)] * 3 + ids
        n_links = min(len(source_ids), len(ids) - 1)
        total = 0.0
        for i, word in enumerate(ids):
            place = len(source_ids) if i == len(ids) - 1 else min(i, n_links - 1)
            around = [len(targets) + 1 + word for word in padded[place : place + 11]]
            window = torch.tensor([[*history[i : i + 3], *around]])
            total += log_probs(network, window, torch.tensor([word])).item()
        result.append(total)
    return np.array(result)


def plain_seq2seq(model: TrainedModel[Any], batch: Batch) -> NDArray[np.float64]:
    """With torch.nn.LSTM of several layers and the same weights; the source is read from its end."""
    network, result = model.network, []
    encoder, decoder = (as_deep_lstm(stack) for stack in (network.encoder, network.decoder))
    for source, target in zip(batch.sources, batch.targets, strict=True):
        source_ids = model.shortlists.source.encode_words(source.split()[::-1]).tolist()
        target_ids = [*model.shortlists.target.encode_words(target.split()).tolist(), 0]
        _, state = encoder(network.source_embedding(torch.tensor([*source_ids, 0])))
        vectors = network.target_embedding(torch.tensor(target_ids))
        before = torch.cat([torch.zeros_like(vectors[:1]), vectors[:-1]])
        log_probs = torch.log_softmax(network.output(decoder(before, state)[0]), dim=1)
        result.append(log_probs[torch.arange(len(target_ids)), target_ids].sum().item())
    return np.array(result)


def as_deep_lstm(stack: Any) -> torch.nn.LSTM:
    units = stack.units
    lstm = torch.nn.LSTM(units[0].input.in_features, stack.hidden_width, len(units))
    weights = {}
    for number, unit in enumerate(units):
        weights[f"weight_ih_l{number}"] = unit.input.weight
        weights[f"bias_ih_l{number}"] = unit.input.bias
        weights[f"weight_hh_l{number}"] = unit.recurrent.weight
        weights[f"bias_hh_l{number}"] = torch.zeros_like(unit.input.bias)
    lstm.load_state_dict(weights)
    return lstm


def plain_cstm(model: TrainedModel[Any], batch: Batch) -> NDArray[np.float64]:
    """Pair by pair through the plain network, which its tests compare with NumPy."""
    network, result = model.network, []
    for source, target in zip(batch.sources, batch.targets, strict=True):
        words = model.shortlists.source.encode_words(source.split()).tolist()
        window = [*words, *[network.empty_id] * (network.config.phrase_words - len(words))]
        targets, lens = model.shortlists.target.encode_phrases([target])
        arrays = torch.from_numpy(targets).long(), torch.from_numpy(lens)
        result.append(log_probs(network, torch.tensor([window]), *arrays).item())
    return np.array(result)


def plain_bae(model: TrainedModel[Any], batch: Batch) -> NDArray[np.float64]:
    """The cosine of two sums of word vectors behind a tanh."""
    network, result = model.network, []
    for source, target in zip(batch.sources, batch.targets, strict=True):
        codes = []
        for words, vectors, phrase in (
            (model.shortlists.source, network.source_vectors, source),
            (model.shortlists.target, network.target_vectors, target),
        ):
            ids = sorted(set(words.encode_words(phrase.split()).tolist()))
            codes.append(torch.tanh(network.code_bias + vectors(torch.tensor(ids)).sum(0)))
        result.append(torch.dot(*(code / code.norm() for code in codes)).item())
    return np.array(result)


def plain_cptm(model: TrainedModel[Any], batch: Batch) -> NDArray[np.float64]:
    """Counts of words over one vocabulary, two matrices, two tanh."""
    network, (sources, targets), result = model.network, model.shortlists, []
    rows = {word: row for row, word in enumerate(dict.fromkeys([*sources.words, *targets.words]))}
    for pair in zip(batch.sources, batch.targets, strict=True):
        codes = []
        for words, phrase in zip((sources, targets), pair, strict=True):
            counts = torch.zeros(len(rows))
            for word in phrase.split():
                counts[rows[word if word in words.words else b"<unk>"]] += 1
            hidden = torch.tanh(counts @ network.word_vectors.weight)
            codes.append(torch.tanh(network.projection.weight @ hidden))
        result.append(torch.dot(*codes).item())
    return np.array(result)


def plain_word_pairs(model: TrainedModel[Any], batch: Batch) -> NDArray[np.float64]:
    """The weights of all pairs of words, one after another; its network's tests have the places."""
    network, (sources, targets), result = model.network, model.shortlists, []
    for source, target in zip(batch.sources, batch.targets, strict=True):
        ids = [
            words.encode_words(text.split())
            for words, text in ((sources, source), (targets, target))
        ]
        pairs = [(one, other) for one in ids[0] for other in ids[1]]
        weights = [network.weights_of(*map(np.array, ([s], [t]))).item() for s, t in pairs]
        result.append(math.fsum(weights))
    return np.array(result)


def plain_rnn_lm(model: TrainedModel[Any], batch: Batch) -> NDArray[np.float64]:
    """Sentence by sentence through the plain network, which its tests compare with NumPy."""
    result = []
    for target in batch.targets:
        arrays = model.shortlists.target.encode_phrases([target])
        result.append(
            log_probs(model.network, *(torch.from_numpy(a).long() for a in arrays)).item()
        )
    return np.array(result)


PLAIN = {
    "encdec": plain_encdec,
    "cslm": plain_cslm,
    "nnjm": plain_nnjm,
    "rnn_lm": plain_rnn_lm,
    "rnnsearch": plain_rnnsearch,
    "seq2seq": plain_seq2seq,
    "cstm": plain_cstm,
    "bae": plain_bae,
    "cptm": plain_cptm,
    "word_pairs": plain_word_pairs,
    "lstm": plain_lstm,
    "linked": plain_linked,
}


def test_all_architectures_are_here() -> None:
    assert set(PLAIN) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_training_further_begins_with_the_weights(
    name: str, device: Device, table: Path, text: Path, trained_once: Trained, tmp_path: Path
) -> None:
    """A rate of 0 leaves them, and the shortlists of the data would be shorter ones."""
    first = trained_once(name)
    settings = replace(settings_of(name, learning_rate=0.0, n_epochs=1), shortlist=2)
    data, out = data_of(name, table, text), tmp_path / "further"
    train(name, data, out, settings, device=device, start=first)
    weights, further = (
        load_file(folder / "model.safetensors") for folder in (first, tmp_path / "further")
    )
    assert all(torch.equal(further[key], weights[key]) for key in weights)


@pytest.mark.parametrize("name", NAMES)
def test_the_engine_gives_what_the_plain_path_gives(
    name: str, device: Device, trained: Trained
) -> None:
    directory = trained(name)
    with torch.no_grad():
        expected = PLAIN[name](load_model(directory), batch_of())
    found = scorer_of_model(directory, Compute(device=device)).scorer.values(batch_of())
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert found.std() > 0.1


@pytest.mark.parametrize("name", WORD_NAMES)
def test_words_add_up_to_their_pairs(name: str, device: Device, trained: Trained) -> None:
    scorer = scorer_of_model(trained(name), Compute(device=device)).scorer
    assert isinstance(scorer, WordScorer)
    log_probs, pairs = scorer.word_log_probs(batch_of())
    n_words = [len(target.split()) + 1 for _, target in PAIRS]
    assert pairs.tolist() == [i for i, n in enumerate(n_words) for _ in range(n)]
    np.testing.assert_allclose(np.bincount(pairs, log_probs), scorer.values(batch_of()), atol=1e-9)
    assert scorer.word_log_probs(Batch([], [], [])).log_probs.shape == (0,)
    beginning = Batch([b"a"], [b"y"], [b"0-0"])
    longer = Batch([b"a"], [b"y x"], [b"0-0"])
    one, other = (scorer.word_log_probs(batch).log_probs for batch in (beginning, longer))
    assert other[0] == pytest.approx(one[0], abs=1e-5) and other[1] != pytest.approx(one[1])


@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_is_near(name: str, device: Device, trained: Trained) -> None:
    exact, near = (
        scorer_of_model(trained(name), Compute(precision, device)).scorer.values(batch_of())
        for precision in ("float32", "bfloat16")
    )
    np.testing.assert_allclose(near, exact, atol=0.1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("block_rows", "jobs"), [(1, 1), (9, 2), (1000, 3)])
def test_a_table_does_not_depend_on_its_blocks(
    name: str,
    block_rows: int,
    jobs: int,
    device: Device,
    trained: Trained,
    table: Path,
    tmp_path: Path,
) -> None:
    named = scorer_of_model(trained(name), Compute(device=device))
    config = ColumnConfig(("sum", "unknown-words"), block_rows=block_rows, jobs=jobs)
    out = tmp_path / "new.gz"
    report = add_columns(Run.prepare(str(table), str(out), [named], config))
    assert report.counts.n_rows == len(PAIRS)
    rows = [
        line.split(b" ||| ")[2].split() for line in gzip.decompress(out.read_bytes()).splitlines()
    ]
    expected = named.scorer.values(batch_of())
    np.testing.assert_allclose([math.log(float(row[4])) for row in rows], expected, atol=1e-5)
    assert named.scorer.shortlist is not None
    unknown = named.scorer.shortlist.n_unknown([target for _, target in PAIRS])
    np.testing.assert_allclose([math.log(float(row[5])) for row in rows], unknown, atol=1e-6)
    assert unknown.max() > 0


@pytest.mark.parametrize("name", NAMES)
def test_what_is_saved_is_loaded(name: str, trained: Trained, tmp_path: Path) -> None:
    model = load_model(trained(name))
    sizes = load(name).settings().model
    save_model(tmp_path / "again", name, model.network, sizes, model.shortlists, {})
    values = [
        scorer_of_model(directory, Compute()).scorer.values(batch_of())
        for directory in (tmp_path / name, tmp_path / "again")
    ]
    np.testing.assert_array_equal(*values)


class Stopped(Exception):
    pass


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_updates", [1, 2])
def test_an_interrupted_training_ends_as_an_uninterrupted_one(
    name: str,
    n_updates: int,
    device: Device,
    uninterrupted: Uninterrupted,
    table: Path,
    text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data, settings = data_of(name, table, text), settings_of(name, checkpoint_minutes=0.0)
    whole, directory = uninterrupted(name)
    update, done = loop_module.Trainer._update, []

    def stopping(self: Any, batch: Any) -> float:
        if len(done) == n_updates:
            raise Stopped
        done.append(batch)
        return update(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(loop_module.Trainer, "_update", stopping)
        with pytest.raises(Stopped):
            train(name, data, tmp_path / "part", settings, device=device)
    continued = train(name, data, tmp_path / "part", settings, resume=True, device=device)
    assert replace(continued, minutes=0) == replace(whole, minutes=0)
    assert whole.n_updates > n_updates
    paths = directory, tmp_path / "part"
    one, other = (load_file(path / "model.safetensors") for path in paths)
    for key, tensor in one.items():
        torch.testing.assert_close(other[key], tensor, rtol=0, atol=0)


@pytest.mark.parametrize("name", LEARNING_NAMES)
def test_training_lowers_the_held_out_loss(
    name: str, device: Device, table: Path, text: Path, tmp_path: Path
) -> None:
    data = data_of(name, table, text)
    settings = settings_of(name, n_epochs=80, learning_rate=4e-3, warmup_updates=10)
    architecture = load(name)
    torch.manual_seed(1)
    with torch.no_grad():
        before = architecture.prepare(data, settings, 1).task.held_out_loss()
    report = train(name, data, tmp_path / "m", settings, device=device)
    assert before is not None and report.held_out_loss is not None
    assert report.held_out_loss < before - 0.1
    assert report.ended


@pytest.mark.parametrize("name", NAMES)
def test_an_nbest_list_gets_a_feature(
    name: str, device: Device, trained: Trained, text: Path, tmp_path: Path
) -> None:
    scorer = scorer_of_model(trained(name), Compute(device=device)).scorer
    nbest, out = tmp_path / "nbest", tmp_path / "new"
    nbest.write_bytes(
        b"".join(
            b"%d ||| %s  ||| LM0= -1 ||| -1 ||| %s\n" % (i, target, links_of(source, target))
            for i, (source, target) in enumerate(PAIRS)
        )
    )
    assert add_feature(str(nbest), text / "source", scorer, "New0", str(out), jobs=2) == len(PAIRS)
    lines = out.read_bytes().splitlines()
    found = [float(line.split(b"New0= ")[1].split()[0]) for line in lines]
    np.testing.assert_allclose(found, scorer.values(batch_of()), atol=2e-6)


@pytest.mark.parametrize("name", NAMES)
def test_the_command_trains_and_scores(name: str, table: Path, text: Path, tmp_path: Path) -> None:
    data = data_of(name, table, text)
    config = tmp_path / "config.toml"
    config.write_text("shortlist = 4\nn_held_out = 4\n")
    options = ["--arch", name, "--out", tmp_path / "m", "--config", config, "--epochs", 1]
    options += ["--source", data.source] if data.source else []
    options += ["--links", data.links] if data.links else []
    run = CliRunner().invoke(main, [str(word) for word in ("train", data.path, *options)])
    assert run.exit_code == 0, run.output
    command = ["score", table, "--model", tmp_path / "m", "--out", tmp_path / "o.gz"]
    run = CliRunner().invoke(
        main, [str(word) for word in (*command, "--columns", "sum,unknown-words")]
    )
    assert run.exit_code == 0, run.output
    assert len(gzip.decompress((tmp_path / "o.gz").read_bytes()).splitlines()) == len(PAIRS)


@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_that_is_not_there_is_refused(
    name: str, trained: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="no CUDA device here"):
        scorer_of_model(trained(name), Compute(device="cuda"))


@pytest.mark.parametrize("name", NAMES)
def test_denominators_cannot_be_left_out_of_every_model(name: str, trained: Trained) -> None:
    with pytest.raises(ConfigError, match="trained without self_normalisation"):
        scorer_of_model(trained(name), Compute(unnormalized=True))


@pytest.mark.parametrize("name", NAMES)
def test_a_vocabulary_of_another_model_is_refused(name: str, trained: Trained) -> None:
    directory = trained(name)
    path = directory / "target.vocab"
    words = path.read_bytes().splitlines()
    words[2], words[3] = words[3], words[2]
    path.write_bytes(b"\n".join(words) + b"\n")
    with pytest.raises(InputError, match="other words than the network was trained with"):
        load_model(directory)


@pytest.mark.parametrize(("name", "data", "message"), [
    ("linked", Data("target"), "linked is trained on linked text: name --source too"),
    ("linked", Data("target", "source"), "name --links too"),
    ("rnnsearch", Data("target"), "rnnsearch is trained on parallel text: name --source too"),
    ("cslm", Data("target", "source"), "cslm is trained on text: leave --source out"),
    ("encdec", Data("table", None, "links"), "leave --links out"),
])  # fmt: skip
def test_other_data_are_refused(name: str, data: Data, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        train(name, data, tmp_path / "m", settings_of(name))
    assert not (tmp_path / "m").exists()


def test_links_that_are_needed_and_missing_are_told(
    trained: Trained, text: Path, tmp_path: Path
) -> None:
    named = scorer_of_model(trained("linked"), Compute())
    bare = tmp_path / "bare"
    bare.write_bytes(b"a ||| x ||| 0.5\n")
    with pytest.raises(InputError, match=r"no word links, expected an alignment column"):
        add_columns(Run.prepare(str(bare), str(tmp_path / "o"), [named], ColumnConfig()))
    nbest = tmp_path / "nbest"
    nbest.write_bytes(b"0 ||| x  ||| LM0= -1 ||| -1\n")
    with pytest.raises(InputError, match=r"nbest:1: found no word links"):
        add_feature(str(nbest), text / "source", named.scorer, "New0", str(tmp_path / "n"))


PAIR_NAMES = ["encdec", "cstm", "lstm"]


def test_phrase_models_are_all_here() -> None:
    of_pairs = {name for name in NAMES if load(name).data == "phrase pairs"}
    assert of_pairs == {*PAIR_NAMES, *BAG_NAMES}


@pytest.mark.parametrize("name", PAIR_NAMES)
def test_reversed_sides_are_those_of_a_swapped_table(
    name: str, table: Path, tmp_path: Path
) -> None:
    """The same weights, and the score of a row is the one that the swapped row has."""
    swapped = tmp_path / "swapped"
    by_target = sorted(PAIRS, key=lambda pair: TARGETS.index(pair[1]))
    swapped.write_bytes(b"".join(b"%s ||| %s ||| 1 1 1 1\n" % (t, s) for s, t in by_target))
    mapping = {"n_held_out": 4, "shortlist": 4, "loop": LOOP}
    configs = [
        from_mapping(load(name).settings, {**mapping, "reading": reading}, "the test")
        for reading in ("reversed-sides", "as-is")
    ]
    train(name, Data(table), tmp_path / "reversed", configs[0])
    train(name, Data(swapped), tmp_path / "forward", configs[1])
    one, other = (scorer_of_model(tmp_path / d, Compute()) for d in ("reversed", "forward"))
    assert one.name == f"{tmp_path / 'reversed'} (p(source | target))"
    expected = other.scorer.values(Batch([t for _, t in PAIRS], [s for s, _ in PAIRS]))
    np.testing.assert_allclose(one.scorer.values(batch_of()), expected, atol=1e-6)
    assert expected.std() > 0.1
    with pytest.raises(InputError, match="a model with reversed sides, which predicts the source"):
        load_text_model(tmp_path / "reversed", Compute())
    assert one.scorer.shortlist is not None and set(one.scorer.shortlist.words[2:]) <= {
        word for target in TARGETS for word in target.split()
    }


@pytest.mark.parametrize("name", PAIR_NAMES)
def test_the_command_trains_reversed_sides(name: str, table: Path, tmp_path: Path) -> None:
    command = ["train", table, "--arch", name, "--out", tmp_path / "m", "--epochs", 1]
    command += ["--reading", "reversed-sides"]
    run = CliRunner().invoke(main, [str(word) for word in command])
    assert run.exit_code == 0, run.output
    assert load_model(tmp_path / "m").reverses_sides
    assert not TrainedModel(name, None, load_model(tmp_path / "m").shortlists, {}).reverses_sides


@pytest.mark.parametrize(
    "name", [name for name in ARCHITECTURES if load(name).data == "parallel text"]
)
@pytest.mark.parametrize(
    "reading", ["reversed-sides", "right-to-left", "reversed-sides-right-to-left"]
)
def test_sentence_models_of_swapped_sides_and_turned_words(
    name: str, reading: str, text: Path, tmp_path: Path
) -> None:
    """The same weights as from text that was swapped and turned before, and the values of its pairs."""

    def other_way(batch: Batch) -> Batch:
        swapped = batch.sides_swapped() if "reversed-sides" in reading else batch
        turn = turned if "right-to-left" in reading else list
        return Batch(swapped.sources, turn(swapped.targets))

    settings = tmp_path / "settings.toml"
    settings.write_text(
        "n_held_out = 4\nshortlist = 4\n[loop]\nn_epochs = 3\nevaluations_per_epoch = 1\n"
    )

    def made(directory: str, given: Batch, *options: str) -> Scorer:
        for side, lines in (("s", given.sources), ("t", given.targets)):
            (tmp_path / side).write_bytes(b"".join(line + b"\n" for line in lines))
        files = ["--source", tmp_path / "s", "--config", settings, "--out", tmp_path / directory]
        run = CliRunner().invoke(
            main, [*map(str, ["train", tmp_path / "t", "--arch", name, *files]), *options]
        )
        assert run.exit_code == 0, run.output
        return scorer_of_model(tmp_path / directory, Compute(device="cpu")).scorer

    pairs = Batch(*([pair[side] for pair in PAIRS * 3] for side in (0, 1)))
    found = made("other", pairs, "--reading", reading).values(pairs)
    expected = made("plain", other_way(pairs)).values(other_way(pairs))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert expected.std() > 0.1


def test_a_language_model_from_right_to_left(text: Path, tmp_path: Path) -> None:
    targets = [target for _, target in PAIRS * 3]
    (tmp_path / "turned").write_bytes(b"".join(line + b"\n" for line in turned(targets)))
    mapping = {"n_held_out": 4, "shortlist": 4, "loop": LOOP}
    ours = from_mapping(
        load("rnn_lm").settings, {**mapping, "reading": "right-to-left"}, "the test"
    )
    plain = from_mapping(load("rnn_lm").settings, mapping, "the test")
    train("rnn_lm", Data(text / "target"), tmp_path / "ours", ours)
    train("rnn_lm", Data(tmp_path / "turned"), tmp_path / "plain", plain)
    one, other = (scorer_of_model(tmp_path / d, Compute()).scorer for d in ("ours", "plain"))
    nothing = [b""] * len(targets)
    expected = other.values(Batch(nothing, turned(targets)))
    np.testing.assert_allclose(one.values(Batch(nothing, targets)), expected, atol=1e-6)


def test_sides_of_other_data_are_not_reversed(table: Path, text: Path, tmp_path: Path) -> None:
    command = ["train", text / "target", "--arch", "cslm", "--out", tmp_path / "m"]
    command += ["--reading", "reversed-sides"]
    run = CliRunner().invoke(main, [str(word) for word in command])
    assert run.exit_code == 1 and "unknown key 'reading'" in run.output
    assert not (tmp_path / "m").exists()


def test_an_unknown_architecture_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="no architecture 'encdek'; did you mean 'encdec'"):
        load("encdek")


@pytest.mark.parametrize("name", NAMES)
def test_vectors_of_words_and_phrases_are_those_of_each(
    name: str, device: Device, trained: Trained
) -> None:
    """A vector for each word of a shortlist; that of a phrase does not depend on the others."""
    model, architecture = load_model(trained(name)), load(name)
    embeddings = architecture.embeddings(model) if architecture.embeddings else {}
    for side, vectors in embeddings.items():
        shortlist = getattr(model.shortlists, side)
        assert len(vectors) == len(shortlist) and vectors.dtype == np.float32
    if architecture.summaries:
        summaries = architecture.summaries(model, Compute(device=device))
        alone = np.concatenate([summaries([source]) for source in SOURCES])
        np.testing.assert_allclose(summaries(SOURCES[::-1])[::-1], alone, atol=1e-6)


@pytest.mark.parametrize("name", ["encdec", "rnn_lm", "seq2seq", "lstm"])
def test_tiles_give_the_scores_of_whole_levels(name: str, trained: Trained) -> None:
    """Of all networks over tries without an attention."""
    scorer: Any = scorer_of_model(trained(name), Compute(device="cpu")).scorer
    expected = scorer.values(batch_of())
    assert can_be_tiled(scorer.network)
    scorer.tiles = Tiles(scorer.network, scorer.layer, (8, 32, 64))
    np.testing.assert_allclose(scorer.values(batch_of()), expected, atol=2e-5)
