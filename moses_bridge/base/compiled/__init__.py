"""Compiled code: how it is compiled and kept, reading numbers and words, hash tables.

numba is first imported here, without PyYAML, so that it does not read a `.numba_config.yaml` of the working
directory, which could disable the compiler or name another folder for its code.
"""

from __future__ import annotations

import sys
import warnings

# numba warns, now and whenever it compiles, that it cannot read the file.
warnings.filterwarnings("ignore", "A Numba config file is found")
_yaml = sys.modules.get("yaml")
sys.modules["yaml"] = None  # type: ignore[assignment]  # importing it raises ImportError
try:
    import numba as numba
finally:
    del sys.modules["yaml"]
    if _yaml is not None:
        sys.modules["yaml"] = _yaml
