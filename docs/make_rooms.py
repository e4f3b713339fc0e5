"""Draw docs/images/rooms.svg: the rooms of the three packages, their imports, and the walls between them.

Places are given here; arrows are read from the imports. An arrow that follows from others (a room imports what
a room imported by it imports) is left out.
"""

from __future__ import annotations

import ast
import collections
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

PICTURE = Path(__file__).parent / "images" / "rooms.svg"
ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("moses_bridge", "rescorer", "tuning")
Arrow = tuple[str, str]
ORDINARY = 104  # the width of most boxes


class Box(NamedTuple):
    """A room in the picture: its centre and size in pixels."""

    x: int
    y: int
    width: int = ORDINARY
    height: int = 32

    def edge_towards(self, x: float, y: float) -> tuple[float, float]:
        """Where a line from the centre to a point leaves the box."""
        dx, dy = x - self.x, y - self.y
        shares = (self.width / 2 / abs(dx) if dx else 9.0, self.height / 2 / abs(dy) if dy else 9.0)
        share = min(1.0, *shares)
        return self.x + dx * share, self.y + dy * share

    def part_near(self, other: Box) -> Box:
        """The part of a wide box that is nearest to another one; the box itself if it is not wide."""
        if self.width <= ORDINARY:
            return self
        reach = (self.width - ORDINARY) // 2
        return self._replace(x=min(max(other.x, self.x - reach), self.x + reach), width=ORDINARY)


ROOMS: Mapping[str, Box] = {
    "rescorer.cli": Box(360, 100, 640),
    "rescorer.runs": Box(110, 165),
    "rescorer.tables": Box(260, 215),
    "rescorer.scorers": Box(410, 235),
    "rescorer.models": Box(110, 275),
    "rescorer.tries": Box(350, 330),
    "rescorer.windows": Box(470, 330),
    "rescorer.training": Box(260, 395),
    "rescorer.layers": Box(190, 455),
    "rescorer.contract": Box(190, 515),
    "rescorer.views": Box(620, 165),
    "tuning.cli": Box(960, 100, 400),
    "tuning.report": Box(900, 165),
    "tuning.compare": Box(900, 305),
    "tuning.loop": Box(900, 375),
    "tuning.optimisers": Box(900, 445),
    "tuning.metrics": Box(900, 515),
    "tuning.experiments": Box(1090, 165),
    "moses_bridge.base": Box(230, 745),
    "moses_bridge.formats": Box(550, 745),
    "moses_bridge.cli": Box(920, 660, 224),
    "moses_bridge.tables": Box(860, 715),
    "moses_bridge.corpus": Box(985, 715),
    "moses_bridge.decoding": Box(1110, 715),
    "moses_bridge.builtin": Box(1040, 775, 244),
}
# What a frame holds: title, left, top, width, height, and its class in the style below.
FRAMES = (
    ("rescorer", 20, 50, 680, 500, "package"),
    ("core: read this first", 40, 130, 500, 410, "core"),
    ("lab", 560, 130, 120, 95, "lab"),
    ("tuning", 740, 50, 440, 500, "package"),
    ("moses_bridge", 20, 610, 1160, 222, "package"),
    ("core", 40, 645, 620, 177, "core"),
    ("kit: aligner, extraction, decoder", 790, 635, 380, 187, "lab"),
)
# From package to package: a path, and what it says. Rooms to which these lead are named in the text.
BETWEEN = (
    ("M 330 550 V 640", "formats, base", 342, 578),
    ("M 760 550 V 690 H 667", "formats, base", 772, 578),
    ("M 955 375 H 1110 V 694", "decoding", 1118, 578),
    ("M 674 165 H 690 V 588 H 704 V 788 H 913", "builtin", 640, 592),
)
WALLS = (
    "M 550 130 V 540",
    "M 720 50 V 550",
    "M 728 635 V 822",
    "M 790 600 H 1090 M 1130 600 H 1170",
)
STYLE = """
  text { font: 15px sans-serif; fill: #1b1b1b; }
  .room { fill: #ffffff; stroke: #44546a; stroke-width: 1.3; }
  .package { fill: #f4f4f2; stroke: #8a8a8a; }
  .core { fill: #dcebf7; stroke: none; }
  .lab { fill: #f6e9d2; stroke: none; }
  .title { font-weight: bold; }
  .small { font-size: 12.5px; fill: #444444; }
  .arrow { fill: none; stroke: #44546a; stroke-width: 1.3; marker-end: url(#head); }
  .between { fill: none; stroke: #1f5f99; stroke-width: 2.4; marker-end: url(#wide); }
  .wall { fill: none; stroke: #b3261e; stroke-width: 4; stroke-dasharray: 9 4; }
"""
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 40 1200 830" width="1200" height="830">
<title>The rooms of rescorer, tuning and moses_bridge, the imports between them, and the walls</title>
<style>{style}</style>
<defs>
<marker id="head" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">
<path d="M 0 0 L 9 4 L 0 8 z" fill="#44546a"/></marker>
<marker id="wide" markerWidth="6" markerHeight="6" refX="5" refY="3" orient="auto">
<path d="M 0 0 L 6 3 L 0 6 z" fill="#1f5f99"/></marker>
</defs>
<rect y="40" width="1200" height="830" fill="#ffffff"/>
"""


def module_files() -> dict[str, Path]:
    """The modules of the three packages by name."""
    files = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


def room_of(module: str) -> str:
    """The folder directly in its package that a module is in."""
    return ".".join(module.split(".")[:2])


def arrows() -> set[Arrow]:
    """Which room imports which other one of its package, arrows that follow from others left out."""
    files = module_files()
    direct: dict[str, set[str]] = collections.defaultdict(set)
    for name, path in files.items():
        for other in _imported(path, files):
            if room_of(other) != room_of(name) and {room_of(name), room_of(other)} <= ROOMS.keys():
                direct[room_of(name)].add(room_of(other))
    return {
        (room, other)
        for room, others in direct.items()
        for other in others
        if room.split(".")[0] == other.split(".")[0]
        and not any(other in _reached(direct, third) for third in others - {other})
    }


def _imported(path: Path, files: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom) and node.module in files:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in files else node.module


def _reached(direct: Mapping[str, set[str]], start: str) -> set[str]:
    seen, left = set[str](), [start]
    while left:
        new = direct.get(left.pop(), set()) - seen
        seen |= new
        left += new
    return seen


def picture() -> str:
    """The whole SVG file."""
    lines = [HEAD.format(style=STYLE)]
    for title, left, top, width, height, kind in FRAMES:
        lines.append(
            f'<rect class="{kind}" x="{left}" y="{top}" width="{width}" height="{height}" rx="6"/>'
        )
        # The title of a package stands in its frame's first line, that of a part in its lower right corner.
        y = top + 22 if kind == "package" else top + height - 10
        x = left + 10 if kind == "package" else left + width - 10
        end = "start" if kind == "package" else "end"
        lines.append(f'<text class="title" x="{x}" y="{y}" text-anchor="{end}">{title}</text>')
    lines += [f'<path class="wall" d="{path}"/>' for path in WALLS]
    for path, text, x, y in BETWEEN:
        lines.append(f'<path class="between" d="{path}"/>')
        if text:
            lines.append(f'<text class="small" x="{x}" y="{y}">{text}</text>')
    for one, other in sorted(arrows()):
        lines.append(_line(ROOMS[one], ROOMS[other]))
    for name, box in ROOMS.items():
        left, top = box.x - box.width // 2, box.y - box.height // 2
        lines.append(
            f'<rect class="room" x="{left}" y="{top}" width="{box.width}" height="{box.height}" rx="4"/>'
        )
        room = name.split(".")[1]
        lines.append(f'<text x="{box.x}" y="{box.y + 5}" text-anchor="middle">{room}</text>')
    lines += _legend()
    return "\n".join([*lines, "</svg>", ""])


def _line(one: Box, other: Box) -> str:
    begin, end = one.part_near(other), other.part_near(one)
    (x1, y1), (x2, y2) = begin.edge_towards(end.x, end.y), end.edge_towards(begin.x, begin.y)
    return f'<path class="arrow" d="M {x1:.0f} {y1:.0f} L {x2:.0f} {y2:.0f}"/>'


def _legend() -> list[str]:
    texts = (
        ("arrow", 30, "imports (what follows from other arrows is left out)"),
        ("between", 470, "imports of another package"),
        ("wall", 740, "wall: imports cross it only where an arrow does"),
    )
    lines = []
    for kind, x, text in texts:
        lines.append(f'<path class="{kind}" d="M {x} 852 H {x + 40}"/>')
        lines.append(f'<text class="small" x="{x + 50}" y="857">{text}</text>')
    return lines


if __name__ == "__main__":
    PICTURE.write_text(picture())
