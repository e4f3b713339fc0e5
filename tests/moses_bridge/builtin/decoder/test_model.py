from __future__ import annotations

from pathlib import Path

import pytest

from moses_bridge.builtin.decoder.model import load_model
from moses_bridge.errors import ConfigError, InputError

ARPA = b"""\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-1.5\t<unk>\t0
0\t<s>\t-0.3
-1.0\t</s>\t0
-0.7\ta\t-0.2
-0.9\tb\t-0.4

\\2-grams:
-0.2\t<s> a
-0.6\ta b
-0.1\tb </s>

\\end\\
"""


INI = """[distortion-limit]
6
[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=2 path=table
LexicalReordering name=LexicalReordering0 num-features=6 type=wbe-msd-bidirectional-fe-allff path=reordering
Distortion
KENLM name=LM0 factor=0 path=lm.arpa order=2
[weight]
TranslationModel0= 0.5 0.25
LM0= 0.5
"""


def write_model(folder: Path, table: bytes, reordering: bytes = b"", ini: str = INI) -> Path:
    (folder / "table").write_bytes(table)
    (folder / "reordering").write_bytes(reordering)
    (folder / "lm.arpa").write_bytes(ARPA)
    (folder / "moses.ini").write_text(ini)
    return folder / "moses.ini"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Distortion\n", "Distortion\nOpSequenceModel\n", "no feature OpSequenceModel"),
        ("Distortion\n", "Distortion\nKENLM name=LM1 path=lm.arpa\n", "2 features of kind KENLM"),
        ("msd-bidirectional-fe-allff", "mslr-fe", "type=wbe-mslr-fe"),
        ("factor=0", "factor=1", "factor=1"),
        ("[weight]", "[weight]\nLM7= 1", "LM7"),
        ("LM0= 0.5", "LM0= 0.5 0.5", "LM0"),
        ("LM0= 0.5", "LM0= nan", "finite"),
        ("]\n6", "]\nsix", "'six'"),
        (" path=table", "", "no path="),
    ],
)
def test_what_the_decoder_cannot_do_is_said(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    ini = write_model(tmp_path, b"x ||| a ||| 1 1\n", ini=INI.replace(old, new, 1))
    with pytest.raises((ConfigError, InputError), match=message):
        load_model(ini, None, None).weight_vector(None)


def test_a_table_is_needed(tmp_path: Path) -> None:
    ini = write_model(tmp_path, b"")
    ini.write_text("[feature]\nWordPenalty\n")
    with pytest.raises(ConfigError, match="no PhraseDictionaryMemory"):
        load_model(ini, None, None)
