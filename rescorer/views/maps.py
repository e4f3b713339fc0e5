"""Maps of the words and the phrases of a network: Figures 4 and 5 of Cho et al. (2014)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from moses_bridge.base.config import AtLeast, Limited
from moses_bridge.base.errors import InputError
from moses_bridge.base.json_files import write_json
from moses_bridge.base.lock import held_directory
from moses_bridge.base.overwriting import refuse_overwriting
from moses_bridge.base.progress import Progress, track_blocks
from moses_bridge.base.textio import place_of
from moses_bridge.formats.alignment import parse_links
from moses_bridge.formats.phrase_table import (
    Block,
    alignment_column,
    direct_prob,
    has_counts,
    inverse_prob,
    read_blocks,
    source_count,
    target_count,
)
from moses_bridge.formats.words import as_text, split_words
from rescorer.contract.architectures import load
from rescorer.contract.choices import Colour, MapKind, Side
from rescorer.contract.compute import Compute
from rescorer.models.learned import Learned
from rescorer.tables.source_table import table_identity
from rescorer.views.map_layout import Layout, Purity, Window, densest_windows, layout, map_purity
from rescorer.views.phrase_vectors import (
    ROWS_AT_ONCE,
    distinct_phrases,
    encoded_blocks,
    known_phrases,
    unit_rows,
)
from rescorer.views.pictures import Picture, draw_map, draw_zoom

FEWEST_POINTS = 10
FORMAT_VERSION = 1


@dataclass(frozen=True)
class MapConfig(Limited):
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


@dataclass(frozen=True)
class MapPoints:
    """Words or phrases to be laid out.

    Attributes:
        kind: which of both.
        texts: the words or phrases.
        vectors: the network's, *Shape:* (n, d).
        lengths: words of each.
        frequencies: of a word the number of distinct phrases with it; of a phrase how often it was
            extracted, None if the table has no counts.
        counterparts: of a phrase its best translation, b"" of a word.
        linked: the words of that translation linked to a word of the phrase, in their order.
    """

    kind: MapKind
    texts: list[bytes]
    vectors: NDArray[np.float32]
    lengths: list[int]
    frequencies: list[float] | None
    counterparts: list[bytes]
    linked: list[list[bytes]]

    def __len__(self) -> int:
        return len(self.texts)


def word_points(learned: Learned, table: Path, side: Side, n_words: int) -> MapPoints:
    """The at most n_words words of a side's shortlist found in most phrases of a table.

    Raises:
        InputError: the network has no vectors of words of this side, or the table is malformed.
    """
    known, vectors = learned.word_vectors(side)
    n_phrases = Counter(
        word for phrase in distinct_phrases(table, side) for word in set(split_words(phrase))
    )
    ranked = sorted(range(len(known)), key=lambda row: -n_phrases[known[row]])
    chosen = [row for row in ranked[:n_words] if n_phrases[known[row]]]
    texts = [known[row] for row in chosen]
    return MapPoints(
        "words",
        texts,
        vectors[chosen],
        [1] * len(texts),
        [float(n_phrases[word]) for word in texts],
        [b""] * len(texts),
        [[] for _ in texts],
    )


def phrase_points(
    learned: Learned, table: Path, side: Side, n_phrases: int, seed: int, compute: Compute
) -> MapPoints:
    """Phrases of a table drawn at random, as in Cho et al. (2014), section 4.4 and figure 5.

    At most n_phrases distinct phrases of a column are drawn, those with only words known to the
    network. The table is read twice.

    Raises:
        InputError: the network makes no vector of a phrase, or the table is malformed.
    """
    summaries = learned.summaries(compute)
    known = known_phrases(distinct_phrases(table, side), learned.reads, table)
    drawn = np.random.default_rng(seed).permutation(len(known))[:n_phrases]
    texts = [known[row] for row in np.sort(drawn)]
    best = _best_translations(texts, table, side)
    counts = [best[text].count for text in texts]
    return MapPoints(
        "phrases",
        texts,
        np.concatenate(list(encoded_blocks(texts, summaries))),
        [len(split_words(text)) for text in texts],
        None if None in counts else [count or 0.0 for count in counts],
        [best[text].words for text in texts],
        [best[text].linked for text in texts],
    )


@dataclass(frozen=True)
class _Translation:
    """A phrase's best translation so far, its linked words, and how often it was extracted."""

    prob: float
    words: bytes
    linked: list[bytes]
    count: float | None


def _best_translations(
    phrases: Sequence[bytes], table: Path, side: Side
) -> dict[bytes, _Translation]:
    """The translation of highest probability of each phrase; of equal ones the first in the table."""
    best: dict[bytes, _Translation] = {}
    wanted = set(phrases)
    for block in track_blocks(read_blocks(table, ROWS_AT_ONCE), "read translations", table):
        for phrase, found in _translations(block, wanted, table, side):
            if phrase not in best or found.prob > best[phrase].prob:
                best[phrase] = found
    return best


def _translations(
    block: Block, wanted: set[bytes], table: Path, side: Side
) -> Iterator[tuple[bytes, _Translation]]:
    columns = (block.sources, block.targets)
    own, other = columns if side == "source" else columns[::-1]
    prob_of = direct_prob if side == "source" else inverse_prob
    count_of = source_count if side == "source" else target_count
    for row, line in enumerate(block.lines):
        phrase = b" ".join(split_words(own[row]))
        if phrase not in wanted:
            continue
        place = (line, table, block.first_line + row)
        linked = _linked_words(other[row], alignment_column(line), side, table, place[2])
        count = count_of(*place) if has_counts(line) else None
        yield phrase, _Translation(prob_of(*place), other[row], linked, count)


def _linked_words(
    words: bytes, links: bytes, side: Side, table: Path, line_number: int
) -> list[bytes]:
    """The words of the other side touched by a link, in their order."""
    split, place = split_words(words), 1 if side == "source" else 0
    touched = sorted({link[place] for link in parse_links(links, table, line_number)})
    if touched and touched[-1] >= len(split):
        found = f"a link to word {touched[-1]} of {len(split)}"
        raise InputError(table, line_number, found, "links inside the pair")
    return [split[number] for number in touched]


@dataclass(frozen=True)
class Map:
    """Words or phrases in the plane, with the parts drawn apart.

    The purity is that of phrases with word links, on the map and by the vectors it was made from.
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
    """Write maps of a table, and return them: KIND.json, .png and .svg, KIND-zoomN.png and .svg.

    The folder is made if missing; compute is for encoding phrases.

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
    of = load(learned.model.architecture)
    parts: dict[MapKind, object] = {"words": of.embeddings, "phrases": of.summaries}
    return [kind for kind in parts if parts[kind]] or [*parts]


def _points(
    kind: MapKind, learned: Learned, table: Path, config: MapConfig, compute: Compute
) -> MapPoints:
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
        "purity": [asdict(row) for row in made.purity],
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
