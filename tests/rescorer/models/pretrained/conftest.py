"""Small pretrained models with random weights, in the formats of their toolkits."""

from __future__ import annotations

import importlib.util
import json
import random
import shutil
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
ENGLISH = "the house is a small green and server can be used for example , . it isn't"
FRENCH = "la maison est une petite verte et le serveur peut être utilisé par exemple , ."


def text(words: str, seed: int, n_lines: int = 200) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(words.split(), k=rng.randint(1, 12))) for _ in range(n_lines)]


@pytest.fixture(scope="session")
def maker() -> ModuleType:
    for package in ("transformers", "sentencepiece"):
        pytest.importorskip(package)
    import transformers

    transformers.logging.disable_progress_bar()
    spec = importlib.util.spec_from_file_location("marian_model", BENCH / "marian_model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def marian(maker: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translation model of two layers."""
    directory = tmp_path_factory.mktemp("pretrained") / "marian"
    maker.write_marian(directory, text(ENGLISH, 1), text(FRENCH, 2), 60, maker.SMALL)
    return directory


@pytest.fixture(scope="session")
def multilingual(maker: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for two target languages."""
    directory = tmp_path_factory.mktemp("pretrained") / "multilingual"
    sides = (text(ENGLISH, 1), text(FRENCH, 2))
    maker.write_marian(directory, *sides, 60, maker.SMALL, ("fra", "ita"))
    return directory


@pytest.fixture(scope="session")
def converted(marian: Path) -> Path:
    """The translation model, converted for CTranslate2."""
    pytest.importorskip("ctranslate2")
    from ctranslate2.converters import TransformersConverter

    files = ["source.spm", "target.spm", "vocab.json", "tokenizer_config.json"]
    directory = marian.with_name("ct2")
    TransformersConverter(str(marian), copy_files=files).convert(str(directory))
    return directory


def write_fast_tokenizer(directory: Path, eos: bool) -> int:
    """A byte-pair tokenizer; the number of its words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<pad>", "</s>", "<s>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=330, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(text(FRENCH, 3), trainer)
    if eos:
        made.post_processor = processors.TemplateProcessing(
            single="$A </s>", special_tokens=[("</s>", 1)]
        )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="</s>", bos_token="<s>"
    )
    tokenizer.save_pretrained(directory)
    return len(tokenizer)


@pytest.fixture(scope="session")
def t5(maker: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small T5, which has relative positions and scales its states."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    directory = tmp_path_factory.mktemp("pretrained") / "t5"
    n_words = write_fast_tokenizer(directory, eos=True)
    torch.manual_seed(1)
    config = T5Config(
        vocab_size=n_words,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
    )
    T5ForConditionalGeneration(config).save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def gpt2(maker: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small decoder-only language model."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    directory = tmp_path_factory.mktemp("pretrained") / "gpt2"
    n_words = write_fast_tokenizer(directory, eos=False)
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=n_words,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=64,
        initializer_range=0.3,
        bos_token_id=2,
        eos_token_id=1,
    )
    GPT2LMHeadModel(config).save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def converted_gpt2(gpt2: Path) -> Path:
    """The language model, converted for CTranslate2."""
    pytest.importorskip("ctranslate2")
    from ctranslate2.converters import TransformersConverter

    directory = gpt2.with_name("ct2-gpt2")
    files = ["tokenizer.json", "tokenizer_config.json"]
    TransformersConverter(str(gpt2), copy_files=files).convert(str(directory))
    config = json.loads((directory / "config.json").read_text())
    # GPT-2's own tokenizer names a word for the unknown ones; this one has none.
    (directory / "config.json").write_text(json.dumps({**config, "unk_token": "</s>"}))
    return directory


@pytest.fixture(scope="session")
def bert(maker: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small masked language model."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

    directory = tmp_path_factory.mktemp("pretrained") / "bert"
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=70, special_tokens=names, show_progress=False)
    made.train_from_iterator(text(FRENCH, 3), trainer)
    ends = [(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=ends
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made,
        **{f"{name.lower()[1:-1]}_token": name for name in names},
    )
    tokenizer.save_pretrained(directory)
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=32,
        initializer_range=0.3,
    )
    BertForMaskedLM(config).save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def nllb(maker: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small M2M-100 network with NLLB's tokenizer, whose languages are codes in the text."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import M2M100Config, M2M100ForConditionalGeneration, NllbTokenizer

    directory = tmp_path_factory.mktemp("pretrained") / "nllb"
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(vocab_size=90, special_tokens=special, show_progress=False)
    made.train_from_iterator(text(ENGLISH, 1) + text(FRENCH, 2), trainer)
    pieces = json.loads(made.to_str())["model"]
    merges = [tuple(merge) for merge in pieces["merges"]]
    tokenizer = NllbTokenizer(vocab=pieces["vocab"], merges=merges)
    tokenizer.save_pretrained(directory)
    torch.manual_seed(1)
    config = M2M100Config(
        vocab_size=len(tokenizer),
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=64,
        init_std=0.2,
        decoder_start_token_id=2,
    )
    M2M100ForConditionalGeneration(config).save_pretrained(directory)
    return directory


@pytest.fixture
def without_tokenizer(marian: Path, tmp_path: Path) -> Path:
    directory = tmp_path / "no-tokenizer"
    directory.mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(marian / name, directory)
    return directory
