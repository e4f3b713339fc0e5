from __future__ import annotations

from rescorer.views.preference_files import markdown_cell, to_markdown
from rescorer.views.preferences import (
    Preference,
    Preferences,
    PreferencesConfig,
    Preferred,
    SourcePhrase,
)

HOSTILE = b"<script>|[a](b) &#124; `c`"


def one_row() -> Preferences:
    phrase = SourcePhrase(HOSTILE, "rare", 2.0, (b"x", HOSTILE), (0.25, 0.5), (b"", b""))
    table = Preferred((HOSTILE, b"x"), (0.5, 0.25))
    network = Preferred((b"x", HOSTILE), (-1.25, -20.0))
    row = Preference(phrase, table, {"A|B": network})
    return Preferences(PreferencesConfig(), 1234, 9, 2, (row,))


def test_hostile_text_stays_in_its_cell() -> None:
    shown = r"\<script\>\|\[a\]\(b\) \| \`c\`"
    lines = to_markdown(one_row()).splitlines()
    assert r"| source phrase | count | table p | A\|B log p |" in lines
    assert f"| {shown} | 2 | {shown} (0.5) | x (-1.25) |" in lines
    assert f"|  |  | x (0.25) | {shown} (-20.00) |" in lines


def test_what_was_drawn_is_said() -> None:
    text = to_markdown(one_row())
    assert "Drawn by seed 1 from 1,234 source phrases of 4 words or more with 3 targets" in text
    assert "**Long, frequent source phrases**" in text and "for 0 of 1." in text


def test_nothing_is_markup() -> None:
    assert markdown_cell(b"<script> a|b *c* `d` [e](f)") == (
        r"\<script\> a\|b \*c\* \`d\` \[e\]\(f\)"
    )
