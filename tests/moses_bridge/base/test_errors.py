from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from moses_bridge.base.errors import (
    ConfigError,
    InputError,
    ToolError,
    UserError,
    arguments_named,
)


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


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ConfigError("leave --device out"), "leave device out"),
        (
            ConfigError("m: continue it with --resume, or with --overwrite"),
            "m: continue it with resume=True, or with overwrite=True",
        ),
        (ConfigError("the model's: name --ini-out of 'it'"), "the model's: name ini_out of 'it'"),
        (
            InputError("t", 3, "'a --b'", "x", "Take `moses --verbose` or --trust-code"),
            "t:3: found 'a --b', expected x. Take `moses --verbose` or trust_code=True",
        ),
        (ConfigError("a -- b, -x, non--sense"), "a -- b, -x, non--sense"),
        (ToolError(["moses", "--x"], 1, "no --x"), "moses --x: failed with status 1: no --x"),
    ],
)
def test_python_names_arguments_instead_of_options(error: UserError, message: str) -> None:
    with pytest.raises(type(error)) as raised, arguments_named():
        raise error
    assert raised.value is error and str(error) == message
