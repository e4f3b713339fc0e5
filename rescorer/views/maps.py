"""Maps of the words and the phrases of a network: Figures 4 and 5 of Cho et al. (2014)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.config import AtLeast, check_limits
from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import write_json
from moses_bridge.base.lock import held_directory
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.progress import Progress
from moses_bridge.base.textio import place_of
from moses_bridge.formats.words import as_text, split_words
from rescorer.contract.choices import Colour, MapKind, Side
from rescorer.contract.compute import Compute
from rescorer.models.learned import Learned
from rescorer.tables.source_table import table_identity
from rescorer.views.map_layout import Layout, Purity, Window, densest_windows, layout, map_purity
from rescorer.views.map_points import MapPoints, phrase_points, word_points
from rescorer.views.phrase_vectors import unit_rows
from rescorer.views.pictures import Picture, draw_map, draw_zoom

FEWEST_POINTS = 10
FORMAT_VERSION = 1


@dataclass(frozen=True)
class MapConfig:
    """The content of a map.

    Attributes:
        side: of the words; the column with phrases the network reads.
        n_words: words, those in most phrases of the table.
        n_phrases: phrases, drawn at random from those of the table; 5,000 in Cho et al. (2014),
            figure 5.
        colour: the value shown by the colour of a phrase; that of a word shows its frequency.
        n_zooms: parts drawn apart.
        zoom_points: words or phrases in each of them.
        seed: of the draw and of the layout.
    """

    side: Side = "source"
    n_words: Annotated[int, AtLeast(FEWEST_POINTS)] = 1000
    n_phrases: Annotated[int, AtLeast(FEWEST_POINTS)] = 2000
    colour: Colour = "length"
    n_zooms: Annotated[int, AtLeast(0)] = 3
    zoom_points: Annotated[int, AtLeast(2)] = 40
    seed: int = 1

    def __post_init__(self) -> None:
        check_limits(self)


@dataclass(frozen=True)
class Map:
    """Words or phrases in the plane.

    Attributes:
        points: the words or phrases.
        layout: their places.
        windows: the parts drawn apart.
        purity: of phrases whose table has word links, on the map and by the vectors it was made
            from.
    """

    points: MapPoints
    layout: Layout
    windows: list[Window]
    purity: list[Purity]


def draw_maps(
    learned: Learned,
    table: Path,
    out: Path,
    kinds: Sequence[MapKind],
    config: MapConfig,
    compute: Compute | None = None,
) -> list[Map]:
    """Write maps, and return them: KIND.json, KIND.png and KIND.svg, and KIND-zoomN.png and .svg.

    Args:
        learned: the model.
        table: a phrase table.
        out: a folder, made if missing.
        kinds: of the maps.
        config: their content.
        compute: how phrases are encoded.

    Raises:
        InputError: the network has no such vectors, the table is malformed or has too few of them,
            or it has no counts although the colour shows frequency.
        ConfigError: openTSNE is not installed, or the table or the model would be overwritten.
        UserError: another command writes into the folder.
    """
    refuse_overwriting([out, *(out / f"{kind}.json" for kind in kinds)], [table, learned.directory])
    maps = []
    with held_directory(out):
        # All of them are read before the first one is drawn: what is wrong is said at once.
        shown = [_points(kind, learned, table, config, compute or Compute()) for kind in kinds]
        for points in shown:
            made = _map(points, config)
            _draw(made, config, out / points.kind)
            write_json(out / f"{points.kind}.json", as_json(made, learned, table, config))
            maps.append(made)
    return maps


def kinds_of(learned: Learned) -> list[MapKind]:
    """The maps for which a model has vectors; both, if it has none at all."""
    has: dict[MapKind, bool] = {"words": learned.has_words, "phrases": learned.has_phrases}
    return [kind for kind in has if has[kind] or not any(has.values())]


def _points(
    kind: MapKind, learned: Learned, table: Path, config: MapConfig, compute: Compute
) -> MapPoints:
    """The content of a map, checked."""
    if kind == "words":
        points = word_points(learned, table, config.side, config.n_words)
    else:
        points = phrase_points(learned, table, config.side, config.n_phrases, config.seed, compute)
    if len(points) < FEWEST_POINTS:
        raise InputError(
            table, None, f"{len(points)} {kind} that the model knows", f"{FEWEST_POINTS}"
        )
    if points.frequencies is None and config.colour == "frequency":
        raise InputError(
            table, None, "no counts in column 5", "them, for a map coloured by frequency"
        )
    return points


def _map(points: MapPoints, config: MapConfig) -> Map:
    made = layout(points.vectors, config.seed)
    windows = densest_windows(made.places, config.n_zooms, config.zoom_points)
    spaces: dict[str, NDArray[np.floating[Any]]] = {
        "map": made.places,
        "vectors": unit_rows(points.vectors),
    }
    own_words = [split_words(text) for text in points.texts]
    purity = [
        row
        for space, places in spaces.items()
        for row in map_purity(places, space, own_words, points.linked)
    ]
    return Map(points, made, windows, purity)


def _draw(made: Map, config: MapConfig, path: Path) -> None:
    points = made.points
    shades, legend = _shades(points, config.colour)
    title = f"{len(points):,} {config.side} {points.kind}"
    picture = Picture(title, made.layout.places, points.texts, shades, legend)
    n_pictures = 1 + len(made.windows)
    with Progress(f"draw {points.kind}", n_pictures, "pictures") as progress:
        draw_map(picture, made.windows, path)
        progress.update()
        for number, window in enumerate(made.windows, start=1):
            draw_zoom(picture, window, number, path.with_name(f"{path.name}-zoom{number}"))
            progress.update()


def _shades(points: MapPoints, colour: Colour) -> tuple[NDArray[np.float64], str]:
    """The values shown by the points' colours, and their name."""
    if points.kind == "phrases" and colour == "length":
        return np.array(points.lengths, np.float64), "words in the phrase"
    unit = "extracted" if points.kind == "phrases" else "phrases with the word"
    return np.log10(points.frequencies or []), f"{unit}, log10"


def as_json(made: Map, learned: Learned, table: Path, config: MapConfig) -> dict[str, Any]:
    """For a JSON file."""
    points = made.points
    return {
        "format_version": FORMAT_VERSION,
        "kind": points.kind,
        "side": config.side,
        "model": {"path": str(learned.directory), "fingerprint": learned.fingerprint},
        "table": table_identity(place_of(table)),
        "seed": config.seed,
        "method": made.layout.method,
        "perplexity": made.layout.perplexity,
        "kl_divergence": made.layout.kl_divergence,
        "purity": [row.as_json for row in made.purity],
        "zooms": [window._asdict() for window in made.windows],
        "points": [_point_as_json(made, row) for row in range(len(points))],
    }


def _point_as_json(made: Map, row: int) -> dict[str, Any]:
    points = made.points
    x, y = made.layout.places[row]
    return {
        "text": as_text(points.texts[row]),
        "x": round(float(x), 4),
        "y": round(float(y), 4),
        "length": points.lengths[row],
        "frequency": None if points.frequencies is None else points.frequencies[row],
        "counterpart": as_text(points.counterparts[row]),
    }
