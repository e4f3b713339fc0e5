"""Values of transformers' models: equal to their own forward pass pair by pair, and alone as beside others."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from moses_bridge.base.errors import ConfigError, InputError
from rescorer.contract.batch import Batch, UnscorablePair
from rescorer.contract.compute import Compute
from rescorer.models.pretrained import prefix_values
from rescorer.models.pretrained.settings import PretrainedSettings

if TYPE_CHECKING:
    from rescorer.models.pretrained.hugging_face import HuggingFaceScorer

CPU = Compute(device="cpu")
SOURCES = [
    b"the house is small .",
    b"it can be used",
    b"a server &amp; the house , and the green one .",
]
CHANGES = [
    b"la maison",
    b"est une petite",
    b"maison",
    b"verte .",
    b"peut \xc3\xaatre utilis\xc3\xa9",
    b"l' un",
]


def batch(n_targets: int = 12) -> Batch:
    """Hypotheses of some sentences that begin alike, an empty one, and a source alone."""
    rng = random.Random(1)
    pairs = [
        (source, b" ".join([b"la maison", *rng.choices(CHANGES, k=rng.randint(0, 4))]))
        for source in SOURCES
        for _ in range(n_targets)
    ]
    pairs += [(SOURCES[0], b""), (b"house", b"maison")]
    return Batch(*map(list, zip(*pairs, strict=True)))


def load(
    directory: Path, settings: PretrainedSettings | None = None, compute: Compute = CPU
) -> HuggingFaceScorer:
    from rescorer.models.pretrained.hugging_face import load_hugging_face

    has_source = directory.name != "gpt2"
    return load_hugging_face(directory, settings or PretrainedSettings(), compute, has_source)


def plain_values(directory: Path, pairs: Batch, **codes: str) -> np.ndarray[Any, Any]:
    """One pair at a time by transformers alone, Marian without <pad>; tokens stay apart, so no text is made."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(directory, **codes)
    model = AutoModelForSeq2SeqLM.from_pretrained(directory).eval()
    values = []
    for source, target in zip(pairs.sources, pairs.targets, strict=True):
        texts = [side.decode().replace("&amp;", "&") for side in (source, target)]
        read = tokenizer(texts[0], text_target=texts[1], return_tensors="pt")
        with torch.inference_mode():
            logits = model(**read).logits[0].double()
            if model.config.model_type == "marian":
                logits[:, tokenizer.pad_token_id] = -torch.inf
        log_probs = logits.log_softmax(dim=1)
        labels = read["labels"][0]
        of_words = log_probs[torch.arange(len(labels)), labels]
        values.append(float(of_words[1 if codes else 0 :].sum()))
    return np.array(values)


def with_settings(
    model: Path, copy: Path, name: str = "config.json", **changes: int | None
) -> Path:
    """A copy of a model with changes in one of its files of settings."""
    shutil.copytree(model, copy)
    settings = json.loads((copy / name).read_text())
    (copy / name).write_text(json.dumps({**settings, **changes}))
    return copy


TOKENS = PretrainedSettings(detokenize=False)


@pytest.mark.parametrize(
    ("model", "name"), [("marian", "pad_token_id"), ("t5", "decoder_start_token_id")]
)
def test_pad_and_begin_are_known_though_the_settings_lack_one(
    model: str, name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    directory = request.getfixturevalue(model)
    copy = with_settings(directory, tmp_path / "copy", **{name: None})
    expected = load(directory).values(batch(2))
    np.testing.assert_allclose(load(copy).values(batch(2)), expected, atol=1e-6, rtol=0)


def test_a_decoder_without_begin_is_refused(t5: Path, tmp_path: Path) -> None:
    first = with_settings(t5, tmp_path / "first", decoder_start_token_id=None)
    files = (tmp_path / "second", "generation_config.json")
    with pytest.raises(InputError, match="found a model without decoder_start_token_id"):
        load(with_settings(first, *files, decoder_start_token_id=None))


@pytest.mark.parametrize("name", ["marian", "t5", "gpt2"])
def test_text_that_spells_a_special_subword_is_text(
    name: str, request: pytest.FixtureRequest
) -> None:
    subwords = load(request.getfixturevalue(name)).subwords
    (plain,) = subwords.targets([b"la maison"])
    (spelt,) = subwords.targets([b"la <pad> </s> maison"])
    assert len(spelt) > len(plain) and spelt.count(subwords.end) == 1 == plain.count(subwords.end)
    assert "<pad>" not in subwords.names(spelt)


@pytest.mark.parametrize("name", ["marian", "t5"])
def test_values_are_those_of_the_model_itself(name: str, request: pytest.FixtureRequest) -> None:
    directory = request.getfixturevalue(name)
    pairs = batch()
    expected = plain_values(directory, pairs)
    np.testing.assert_allclose(load(directory, TOKENS).values(pairs), expected, atol=1e-4, rtol=0)


def test_a_language_code_is_given_and_not_scored(nllb: Path) -> None:
    settings = PretrainedSettings("eng_Latn", "fra_Latn", detokenize=False)
    pairs = batch(4)
    expected = plain_values(nllb, pairs, src_lang="eng_Latn", tgt_lang="fra_Latn")
    np.testing.assert_allclose(load(nllb, settings).values(pairs), expected, atol=1e-4, rtol=0)
    other = PretrainedSettings("eng_Latn", "ita_Latn", detokenize=False)
    assert np.abs(load(nllb, other).values(pairs) - expected).min() > 1e-3


def test_a_language_model_gives_the_text_and_its_end(gpt2: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = (
        AutoTokenizer.from_pretrained(gpt2),
        AutoModelForCausalLM.from_pretrained(gpt2),
    )
    pairs, expected = batch(3), []
    for target in pairs.targets:
        ids = [2, *tokenizer(target.decode())["input_ids"], 1]
        with torch.inference_mode():
            log_probs = model.eval()(torch.tensor([ids])).logits[0].double().log_softmax(dim=1)
        expected.append(float(log_probs[torch.arange(len(ids) - 1), ids[1:]].sum()))
    scorer = load(gpt2, TOKENS)
    np.testing.assert_allclose(scorer.values(pairs), expected, atol=1e-4, rtol=0)
    assert scorer.note == "natural log p of the target's subwords and </s>"


@pytest.mark.parametrize("name", ["marian", "t5", "gpt2"])
def test_a_value_does_not_depend_on_what_is_scored_beside_it(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer, pairs = load(request.getfixturevalue(name)), batch()
    values = scorer.values(pairs)
    order = np.random.default_rng(1).permutation(len(pairs))
    some = order[:10]
    others = {
        "another order": (scorer.values(pairs.part(order)), order),
        "few": (scorer.values(pairs.part(some)), some),
        "alone": (
            np.array([scorer.values(pairs.part(some[at : at + 1]))[0] for at in range(10)]),
            some,
        ),
    }
    for limit in (1, 20, 100):
        monkeypatch.setattr(prefix_values, "SUBWORDS_AT_ONCE", limit)
        others[f"groups of {limit}"] = (scorer.values(pairs.part(some)), some)
    for beside, (found, rows) in others.items():
        assert np.abs(found - values[rows]).max() <= 1e-5, beside


def test_threads_give_the_same_values(marian: Path) -> None:
    scorer, pairs = load(marian), batch()
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(scorer.values, [pairs] * 4))
    for values in found:
        np.testing.assert_allclose(values, found[0], atol=1e-5, rtol=0)


def test_a_shared_prefix_is_computed_once(marian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rescorer.models.pretrained.hugging_face import TranslationRows

    scorer, n_rows = load(marian), list[int]()
    go_on = TranslationRows.go_on

    def counted(self: Any, parents: Any, words: Any, sources: Any) -> None:
        n_rows.append(len(words))
        go_on(self, parents, words, sources)

    monkeypatch.setattr(TranslationRows, "go_on", counted)
    monkeypatch.setitem(prefix_values.ROWS_STEP, torch.float32, 1)
    targets = [b"la maison est une", b"la maison est petite", b"la maison est"]
    ids = scorer.subwords.targets(targets)
    scorer.values(Batch([b"the house"] * 3, targets))
    prefixes = {tuple(one[:length]) for one in ids for length in range(1, len(one))}
    assert sum(n_rows) == len(prefixes) < sum(len(one) - 1 for one in ids)


def test_bfloat16_is_near(marian: Path) -> None:
    pairs = batch(3)
    exact = load(marian).values(pairs)
    near = load(marian, compute=Compute("bfloat16", "cpu")).values(pairs)
    assert 0 < np.abs(near - exact).max() < 3


def test_a_model_of_several_languages_reads_its_target_language(multilingual: Path) -> None:
    french = load(multilingual, PretrainedSettings(target_language="fra"))
    assert french.subwords.names(french.subwords.sources([b"the house"])[0])[0] == ">>fra<<"
    with pytest.raises(ConfigError, match=r"--target-language: found 'deu', expected .*: fra, ita"):
        load(multilingual, PretrainedSettings(target_language="deu"))


def test_settings_change_the_text(marian: Path) -> None:
    prefixed = load(marian, PretrainedSettings(source_prefix="the ", case="lower"))
    as_written = load(marian)
    same = as_written.subwords.sources([b"the house is"])
    assert prefixed.subwords.sources([b"HOUSE is"]) == same


@pytest.mark.parametrize("code", ["french", ""])
def test_a_wrong_language_code_is_refused(nllb: Path, code: str) -> None:
    with pytest.raises(
        ConfigError, match=r"--source-language: found .*, expected one that .* knows"
    ):
        load(nllb, PretrainedSettings(code, "fra_Latn"))


def test_a_model_without_tokenizer_is_refused(without_tokenizer: Path) -> None:
    with pytest.raises(
        InputError, match="found a model without tokenizer, expected the tokenizer's"
    ):
        load(without_tokenizer)


def test_a_language_model_is_no_translation_model(gpt2: Path) -> None:
    from rescorer.models.pretrained.hugging_face import load_hugging_face

    with pytest.raises(InputError, match=r"found the model type 'gpt2'.*Write hf-lm: for it"):
        load_hugging_face(gpt2, PretrainedSettings(), CPU, True)


def test_a_damaged_model_is_refused(marian: Path, tmp_path: Path) -> None:
    for path in marian.iterdir():
        content = path.read_bytes()
        (tmp_path / path.name).write_bytes(
            content[: 5000 if path.suffix == ".safetensors" else None]
        )
    with pytest.raises(InputError, match="no model that loads"):
        load(tmp_path)


def test_missing_weights_are_refused(marian: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    for path in marian.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = load_file(marian / "model.safetensors")
    gone = next(name for name in weights if name.endswith("layers.1.fc2.weight"))
    save_file(
        {name: one for name, one in weights.items() if name != gone}, tmp_path / "model.safetensors"
    )
    with pytest.raises(InputError, match=f"no weights of {gone}"):
        load(tmp_path)


def test_a_model_that_changes_its_logits_is_refused(
    gpt2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import GPT2LMHeadModel

    def doubled(forward: Callable[..., Any]) -> Callable[..., Any]:
        def changed(self: Any, input_ids: Any) -> Any:
            found = forward(self, input_ids)
            found.logits = 2 * found.logits
            return found

        return changed

    monkeypatch.setattr(GPT2LMHeadModel, "forward", doubled(GPT2LMHeadModel.forward))
    with pytest.raises(InputError, match="values prefix by prefix are not its own"):
        load(gpt2)


def test_keys_and_values_are_given_by_the_name_that_the_decoder_has(
    gpt2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers 5.24 calls `past_key_values` `cache`, and warns of the old name."""
    from transformers import GPT2Model

    pairs, forward = batch(3), GPT2Model.forward
    expected = load(gpt2).values(pairs)
    own = "cache" if "cache" in signature(forward).parameters else "past_key_values"

    def renamed(self: Any, input_ids: Any, cache: Any = None, **given: Any) -> Any:
        assert given.pop("past_key_values", None) is None
        return forward(self, input_ids, **{own: cache}, **given)

    monkeypatch.setattr(GPT2Model, "forward", renamed)
    np.testing.assert_allclose(load(gpt2).values(pairs), expected, atol=1e-6, rtol=0)


def test_a_text_longer_than_the_model_is_refused(gpt2: Path) -> None:
    """A word is one subword; it reads <s> and all but </s>."""
    longest, long = (b" ".join([b"la"] * n_words) for n_words in (63, 64))
    assert np.isfinite(load(gpt2).values(Batch([b""], [longest]))).all()
    with pytest.raises(
        UnscorablePair, match="found 65 subwords on the target side, expected at most the 64"
    ):
        load(gpt2).values(Batch([b"a", b"b"], [b"la", long]))


def test_relative_positions_have_no_limit(t5: Path, tmp_path: Path) -> None:
    """The config.json of t5-small has an n_positions of 512."""
    directory = with_settings(t5, tmp_path / "t5", n_positions=16)
    long = b" ".join([b"maison"] * 40)
    pairs = Batch([b"a", long], [long, b"la"])
    expected = plain_values(t5, pairs)
    np.testing.assert_allclose(load(directory, TOKENS).values(pairs), expected, atol=1e-3, rtol=0)


def test_a_source_longer_than_the_model_is_refused(nllb: Path) -> None:
    long = b" ".join([b"house"] * 80)
    settings = PretrainedSettings("eng_Latn", "fra_Latn")
    with pytest.raises(UnscorablePair, match="on the source side, expected at most the 64"):
        load(nllb, settings).values(Batch([b"a", long], [b"la", b"le"]))
