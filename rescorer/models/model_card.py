"""The model card of a model directory: what it was trained on, how, and how to score with it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from moses_bridge.base.textio import write_lines
from rescorer.contract.architectures import Architecture, load

CARD = "model_card.md"
COUNTS = {"n_pairs": "distinct phrase pairs", "n_sentences": "sentences"}


def write_model_card(directory: Path, name: str, training: Mapping[str, Any]) -> None:
    """Write model_card.md; nothing reads it again.

    Args:
        directory: of the model.
        name: of its architecture.
        training: what config.json says of the training.

    Raises:
        OSError: the file cannot be written.
    """
    lines = _card(directory, name, training)
    write_lines(directory / CARD, [line.encode() for line in lines])


def _card(directory: Path, name: str, training: Mapping[str, Any]) -> Iterator[str]:
    architecture = load(name)
    yield f"# Model card: {directory.resolve().name}"
    yield ""
    yield f"A model of the architecture `{name}`, trained on {architecture.data}."
    yield ""
    yield from _facts(training)
    yield ""
    yield "## Settings that differ from the defaults"
    yield ""
    yield from _settings(training, asdict(architecture.settings()))
    yield "## Scoring"
    yield ""
    yield from _scoring(directory, architecture)


def _facts(training: Mapping[str, Any]) -> Iterator[str]:
    made, report = training.get("made", {}), training.get("report", {})
    for name, digest in made.get("files", {}).items():
        yield f"- Data: `{name}`, SHA-256 {digest}"
    for key, what in COUNTS.items():
        if key in training:
            yield f"- Number of {what}: {training[key]:,}"
    if "data" in training:
        yield f"- Digest of the data as they were read: {training['data']}"
    if report.get("held_out_loss") is not None:
        yield f"- Held-out loss: {report['held_out_loss']:.4f} nats per word, `</s>` included"
    if report:
        yield f"- Updates: {report['n_updates']:,} in {report['minutes']:.1f} minutes; {report['ended']}"
    if "seed" in training:
        yield f"- Seed: {training['seed']}"
    if "start" in training:
        yield f"- Trained further from a network whose files have the digest {training['start']}"
    if tuned := training.get("expected_bleu"):
        loss = tuned["report"]["held_out_loss"]
        held_out = "" if loss is None else f"; held-out expected sentence BLEU {-loss:.2f} of 100"
        yield f"- Fine-tuned for expected BLEU, {tuned['report']['n_updates']:,} updates{held_out}"
    yield f"- Version of rescorer: {made.get('version') or 'unknown'}"


def _settings(training: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[str]:
    given = {**training.get("config", {}), "loop": training.get("loop", {})}
    different = [*_differences(given, defaults)]
    if not different:
        yield from ("None.", "")
        return
    yield from ("```toml", *different, "```", "")


def _differences(
    given: Mapping[str, Any], defaults: Mapping[str, Any], table: str = ""
) -> Iterator[str]:
    """The keys with other values than the defaults, as lines of TOML."""
    for key, value in given.items():
        if isinstance(value, Mapping):
            yield from _differences(value, defaults.get(key, {}), f"{table}{key}.")
        elif value is not None and value != defaults.get(key):
            yield f"{table}{key} = {json.dumps(value, ensure_ascii=False)}"


def _scoring(directory: Path, architecture: Architecture[Any, Any]) -> Iterator[str]:
    name = shlex.quote(directory.resolve().name)
    if architecture.data == "phrase pairs":
        yield "A column of a phrase table:"
        command = f"rescorer score phrase-table.gz --model {name} --out scored.gz"
    else:
        yield "A feature of n-best lists:"
        command = (
            "rescorer nbest list.nbest --source source.txt "
            f"--model {name} --feature Neural0 --out new.nbest"
        )
    yield from ("", "```", command, "```")
