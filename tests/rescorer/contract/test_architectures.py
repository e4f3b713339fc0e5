from __future__ import annotations

import subprocess
import sys

import pytest

from moses_bridge.base.errors import ConfigError
from rescorer.contract.architectures import ARCHITECTURES, Architecture, load

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
