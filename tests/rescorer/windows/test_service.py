"""CSLM and NNJM behind the protocol of the search, against whole sentences and plain sums."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from scipy.special import log_softmax

from moses_bridge.base.errors import UserError
from moses_bridge.formats.ngram_scorer import NgramScorer
from rescorer.cli import main
from rescorer.contract.batch import Batch
from rescorer.contract.choices import Precision
from rescorer.contract.compute import Compute
from rescorer.contract.trained_model import TrainedModel
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.layers import output_layer
from rescorer.layers.output_layer import ExactOutputLayer
from rescorer.models.model_directory import save_model
from rescorer.scorers.cslm import Cslm, CslmConfig, cslm_ngram_scorer, cslm_scorer
from rescorer.scorers.encdec import EncDecConfig, EncoderDecoder
from rescorer.scorers.nnjm import (
    Nnjm,
    NnjmConfig,
    NnjmTrainingConfig,
    empty_network,
    nnjm_ngram_scorer,
    nnjm_scorer,
)
from rescorer.windows import service
from rescorer.windows.feed_forward import FeedForward, LayerWidths
from rescorer.windows.hidden_layers import HiddenLayers, History, bases_of
from rescorer.windows.ngrams import sentence_ngrams
from rescorer.windows.service import NormalisedValues, RawValues, Values, WindowNgramScorer

WORDS = [b"w%d" % i for i in range(40)]
SIZES = CslmConfig(context_words=2, embedding_width=6, first_width=12, second_width=8)


@pytest.fixture
def model() -> Cslm:
    torch.manual_seed(2)
    network = Cslm(SIZES, len(WORDS) + 2)
    for parameter in (network.output.weight, network.output.bias):
        torch.nn.init.normal_(parameter)
    return network


def trained(network: Cslm) -> TrainedModel[Cslm]:
    return TrainedModel("cslm", network.eval(), Shortlists(None, Vocabulary(WORDS)), {})


def ngram_scorer(network: Cslm) -> WindowNgramScorer:
    return cslm_ngram_scorer(trained(network), Compute(device="cpu"))


def ngrams_of(vocabulary: Vocabulary, sentences: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    ids, lens = vocabulary.encode_text(sentences)
    return sentence_ngrams(ids, lens, SIZES.context_words, len(WORDS) + 2, vocabulary.end_id)


def test_values_add_up_to_those_of_sentences(model: Cslm) -> None:
    vocabulary = Vocabulary(WORDS)
    sentences = [b"w1 w2 w3", b"", b"what w39 </s> w0 w0"]
    ngrams, sentence_of = ngrams_of(vocabulary, sentences)
    scorer = ngram_scorer(model)
    assert (scorer.order, scorer.start_id, scorer.end_id) == (3, 42, 0)
    sums = np.bincount(sentence_of, weights=scorer.log_probs(ngrams))
    whole = cslm_scorer(trained(model), Compute(device="cpu"))
    expected = whole.values(Batch([b""] * len(sentences), sentences))
    assert sums == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(scorer.estimates(ngrams), scorer.log_probs(ngrams), atol=1e-6)
    assert scorer.encode([b"w0", b"what", b"</s>", b"w39"]).tolist() == [2, 1, 1, 41]


def test_estimates_count_every_third_rare_word_for_all_of_them(
    model: Cslm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_layer, "N_FREQUENT", 12)
    monkeypatch.setattr(output_layer, "STEP", 3)
    ngrams, _ = ngrams_of(Vocabulary(WORDS), [b"w1 w2 w30 w4 w5"])
    scorer = ngram_scorer(model)
    with torch.inference_mode():
        contexts = torch.from_numpy(ngrams[:, :-1].copy()).long()
        logits = model.output(model.hidden(contexts)).double().numpy()
    terms = np.exp(logits)
    denominators = terms[:, :12].sum(axis=1) + 3 * terms[:, 12::3].sum(axis=1)
    expected = logits[np.arange(len(ngrams)), ngrams[:, -1]] - np.log(denominators)
    np.testing.assert_allclose(scorer.estimates(ngrams), expected, atol=1e-5)
    np.testing.assert_allclose(scorer.estimates(ngrams), scorer.log_probs(ngrams), atol=2)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_command_answers_on_standard_output(
    model: Cslm, tmp_path: Path, precision: str
) -> None:
    vocabulary = Vocabulary(WORDS)
    save_model(tmp_path / "cslm", "cslm", model, SIZES, Shortlists(None, vocabulary), {})
    ngrams, _ = ngrams_of(vocabulary, [b"w1 w2"])
    request = b"N" + struct.pack("<I", ngrams.nbytes) + ngrams.astype("<i4").tobytes()
    arguments = ["serve", str(tmp_path / "cslm"), "--precision", precision]
    result = CliRunner().invoke(main, arguments, input=request)
    greeting, _, answer = result.stdout_bytes.partition(b"\n")
    assert (result.exit_code, greeting) == (0, b"ngram-scorer 2 3 42 0 43 0")
    expected = ngram_scorer(model).log_probs(ngrams)
    error = 1e-6 if precision == "float32" else 0.05
    np.testing.assert_allclose(np.frombuffer(answer, "<f4"), expected, atol=error)


def test_a_previous_word_that_is_open_is_the_mean_by_zipf(model: Cslm) -> None:
    """Ranks: w0 first, <unk> behind the last word; neither </s> nor <s>."""
    scorer = ngram_scorer(model)
    assert scorer.open_id == len(WORDS) + 3
    p = {name: value.detach().double().numpy() for name, value in model.named_parameters()}
    ranks = np.array([*range(1, 41), 41])
    of_ranks = p["embedding.weight"][[*range(2, 42), 1]]
    mean = (of_ranks / ranks[:, None]).sum(axis=0) / (1 / ranks).sum()
    x = np.concatenate([mean, p["embedding.weight"][5]])
    first = np.maximum(0, p["first.weight"] @ x + p["first.bias"])
    second = np.maximum(0, p["second.weight"] @ first + p["second.bias"])
    expected = log_softmax(p["output.weight"] @ second + p["output.bias"])[:42]
    ngrams = np.array([[scorer.open_id, 5, word] for word in range(42)], np.int32)
    np.testing.assert_allclose(scorer.log_probs(ngrams), expected, atol=1e-5)


SOURCES = [b"a b c", b"", b"c z"]
TARGETS = [b"w1 w2 w3 w4", b"w5", b"what w39"]
LINKS = [b"0-0 2-2 1-2", b"", b"1-0"]
SOURCE_WORDS = [b"a", b"b", b"c"]
NNJM_SIZES = NnjmConfig(2, 3, 6, 12, 8)
SELF_NORMALISED = {
    "training": {
        "config": {"self_normalisation": 0.1},
        "report": {"log_z_mean": 0.125, "log_z_sd": 0.5},
    }
}


def nnjm(second_width: int = 8, **description: Any) -> TrainedModel[Nnjm]:
    torch.manual_seed(3)
    shortlists = Shortlists(Vocabulary(SOURCE_WORDS), Vocabulary(WORDS))
    sizes = replace(NNJM_SIZES, second_width=second_width)
    network = empty_network(NnjmTrainingConfig(model=sizes), shortlists)
    for parameter in (network.output.weight, network.output.bias):
        torch.nn.init.normal_(parameter)
    return TrainedModel("nnjm", network.eval(), shortlists, description)


def linked_rows(scorer: NgramScorer) -> tuple[np.ndarray, np.ndarray]:
    """The rows that the search would ask for: places of Devlin et al. (2014), by hand; the sentence of each."""
    ids = [scorer.encode(target.split()).tolist() for target in TARGETS]
    places = [[0, 1, 1, 1, 3], [4, 4], [6, 6, 7]]
    rows = []
    for words, of_words in zip(ids, places, strict=True):
        history = [scorer.start_id, scorer.start_id, *words]
        for i, word in enumerate([*words, scorer.end_id]):
            rows.append([of_words[i], *history[i : i + 2], word])
    return np.array(rows, np.int32), np.repeat([0, 1, 2], [5, 2, 3])


@pytest.mark.parametrize("second_width", [0, 8])
@pytest.mark.parametrize("unnormalized", [False, True])
def test_an_nnjm_gives_what_it_gives_for_linked_sentences(
    second_width: int, unnormalized: bool
) -> None:
    model = nnjm(second_width, **SELF_NORMALISED)
    compute = Compute(device="cpu", unnormalized=unnormalized)
    scorer = nnjm_ngram_scorer(model, compute)
    assert (scorer.order, scorer.reads_source, scorer.start_id, scorer.open_id) == (3, True, 42, 43)
    assert scorer.read(SOURCES) == 8
    rows, sentence = linked_rows(scorer)
    sums = np.bincount(sentence, weights=scorer.log_probs(rows))
    expected = nnjm_scorer(model, compute).values(Batch(SOURCES, TARGETS, LINKS))
    np.testing.assert_allclose(sums, expected, atol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_estimates_of_a_self_normalised_model_are_its_logits_less_the_mean(
    precision: Precision,
) -> None:
    raw = nnjm_ngram_scorer(nnjm(**SELF_NORMALISED), Compute("float32", "cpu", unnormalized=True))
    scorer = nnjm_ngram_scorer(nnjm(**SELF_NORMALISED), Compute(precision, "cpu"))
    for each in (raw, scorer):
        each.read(SOURCES)
    rows, _ = linked_rows(scorer)
    error = 1e-5 if precision == "float32" else 0.05
    np.testing.assert_allclose(scorer.estimates(rows), raw.log_probs(rows) - 0.125, atol=error)
    np.testing.assert_array_equal(raw.estimates(rows), raw.log_probs(rows))
    exact = nnjm_ngram_scorer(nnjm(), Compute(device="cpu"))
    exact.read(SOURCES)
    assert abs(exact.log_probs(rows) - raw.log_probs(rows)).max() > 0.1
    np.testing.assert_allclose(scorer.log_probs(rows), exact.log_probs(rows), atol=error)


def test_quick_values_alone_have_hidden_layers_in_the_precision_asked_for() -> None:
    model = nnjm(**SELF_NORMALISED)
    exact = nnjm_ngram_scorer(model, Compute("float32", "cpu", unnormalized=True))
    scorer = nnjm_ngram_scorer(model, Compute("bfloat16", "cpu", unnormalized=True))
    for each in (exact, scorer):
        each.read(SOURCES)
    rows, _ = linked_rows(scorer)
    np.testing.assert_array_equal(scorer.log_probs(rows), exact.log_probs(rows))
    errors = np.abs(scorer.estimates(rows) - exact.log_probs(rows))
    assert 1e-4 < errors.max() < 0.05


def test_nothing_asked_is_nothing() -> None:
    scorer = nnjm_ngram_scorer(nnjm(), Compute(device="cpu"))
    assert scorer.read([]) == 0
    assert scorer.estimates(np.zeros((0, 4), np.int32)).shape == (0,)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([8, 42, 42, 1], "found the source place 8, expected 0 to 7: ask for S"),
        ([-1, 42, 42, 1], "found the source place -1"),
        ([0, 42, 44, 1], "found the previous word 44, expected 0 to 43"),
        ([0, 42, 42, 42], "found the word 42, expected 0 to 41"),
    ],
)
def test_numbers_that_are_not_there_are_refused(row: list[int], message: str) -> None:
    scorer = nnjm_ngram_scorer(nnjm(), Compute(device="cpu"))
    scorer.read(SOURCES)
    with pytest.raises(UserError, match=message):
        scorer.estimates(np.array([row], np.int32))


def test_the_number_that_is_not_there_is_named_among_others() -> None:
    scorer = nnjm_ngram_scorer(nnjm(), Compute(device="cpu"))
    scorer.read(SOURCES)
    with pytest.raises(UserError, match="found the source place 9, expected 0 to 7"):
        scorer.estimates(np.array([[0, 42, 42, 1], [9, 42, 42, 1]], np.int32))
    with pytest.raises(UserError, match="found the word -1, expected 0 to 41"):
        scorer.estimates(np.array([[0, 42, 42, -1], [0, 42, 42, 77]], np.int32))


def test_without_a_mean_of_log_z_estimates_are_the_logits() -> None:
    """A model without held-out text has none."""
    model = nnjm(training={"config": {"self_normalisation": 0.1}, "report": {}})
    raw, quick = (
        nnjm_ngram_scorer(model, Compute("float32", "cpu", unnormalized))
        for unnormalized in (True, False)
    )
    for each in (raw, quick):
        each.read(SOURCES)
    rows, _ = linked_rows(raw)
    np.testing.assert_allclose(quick.estimates(rows), raw.log_probs(rows), atol=1e-6)


def test_places_of_no_source_are_refused() -> None:
    scorer = nnjm_ngram_scorer(nnjm(), Compute(device="cpu"))
    with pytest.raises(UserError, match=r"found the source place 0, expected .*ask for S before"):
        scorer.log_probs(np.array([[0, 42, 42, 1]], np.int32))


@pytest.mark.parametrize(("room", "n_computed"), [(2**20, 2), (0, 4)])
def test_sentences_that_were_read_before_are_known_while_there_is_room(
    room: int, n_computed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = []

    def counted(network: Any, around: np.ndarray) -> torch.Tensor:
        computed.append(len(around))
        return bases_of(network, around)

    scorer = nnjm_ngram_scorer(nnjm(), Compute(device="cpu"))
    monkeypatch.setattr(service, "MOST_KEPT", room)
    monkeypatch.setattr(service, "bases_of", counted)
    rows, _ = linked_rows(scorer)
    texts = [SOURCES, SOURCES[::-1], SOURCES, SOURCES, SOURCES[::-1]]
    values = []
    for sources in texts:
        assert scorer.read(sources) == 8
        values.append(scorer.log_probs(rows))
    assert len(computed) == n_computed
    assert [np.array_equal(values[0], each) for each in values] == [True, False, True, True, False]


def saved(folder: Path, training: dict[str, Any]) -> Path:
    model = nnjm()
    save_model(folder, "nnjm", model.network, NNJM_SIZES, model.shortlists, training)
    return folder


def test_the_process_of_an_nnjm(tmp_path: Path) -> None:
    directory = saved(tmp_path / "nnjm", SELF_NORMALISED["training"])
    expected = nnjm_ngram_scorer(nnjm(**SELF_NORMALISED), Compute("float32", "cpu", True))
    expected.read(SOURCES)
    rows, _ = linked_rows(expected)
    sources = b"".join(source + b"\n" for source in SOURCES)
    payloads = [(b"S", sources), (b"N", rows.tobytes()), (b"E", rows.tobytes())]
    asked = b"".join(kind + struct.pack("<I", len(data)) + data for kind, data in payloads)
    result = CliRunner().invoke(main, ["serve", str(directory), "--unnormalized"], input=asked)
    assert result.exit_code == 0, result.output
    assert result.stderr == f"{directory}: log Z held out: mean 0.1250, s.d. 0.5000\n"
    greeting, _, answer = result.stdout_bytes.partition(b"\n")
    assert greeting == b"ngram-scorer 2 3 42 0 43 1"
    assert np.frombuffer(answer[:4], "<i4") == 8
    values = np.frombuffer(answer[4:], "<f4").reshape(2, -1)
    np.testing.assert_allclose(values, [expected.log_probs(rows)] * 2, atol=1e-6)


def test_a_place_that_is_not_there_ends_the_process_with_one_line(tmp_path: Path) -> None:
    directory = saved(tmp_path / "nnjm", {})
    asked = b"N" + struct.pack("<I4i", 16, 7, 42, 42, 1)
    result = CliRunner().invoke(main, ["serve", str(directory)], input=asked, prog_name="rescorer")
    assert result.exit_code == 1
    assert result.stderr.startswith("rescorer: error: found the source place 7")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (b"?", "found a request '?', expected one of W, S, N and E"),
        (b"N" + struct.pack("<I3i", 16, 0, 42, 42), "that breaks off after 12 bytes, expected 16"),
        (b"E" + struct.pack("<I3i", 12, 0, 42, 42), "of 12 bytes, expected 4 int32 an n-gram"),
    ],
)
def test_a_malformed_request_ends_the_process_with_one_line(
    tmp_path: Path, asked: bytes, message: str
) -> None:
    directory = saved(tmp_path / "nnjm", {})
    result = CliRunner().invoke(main, ["serve", str(directory)], input=asked, prog_name="rescorer")
    (line,) = result.stderr.splitlines()
    assert result.exit_code == 1 and line.startswith("rescorer: error: found a request ")
    assert message in line
    assert result.stdout_bytes == b"ngram-scorer 2 3 42 0 43 1\n"


@pytest.mark.parametrize("verb", ["serve", "nbest"])
def test_raw_scores_are_refused_of_a_model_that_is_not_self_normalised(
    verb: str, tmp_path: Path
) -> None:
    directory = str(saved(tmp_path / "nnjm", {}))
    (tmp_path / "text").write_text("a\n")
    text = str(tmp_path / "text")
    options = ["--source", text, "--model", directory, "--feature", "N0", "--out", text + "2"]
    rest = [directory] if verb == "serve" else [text, *options]
    result = CliRunner().invoke(main, [verb, *rest, "--unnormalized"], prog_name="rescorer")
    assert result.exit_code == 1
    assert "was trained without self_normalisation" in result.stderr


def test_raw_scores_of_an_nbest_list_are_those_of_the_service(tmp_path: Path) -> None:
    directory = saved(tmp_path / "nnjm", SELF_NORMALISED["training"])
    (tmp_path / "source").write_bytes(b"".join(source + b"\n" for source in SOURCES))
    lines = [
        b"%d ||| %s ||| LM0= -1 ||| -1 ||| %s\n" % (number, *pair)
        for number, pair in enumerate(zip(TARGETS, LINKS, strict=True))
    ]
    (tmp_path / "nbest").write_bytes(b"".join(lines))
    options = {"source": tmp_path / "source", "model": directory, "out": tmp_path / "out"}
    command = ["nbest", str(tmp_path / "nbest"), "--feature", "N0", "--unnormalized"]
    command += [word for name, path in options.items() for word in (f"--{name}", str(path))]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    assert "log Z held out: mean 0.1250" in result.stderr
    found = [
        float(line.split("N0= ")[1].split()[0]) for line in options["out"].read_text().splitlines()
    ]
    scorer = nnjm_ngram_scorer(nnjm(**SELF_NORMALISED), Compute("float32", "cpu", True))
    scorer.read(SOURCES)
    rows, sentence = linked_rows(scorer)
    np.testing.assert_allclose(
        np.bincount(sentence, weights=scorer.log_probs(rows)), found, atol=1e-5
    )


def test_a_model_of_phrase_pairs_is_no_language_model(tmp_path: Path) -> None:
    encdec = EncoderDecoder(EncDecConfig(8, 4, 4), 5, 42)
    shortlists = Shortlists(Vocabulary(WORDS[:3]), Vocabulary(WORDS))
    save_model(tmp_path / "rnn", "encdec", encdec, encdec.config, shortlists, {})
    result = CliRunner().invoke(main, ["serve", str(tmp_path / "rnn")], prog_name="rescorer")
    assert result.exit_code == 1
    assert "which cannot score n-grams, expected a network over windows" in result.output


NOTHING = np.zeros((1, 0), np.int32)


@pytest.fixture
def network() -> FeedForward:
    torch.manual_seed(5)
    result = FeedForward(9, 2, LayerWidths(4, 11, 7), 6)
    torch.nn.init.normal_(result.output.weight)
    torch.nn.init.normal_(result.output.bias)
    return result


@pytest.fixture
def rows() -> np.ndarray:
    rng = np.random.default_rng(2)
    return np.concatenate([rng.integers(0, 4, (80, 2)), rng.integers(0, 6, (80, 1))], 1).astype(
        np.int32
    )


def layers(network: FeedForward, dtype: torch.dtype) -> HiddenLayers:
    return HiddenLayers(network, History(2, 9, np.ones(9)), dtype)


def logits_of(network: FeedForward, rows: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        hidden = network.double().hidden(torch.from_numpy(rows[:, :-1].astype(np.int64)))
        return np.asarray(network.output(hidden).numpy())


def raw(network: FeedForward, dtype: torch.dtype) -> RawValues:
    return RawValues(layers(network, dtype), network.output, log_z=0.25)


def normalised(network: FeedForward, dtype: torch.dtype) -> NormalisedValues:
    layer = ExactOutputLayer(network.output, dtype)
    return NormalisedValues(layers(network, torch.float32), layer)


@pytest.mark.parametrize(
    ("way", "expected_of"),
    [(raw, lambda logits: logits - 0.25), (normalised, lambda logits: log_softmax(logits, axis=1))],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_values(
    way: Callable[[FeedForward, torch.dtype], Values],
    expected_of: Callable[[np.ndarray], np.ndarray],
    dtype: torch.dtype,
    network: FeedForward,
    rows: np.ndarray,
) -> None:
    found = way(network, dtype)(rows, bases_of(network, NOTHING))
    expected = expected_of(logits_of(network, rows))[np.arange(len(rows)), rows[:, -1]]
    np.testing.assert_allclose(found, expected, atol=2e-6 if dtype == torch.float32 else 0.08)


def test_without_a_mean_of_log_z_raw_values_are_the_logits(
    network: FeedForward, rows: np.ndarray
) -> None:
    found = RawValues(layers(network, torch.float32), network.output)(
        rows, bases_of(network, NOTHING)
    )
    expected = logits_of(network, rows)[np.arange(len(rows)), rows[:, -1]]
    np.testing.assert_allclose(found, expected, atol=2e-6)
