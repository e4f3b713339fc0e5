"""Directories of pretrained models that bring code along: it is never run, whatever a user answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from rescorer.cli import main
from rescorer.contract.batch import Batch
from rescorer.contract.compute import Compute
from rescorer.models.pretrained.settings import PretrainedSettings

EVIL = """from pathlib import Path
Path({mark!r}).touch()
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
class Config(GPT2Config): model_type = "evil"
class Model(GPT2LMHeadModel): config_class = Config
class Tokenizer(PreTrainedTokenizerFast): pass
"""
NEVER_RUN = "(auto_map), whose code is never run"


def change(path: Path, **keys: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))


def evil_directory(gpt2: Path, directory: Path, name: str) -> None:
    """A language model whose auto_map names a class in evil.py."""
    shutil.copytree(gpt2, directory)
    mark = str(directory.with_suffix(".ran"))
    (directory / "evil.py").write_text(EVIL.format(mark=mark))
    config, tokenizer = directory / "config.json", directory / "tokenizer_config.json"
    if name == "AutoConfig":
        change(config, model_type="evil", auto_map={name: "evil.Config"})
    elif name == "AutoModelForCausalLM":  # of a type that has no language model in transformers
        change(config, model_type="vit", auto_map={name: "evil.Model"})
    else:
        auto_map = {name: [None, "evil.Tokenizer"]}
        change(tokenizer, tokenizer_class="EvilTokenizer", auto_map=auto_map)
        change(config, model_type="gpt2")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("AutoConfig", "a model of a class of its own"),
        ("AutoModelForCausalLM", "a model of a class of its own"),
        ("AutoTokenizer", "a tokenizer of a class of its own"),
    ],
)
def test_code_of_a_directory_is_never_run_and_standard_input_never_asked(
    gpt2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    evil_directory(gpt2, tmp_path / "evil", name)
    command = ["score", "-", "--model", "hf-lm:evil", "--out", "new.gz", "--device", "cpu"]
    ended = CliRunner().invoke(main, command, input="y\ny\ny\n", prog_name="rescorer")
    assert not (tmp_path / "evil.ran").exists()
    assert ended.exit_code == 1, ended.output
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"rescorer: error: evil: found {what} {NEVER_RUN}"), line
    assert not (tmp_path / "new.gz").exists()


def test_of_a_class_that_transformers_has_the_code_in_the_directory_is_left_alone(
    gpt2: Path, tmp_path: Path
) -> None:
    from rescorer.models.pretrained.hugging_face import load_hugging_face

    evil_directory(gpt2, tmp_path / "evil", "AutoConfig")
    change(tmp_path / "evil" / "config.json", model_type="gpt2")
    pairs = Batch([b"a"], [b"la maison"])
    found, expected = (
        load_hugging_face(each, PretrainedSettings(), Compute(device="cpu"), False).values(pairs)
        for each in (tmp_path / "evil", gpt2)
    )
    assert found == expected and not (tmp_path / "evil.ran").exists()
