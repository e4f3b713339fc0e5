"""matplotlib, loaded without a `matplotlibrc` of the working directory, which may be somebody else's."""

from __future__ import annotations

import contextlib
import os


def load_matplotlib() -> None:
    """Import matplotlib as if in the root directory; it reads its settings when it is first imported.

    The user's own settings, in `~/.config/matplotlib`, have their effect.
    """
    with contextlib.chdir(os.sep):
        import matplotlib  # noqa: F401
