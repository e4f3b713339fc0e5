from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from rescorer.views.map_layout import Window
from rescorer.views.pictures import Picture, draw_map, draw_zoom

PNG = b"\x89PNG\r\n\x1a\n"
HOSTILE = [
    b"<script>alert(1)</script>",
    b"$x^2 \\frac",
    "\u202eright to left \u05d0".encode(),
    b"\x00\x1b[1m",
    b"a" * 10_000,
    "漢字".encode(),
    b"\xff\xfe",
    b"&lt;b&gt;",
]


def test_hostile_text_shows_as_text(tmp_path: Path) -> None:
    places = np.stack([np.arange(8) % 3, np.arange(8)], axis=1).astype(float)
    picture = Picture("a map", places, HOSTILE, np.arange(8.0), "shade")
    window = Window(0, 7, 0, 7)
    draw_map(picture, [window], tmp_path / "m")
    draw_zoom(picture, window, 1, tmp_path / "z")
    for name in ("m", "z"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(PNG)
        root = ElementTree.parse(tmp_path / f"{name}.svg").getroot()
        assert not [tag for tag in root.iter() if tag.tag.endswith("script")]
    texts = [tag.text for tag in root.iter() if tag.tag.endswith("text")]
    assert "<script>alert(1)</script>" in texts and r"$x^2 \frac" in texts and "<b>" in texts
    assert "a" * 39 + "…" in texts
    draw_zoom(picture, window, 1, tmp_path / "again")
    assert (tmp_path / "again.svg").read_bytes() == (tmp_path / "z.svg").read_bytes()


def test_labels_do_not_cover_each_other(tmp_path: Path) -> None:
    """Ten in one place: one has room."""
    picture = Picture("a map", np.zeros((10, 2)), [b"word"] * 10, np.arange(10.0), "shade")
    draw_zoom(picture, Window(-1, 1, -1, 1), 1, tmp_path / "z")
    assert "1 of 10 labels have room" in (tmp_path / "z.svg").read_text()
