"""Commands of a run directory that need no permission, and those that do."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError
from tuning.loop.fingerprints import refuse_commands
from tuning.loop.list_features import NBestFeature
from tuning.loop.run_directory import TuningRun

RESCORER = Path(sysconfig.get_path("scripts"), "rescorer")
NBEST = f"{RESCORER} nbest {{nbest}} --source {{source}} --model /m/a --feature NN0 --out "


def run_with(command: str) -> TuningRun:
    if "{nbest}" in command:
        return TuningRun("ini", {}, 0.0, 1, 1, {}, [NBestFeature("NN0", command)])
    return TuningRun("ini", {}, 0.0, 1, 1, {"neural_lm": [f"NN0={command}"]})


@pytest.mark.parametrize(
    "command",
    [f"{RESCORER} serve /m/a --unnormalized", f"{RESCORER} serve m", f"{NBEST}{{out}}"],
)
def test_a_model_is_read_by_this_installation_without_permission(command: str) -> None:
    refuse_commands({Path("run"): run_with(command)})


@pytest.mark.parametrize(
    "command",
    [
        "rescorer serve m",  # another program may have this name on the PATH
        "/tmp/rescorer serve m",
        f"{RESCORER} serve m --trust-code",
        f"{RESCORER} serve --trust-code",
        f"{RESCORER} serve 'm; rm x'",
        f"{RESCORER} train m",
        f"{NBEST}/etc/passwd {{out}}",
        f"{NBEST}{{out}} --trust-code",
        "sh -c true",
    ],
)
def test_any_other_command_needs_permission(command: str) -> None:
    with pytest.raises(ConfigError, match="allow it with --run-commands"):
        refuse_commands({Path("run"): run_with(command)})
