from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.builtin.decoder.model import load_model

ModelWriter = Callable[[bytes, str], Path]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Distortion\n", "Distortion\nOpSequenceModel\n", "no feature OpSequenceModel"),
        ("Distortion\n", "Distortion\nDistortion\n", "2 features of kind Distortion"),
        ("Distortion\n", "Distortion num-features=2\n", "Distortion0 has num-features=2"),
        ("msd-bidirectional-fe-allff", "mslr-fe", "type=wbe-mslr-fe"),
        ("factor=0", "factor=1", "factor=1"),
        ("[weight]", "[weight]\nLM7= 1", "LM7"),
        ("LM0= 0.5", "LM0= 0.5 0.5", "LM0"),
        ("LM0= 0.5", "LM0= nan", "finite"),
        ("]\n6", "]\nsix", "'six'"),
        (" path=table", "", "no path="),
        (" path=table", " path=/dev/zero", "/dev/zero: found a device, expected the file of T"),
        (" path=lm.arpa", " path=/dev/zero", "/dev/zero: found a device, expected the file of LM0"),
    ],
)
def test_unsupported_settings_are_named(
    write_model: ModelWriter, small_ini: str, old: str, new: str, message: str
) -> None:
    ini = write_model(b"x ||| a ||| 1 1\n", small_ini.replace(old, new, 1))
    with pytest.raises((ConfigError, InputError), match=message):
        load_model(ini, None, None).weight_vector(None)


def test_a_table_is_needed(write_model: ModelWriter) -> None:
    ini = write_model(b"", "[feature]\nWordPenalty\n")
    with pytest.raises(ConfigError, match="no PhraseDictionaryMemory"):
        load_model(ini, None, None)
