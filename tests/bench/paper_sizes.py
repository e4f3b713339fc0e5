"""The network of Cho et al. (2014), section 4.1.1, which both benchmarks of networks have as second size."""

from __future__ import annotations

from rescorer.scorers.encdec import EncDecConfig

PAPER_SIZES = EncDecConfig(hidden_width=1000, embedding_width=100, maxout_width=500)
