from __future__ import annotations

import pytest

from moses_bridge.corpus.text_pair import tidy


@pytest.mark.parametrize(
    ("broken", "repaired"),
    [
        ("supprimÃ© en toute sÃ©curitÃ©", "supprimé en toute sécurité"),
        ("dâ\u0080\u0099un Â«Â\u00a0motÂ\u00a0Â»", "d’un « mot »"),
        ("À VOIR, Ü», déjà», Âme", "À VOIR, Ü», déjà», Âme"),
        ("e\u0301te\u0301\u200b \t x\u00a0y\x07", "été x y"),
    ],
)
def test_text_is_repaired(broken: str, repaired: str) -> None:
    assert tidy(broken) == repaired
