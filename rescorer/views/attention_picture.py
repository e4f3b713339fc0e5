"""The attention of one sentence pair as a picture (Bahdanau et al. 2015, Figure 3), PNG and SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rescorer.views.figure_files import label_text, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INCHES_A_WORD = 0.24
# For the words beside the matrix, and the scale.
MARGIN_INCHES = 2.2
COLOURS = "gray"  # black is 0, white is 1, as in the paper
END = b"</s>"


class AttentionPicture(NamedTuple):
    """What is drawn of a pair.

    Attributes:
        title: above it.
        source: words without </s>, from left to right.
        target: words without </s>, from top to bottom.
        weights: with </s> as last row and last column, *Shape:* (I + 1, J + 1).
        given: links of an aligner, each a ring; None draws none.
    """

    title: str
    source: Sequence[bytes]
    target: Sequence[bytes]
    weights: NDArray[np.float32]
    given: Sequence[tuple[int, int]] | None = None


def draw_attention(picture: AttentionPicture, path: Path) -> None:
    """Write the matrix of weights, 0 to 1.

    Args:
        picture: of the pair.
        path: without its suffix; a PNG and an SVG are written.
    """
    n_rows, n_columns = picture.weights.shape
    inches = (
        MARGIN_INCHES + INCHES_A_WORD * n_columns,
        MARGIN_INCHES + INCHES_A_WORD * n_rows,
    )
    with new_figure(inches) as (figure, axes):
        image = axes.imshow(picture.weights, cmap=COLOURS, vmin=0, vmax=1, interpolation="nearest")
        _name_words(picture, axes)
        if picture.given:
            sources, targets = zip(*picture.given, strict=True)
            axes.scatter(sources, targets, s=60, facecolors="none", edgecolors="tab:orange")
        axes.set_title(picture.title, parse_math=False)
        figure.colorbar(image, ax=axes, label="weight", shrink=0.6)
        save_figure(figure, path)


def _name_words(picture: AttentionPicture, axes: Axes) -> None:
    """Source words above the columns, target words beside the rows."""
    source, target = (
        [label_text(word) for word in (*words, END)] for words in (picture.source, picture.target)
    )
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(source)), source, rotation=90, fontsize=8, parse_math=False)
    axes.set_yticks(range(len(target)), target, fontsize=8, parse_math=False)
