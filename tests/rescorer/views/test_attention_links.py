from __future__ import annotations

import numpy as np

from rescorer.views.attention_links import attention_links

# Three target words and </s>; two source words and </s>.
WEIGHTS = np.array(
    [[0.2, 0.7, 0.1], [0.3, 0.3, 0.4], [0.4, 0.35, 0.25], [0.9, 0.05, 0.05]], np.float32
)


def test_each_target_word_with_its_most_attended_source_word() -> None:
    """The second one looks most at </s>, and the last row is that of </s>."""
    assert attention_links(WEIGHTS) == [(1, 0), (0, 2)]


def test_a_link_needs_the_smallest_weight() -> None:
    assert attention_links(WEIGHTS, 0.5) == [(1, 0)]
    assert attention_links(WEIGHTS, 0.71) == []


def test_of_equal_weights_the_first_counts() -> None:
    assert attention_links(np.full((2, 2), 0.5, np.float32)) == [(0, 0)]
