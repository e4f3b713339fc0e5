from __future__ import annotations

import pytest

from moses_bridge.corpus.text_pair import TextPair, n_words, sentence_pairs, tidy


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


def test_texts_of_as_many_sentences_are_split() -> None:
    found = [*sentence_pairs("g", "It works. It is fast.", "Ça marche. Oui.", "en", "fr")]
    assert found == [
        TextPair("g", "It works.", "Ça marche."),
        TextPair("g", "It is fast.", "Oui."),
    ]
    one, other = "It works. It is fast.", "Ça marche"
    assert [*sentence_pairs(None, one, other, "en", "fr")] == [TextPair(None, one, other)]
    assert [n_words(text) for text in ("", "a", "a b c")] == [0, 1, 3]
