from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PICTURES = {
    "tuning": """\
from pathlib import Path
from tuning.report.pictures import draw_panels
draw_panels(Path("out.svg"), [lambda axes: axes.plot([1, 2])])
""",
    "rescorer": """\
from rescorer.views.pictures import new_figure
with new_figure((1, 1)) as (figure, axes):
    figure.savefig("out.svg")
""",
}


@pytest.mark.parametrize("package", PICTURES)
def test_settings_in_the_working_directory_have_no_effect(package: str, tmp_path: Path) -> None:
    """As in a folder from somebody else; LaTeX would be run for all texts."""
    pytest.importorskip("matplotlib")
    (tmp_path / "matplotlibrc").write_bytes(b"text.usetex: True\n")
    subprocess.run([sys.executable, "-c", PICTURES[package]], cwd=tmp_path, check=True)
    assert (tmp_path / "out.svg").exists()
