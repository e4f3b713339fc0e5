from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError, InputError, ToolError, UserError


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InputError("t.gz", 3, "2 columns", "3"), "t.gz:3: found 2 columns, expected 3"),
        (InputError(Path("a/t"), None, "x", "y", "Mend it"), "a/t: found x, expected y. Mend it"),
        (ConfigError("no key 'x'"), "no key 'x'"),
        (
            ToolError(["moses", "-f", "a b"], 1, " out\n"),
            "moses -f 'a b': failed with status 1: out",
        ),
        (ToolError(["moses"], None, "no such file"), "moses: could not be started: no such file"),
    ],
)
def test_messages(error: UserError, message: str) -> None:
    assert str(error) == message
    assert isinstance(error, UserError)
    sent = pickle.loads(pickle.dumps(error))  # to another process
    assert (type(sent), str(sent), vars(sent)) == (type(error), message, vars(error))
