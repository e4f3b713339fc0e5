"""A Marian model with random weights, in the format of the hub: what tests and benchmarks load."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

SMALL = {"width": 32, "n_layers": 2, "n_heads": 4, "inner_width": 64}
OPUS = {"width": 512, "n_layers": 6, "n_heads": 8, "inner_width": 2048}


def write_marian(
    directory: Path,
    source: Sequence[str],
    target: Sequence[str],
    n_pieces: int,
    sizes: dict[str, int],
    codes: Sequence[str] = (),
) -> None:
    """Train SentencePiece models on text and save them with a network of random weights.

    Args:
        directory: made here.
        source: sentences of the source language.
        target: sentences of the target language.
        n_pieces: subwords of each language, at most.
        sizes: `SMALL` or `OPUS`.
        codes: target languages of a multilingual model.
    """
    directory.mkdir(parents=True)
    pieces = [piece for side in (source, target) for piece in _pieces(side, n_pieces)]
    for name, side in (("source", source), ("target", target)):
        (directory / f"{name}.spm").write_bytes(_trained(side, n_pieces))
    words = ["</s>", "<unk>", *(f">>{code}<<" for code in codes), *dict.fromkeys(pieces), "<pad>"]
    (directory / "vocab.json").write_text(json.dumps({word: at for at, word in enumerate(words)}))
    files = [str(directory / name) for name in ("source.spm", "target.spm", "vocab.json")]
    MarianTokenizer(*files, source_lang="en", target_lang="fr").save_pretrained(directory)
    _network(len(words), sizes).save_pretrained(directory)


def _trained(text: Sequence[str], n_pieces: int) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text),
        model_writer=model,
        vocab_size=n_pieces,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


def _pieces(text: Sequence[str], n_pieces: int) -> list[str]:
    model = sentencepiece.SentencePieceProcessor(model_proto=_trained(text, n_pieces))
    found = [model.id_to_piece(piece) for piece in range(model.get_piece_size())]
    return [piece for piece in found if piece not in ("<s>", "</s>", "<unk>")]


def _network(n_words: int, sizes: dict[str, int]) -> MarianMTModel:
    torch.manual_seed(1)
    config = MarianConfig(
        vocab_size=n_words,
        d_model=sizes["width"],
        encoder_layers=sizes["n_layers"],
        decoder_layers=sizes["n_layers"],
        encoder_attention_heads=sizes["n_heads"],
        decoder_attention_heads=sizes["n_heads"],
        encoder_ffn_dim=sizes["inner_width"],
        decoder_ffn_dim=sizes["inner_width"],
        max_position_embeddings=512,
        activation_function="swish",
        scale_embedding=True,
        init_std=2 * sizes["width"] ** -0.5,
        pad_token_id=n_words - 1,
        eos_token_id=0,
        bos_token_id=None,
        forced_eos_token_id=0,
        decoder_start_token_id=n_words - 1,
    )
    network = MarianMTModel(config)
    with torch.no_grad():
        network.model.shared.weight /= sizes["width"] ** 0.5
        network.final_logits_bias.normal_(0, 0.3)
        # Marian has no <pad>; the converter to transformers adds it so.
        network.model.shared.weight[-1] = 0
        network.final_logits_bias[0, -1] = 0
    return network
