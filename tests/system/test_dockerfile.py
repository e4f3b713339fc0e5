"""The Dockerfile, as far as it can be checked without Docker: what it copies is there and is not ignored."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INSTRUCTION = re.compile(r"(?m)^([A-Z]+) ((?:.*\\\n)*.*)$")


@pytest.fixture(scope="module")
def instructions() -> list[tuple[str, str]]:
    """Each instruction with its arguments, continued lines joined."""
    text = re.sub(r"(?m)^\s*#.*\n", "", (ROOT / "Dockerfile").read_text())
    return [(name, rest.replace("\\\n", " ")) for name, rest in INSTRUCTION.findall(text)]


def test_what_it_copies_is_there_and_is_not_ignored(instructions: list[tuple[str, str]]) -> None:
    sent = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {
        name
        for kind, rest in instructions
        if kind == "COPY" and "--from" not in rest
        for name in rest.split()[:-1]
    }
    assert copied == sent
    for name in copied:
        assert (ROOT / name).exists(), name


def test_it_has_two_stages_and_ends_without_root(instructions: list[tuple[str, str]]) -> None:
    stages = [rest for kind, rest in instructions if kind == "FROM"]
    assert len(stages) == 2 and all(stage.split(" ")[0].endswith("-slim") for stage in stages)
    assert (
        stages[0].split(" ")[0] == stages[1].split(" ")[0]
    )  # a virtual environment names its Python
    users = [rest for kind, rest in instructions if kind == "USER"]
    assert users and users[-1] not in ("root", "0")
    assert not [rest for kind, rest in instructions if kind == "RUN" and "sudo" in rest]


def test_it_has_a_python_and_the_extras_of_the_project(
    instructions: list[tuple[str, str]],
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = re.search(r"python:(\d+\.\d+)", instructions[0][1])
    assert found and f"Programming Language :: Python :: {found[1]}" in project["classifiers"]
    extras = [match for _, rest in instructions for match in re.findall(r"\.\[([\w,]+)\]", rest)]
    assert extras and set(extras[0].split(",")) <= project["optional-dependencies"].keys()
    assert "torch==" in (ROOT / "constraints.txt").read_text()
