from __future__ import annotations

import subprocess
import sys

import pytest

from moses_bridge.base.errors import ConfigError
from rescorer.contract.architectures import ARCHITECTURES, Architecture, load
from rescorer.contract.object_reference import imported_when_called

PROGRAM = """
import sys
from rescorer.contract.architectures import ARCHITECTURES, load
assert "torch" not in sys.modules
load("cslm")
print(*(name for name, module in ARCHITECTURES.items() if module in sys.modules))
"""


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_each_name_leads_to_an_architecture(name: str) -> None:
    assert isinstance(load(name), Architecture)
    assert load(name) is load(name)


def test_only_the_one_that_is_asked_for_is_imported() -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    assert result.stdout.split() == [b"cslm"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("endec", "did you mean 'encdec'"), ("cslms", "'cslm'"), ("xyz", "there are encdec, cslm")],
)
def test_an_unknown_name_is_refused(name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=f"no architecture '{name}'; .*{hint}"):
        load(name)


SCORING = """
import sys
from rescorer.contract.architectures import load
load("encdec")
print(*(name for name in sys.modules if name.startswith("rescorer.training.")))
print("rescorer.tries.generation" in sys.modules, "rescorer.tries.task" in sys.modules)
"""


def test_scoring_loads_neither_training_nor_generation() -> None:
    """But for the settings, which say how large a network is."""
    result = subprocess.run([sys.executable, "-c", SCORING], capture_output=True, check=True)
    training, others = result.stdout.splitlines()
    assert training.split() == [b"rescorer.training.loop_config"]
    assert others.split() == [b"False", b"False"]


def test_a_function_is_imported_when_it_is_called() -> None:
    assert imported_when_called("math:pow", 3.0)(2.0) == 8.0
    missing = imported_when_called("math:there_is_no_such_name")
    with pytest.raises(ConfigError, match="there_is_no_such_name"):
        missing()
