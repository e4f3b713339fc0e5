from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
import torch

from moses_bridge.base.errors import ConfigError, InputError
from rescorer.contract.compute import Compute
from rescorer.contract.vocabulary import Shortlists, Vocabulary
from rescorer.layers.tensor_files import load_tensors, save_tensors
from rescorer.models.model_directory import (
    fingerprint,
    load_model,
    ngram_scorer_of_model,
    save_model,
    scorer_of_model,
)
from rescorer.models.scorer_choice import ScorerChoice
from rescorer.scorers.cslm import Cslm, CslmConfig
from rescorer.scorers.encdec import EncDecConfig, EncoderDecoder
from tests.rescorer.plain_networks import log_probs

SOURCE, TARGET = Vocabulary([b"a", b"b", b"c"]), Vocabulary([b"x", b"y"])


def save_encdec(folder: Path) -> EncoderDecoder:
    torch.manual_seed(5)
    network = EncoderDecoder(EncDecConfig(7, 3, 2), len(SOURCE), len(TARGET))
    save_model(folder, "encdec", network, network.config, Shortlists(SOURCE, TARGET), {"note": 1})
    return network


def test_an_encoder_decoder_comes_back(tmp_path: Path) -> None:
    network = save_encdec(tmp_path)
    loaded = load_model(tmp_path)
    assert loaded.architecture == "encdec"
    assert loaded.shortlists.source is not None
    assert loaded.shortlists.source.words == SOURCE.words
    assert loaded.shortlists.target.words == TARGET.words
    assert loaded.description["training"] == {"note": 1}
    assert not loaded.network.training
    pair = torch.tensor([[2, 3, 0]]), torch.tensor([2]), torch.tensor([[3, 0]]), torch.tensor([1])
    assert isinstance(loaded.network, EncoderDecoder)
    assert torch.equal(log_probs(loaded.network, *pair), log_probs(network, *pair))


def test_a_language_model_comes_back(tmp_path: Path) -> None:
    network = Cslm(CslmConfig(2, 3, 5, 7), len(TARGET))
    save_model(tmp_path, "cslm", network, network.config, Shortlists(None, TARGET), {})
    loaded = load_model(tmp_path)
    assert loaded.architecture == "cslm"
    assert loaded.shortlists.source is None
    assert torch.equal(loaded.network.state_dict()["first.weight"], network.first.weight)


def test_weights_are_plain_safetensors_that_others_may_read(tmp_path: Path) -> None:
    """Eight bytes of length, then JSON; readable by the group as the umask says."""
    save_encdec(tmp_path)
    data = (tmp_path / "model.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert header["output.weight"]["shape"] == [4, 3]
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1


def truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])


def change(**changes: object) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return apply


def with_other_words_and_their_digests(folder: Path) -> None:
    """The weights say how many words there must be."""
    TARGET.save(folder / "source.vocab")
    digests = {
        name: blake2b((folder / name).read_bytes(), digest_size=16).hexdigest()
        for name in ("source.vocab", "target.vocab")
    }
    change(vocabularies=digests)(folder)


def without_digests(folder: Path) -> None:
    content = json.loads((folder / "config.json").read_text())
    assert set(content["vocabularies"]) == {"source.vocab", "target.vocab"}
    del content["vocabularies"]
    (folder / "config.json").write_text(json.dumps(content))


def nested(folder: Path) -> None:
    (folder / "config.json").write_text("[" * 100_000)


def as_a_pipe(name: str) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return apply


def spoilt(name: str, value: float | None) -> Callable[[Path], None]:
    """One weight of a matrix, or the whole matrix, is gone."""

    def apply(folder: Path) -> None:
        tensors = load_tensors(folder / "model.safetensors")
        if value is None:
            del tensors[name]
        else:
            tensors[name].view(-1)[-1] = value
        save_tensors(folder / "model.safetensors", tensors)

    return apply


def with_folds(folder: Path) -> None:
    """As earlier versions wrote it: the networks stand in directories of their own."""
    (folder / "folds.json").write_text('{"networks": [], "max_phrase_words": 7}')
    (folder / "config.json").unlink()


def huge(hidden_width: int) -> dict[str, int]:
    return {"hidden_width": hidden_width, "embedding_width": 3, "maxout_width": 2}


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (truncate, "model.safetensors: found .*expected a whole safetensors file"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\x80\x04."), "safetensors"),
        (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors: found"),
        (lambda folder: (folder / "config.json").unlink(), "config.json: found"),
        (lambda folder: (folder / "config.json").write_text("[1]"), "no known architecture"),
        (lambda folder: (folder / "config.json").write_text('{"a": '), "config.json: found"),
        (change(architecture="transformer"), "no known architecture"),
        (change(format_version=99), "format version 99, expected 1. Update rescorer"),
        (with_folds, "networks trained with folds, which this version .*Name one of them.*fold0"),
        (change(model=3), "no sizes"),
        (
            change(model={"hidden_width": 8, "embedding_width": 3, "maxout_width": 2}),
            "found context_to_readout.weight: 4x7 float32, expected 4x8 float32, as the network has",
        ),
        (lambda folder: (folder / "target.vocab").unlink(), "target.vocab: found"),
        (
            lambda folder: TARGET.save(folder / "source.vocab"),
            "source.vocab: found other words than the network was trained with",
        ),
        (
            lambda folder: Vocabulary([b"y", b"x"]).save(folder / "target.vocab"),
            "target.vocab: found other words",
        ),
        (lambda folder: (folder / "source.vocab").unlink(), "source.vocab: found other words"),
        (with_other_words_and_their_digests, "found source_embedding.weight: 5x3 float32"),
        (spoilt("output.bias", float("nan")), "output.bias: a value that is not finite"),
        (spoilt("encoder.input.weight", float("inf")), "encoder.input.weight: a value that is not"),
        (spoilt("output.bias", 0.5), "model.safetensors: found other numbers than were saved, exp"),
        (spoilt("readout_factor.weight", None), "readout_factor.weight: not there"),
        (change(vocabularies={}), "digests of nothing in 'vocabularies', expected those of source"),
        (change(vocabularies=[]), r"found \[\] in 'vocabularies', expected a table"),
        (change(vocabularies={"/dev/zero": "00"}), "digests of '/dev/zero' in 'vocabularies'"),
        (change(vocabularies={"../../x": "0", "target.vocab": "0"}), "digests of '../../x', 'targ"),
        (change(vocabularies={"target.vocab": 5}), "found 5 in 'vocabularies: target.vocab'"),
        (without_digests, "the key 'vocabularies' is missing"),
        (change(training=[1]), r"found \[1\] in 'training', expected a table"),
        (change(training=None), "found None in 'training', expected a table"),
        (change(training={"config": [1]}), r"found \[1\] in 'config', expected a table"),
        (
            change(training={"report": {"log_z_mean": "x"}}),
            "found 'x' in 'log_z_mean', expected fl",
        ),
        (change(architecture={}), "no known architecture"),
        (change(format_version=[1]), r"found format version \[1\], expected 1. Train"),
        (nested, "config.json: found tables and lists nested more than 100 deep"),
        (as_a_pipe("config.json"), "config.json: found a directory, a pipe or a device"),
        (as_a_pipe("target.vocab"), "target.vocab: found a directory, a pipe or a device"),
        (as_a_pipe("model.safetensors"), "model.safetensors: found a directory, a pipe or a dev"),
        (change(model=huge(2**40)), "config.json: found sizes that no network can have"),
        (change(model=huge(2**62)), "config.json: found sizes that no network can have"),
    ],
)
def test_damaged_and_foreign_models_are_refused(
    tmp_path: Path, damage: Callable[[Path], None], fault: str
) -> None:
    save_encdec(tmp_path)
    damage(tmp_path)
    with pytest.raises(InputError, match=fault) as caught:
        load_model(tmp_path)
    assert "\n" not in str(caught.value)


def test_an_impossible_size_is_named(tmp_path: Path) -> None:
    save_encdec(tmp_path)
    change(model={"hidden_width": -1})(tmp_path)
    with pytest.raises(ConfigError, match="hidden_width is -1; the smallest value is 1"):
        load_model(tmp_path)
    change(model=huge(10**30))(tmp_path)
    with pytest.raises(
        ConfigError, match=r"hidden_width: found 10.*expected a number of at most 64"
    ):
        load_model(tmp_path)


def test_an_unknown_size_is_named(tmp_path: Path) -> None:
    save_encdec(tmp_path)
    change(model={"hidden_widht": 7})(tmp_path)
    with pytest.raises(ConfigError, match="did you mean 'hidden_width'"):
        load_model(tmp_path)


def test_sizes_that_fit_no_memory_take_none(tmp_path: Path) -> None:
    """A network of terabytes is compared with its file before there is any room for it."""
    save_encdec(tmp_path)
    change(model=huge(2**20 - 1))(tmp_path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=r"model\.safetensors"):
        load_model(tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


def test_keys_that_a_newer_version_may_write_are_passed_over(tmp_path: Path) -> None:
    network = save_encdec(tmp_path)
    change(new=1, training={"new": [1], "report": {"new": 2}})(tmp_path)
    description = json.loads((tmp_path / "config.json").read_text())
    del description["weights"]  # which an earlier version did not write
    (tmp_path / "config.json").write_text(json.dumps(description))
    loaded = load_model(tmp_path).network.state_dict()
    assert torch.equal(loaded["output.weight"], network.output.weight)


def test_an_earlier_directory_without_a_unit_has_gated_units(tmp_path: Path) -> None:
    network = save_encdec(tmp_path)
    description = json.loads((tmp_path / "config.json").read_bytes())
    del description["model"]["unit"]
    (tmp_path / "config.json").write_text(json.dumps(description))
    loaded = load_model(tmp_path)
    assert loaded.network.config.unit == "gated"
    weights = loaded.network.state_dict()
    assert all(torch.equal(weights[key], value) for key, value in network.state_dict().items())


def test_an_unknown_unit_is_named(tmp_path: Path) -> None:
    save_encdec(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"gated"', '"gru"'))
    with pytest.raises(ConfigError, match="unit"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "source.vocab", "target.vocab"]
)
def test_each_file_counts_in_the_fingerprint(tmp_path: Path, name: str) -> None:
    save_encdec(tmp_path)
    before = fingerprint(tmp_path)
    assert fingerprint(tmp_path) == before
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes() + b" ")
    changed = fingerprint(tmp_path)
    (tmp_path / name).unlink()
    assert len({before, changed, fingerprint(tmp_path)}) == 3


def test_the_precision_counts_in_the_fingerprint_and_the_device_does_not(tmp_path: Path) -> None:
    save_encdec(tmp_path)
    change(training={"config": {"self_normalisation": 0.1}})(tmp_path)
    asked = [
        Compute(device="cpu"),
        Compute("bfloat16", "cpu"),
        Compute(device="cpu", unnormalized=True),
        Compute("bfloat16", "cpu", unnormalized=True),
    ]
    assert len({scorer_of_model(tmp_path, compute).fingerprint for compute in asked}) == 4
    plain = scorer_of_model(tmp_path, Compute(device="auto"))
    assert plain.fingerprint == scorer_of_model(tmp_path, asked[0]).fingerprint
    assert plain.name == str(tmp_path)


def test_several_models_or_one_control(tmp_path: Path) -> None:
    save_encdec(tmp_path / "a"), save_encdec(tmp_path / "b")
    folders = [tmp_path / "b", tmp_path / "a"]
    named = ScorerChoice((*folders,), None, None, 1, Compute(device="cpu")).named()
    assert [scorer.name for scorer in named] == [str(folder) for folder in folders]
    (control,) = ScorerChoice((), None, "length", 1, Compute()).named()
    assert control.name == "control: length"


@pytest.mark.parametrize(
    ("n_models", "control", "unnormalized", "message"),
    [
        (0, None, False, "name either a model"),
        (1, "length", False, "name either a model"),
        (0, "length", True, "a control has no denominator"),
        (0, "random", True, "a control has no denominator"),
        (1, None, True, "trained without self_normalisation"),
    ],
)
def test_scorers_that_do_not_fit_together_are_refused(
    tmp_path: Path, n_models: int, control: Any, unnormalized: bool, message: str
) -> None:
    save_encdec(tmp_path)
    compute = Compute(device="cpu", unnormalized=unnormalized)
    with pytest.raises(ConfigError, match=message):
        ScorerChoice((tmp_path,) * n_models, None, control, 1, compute).named()


def test_a_model_of_phrase_pairs_scores_no_ngrams(tmp_path: Path) -> None:
    save_encdec(tmp_path)
    with pytest.raises(InputError, match="'encdec', which cannot score n-grams"):
        ngram_scorer_of_model(tmp_path, Compute(device="cpu"))


def test_loading_does_not_import_the_compiler_of_pytorch(tmp_path: Path) -> None:
    """It takes longer to import than all of PyTorch else, once for each command."""
    network = Cslm(CslmConfig(2, 3, 4, 5), len(TARGET))
    save_model(tmp_path, "cslm", network, network.config, Shortlists(None, TARGET), {})
    program = (
        "import sys; from pathlib import Path; from rescorer.models.model_directory import load_model;"
        "load_model(Path(sys.argv[1])); sys.exit('torch._dynamo' in sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program, tmp_path], check=True)
