"""Sentences of documents without near copies in later documents, for dev and test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from moses_bridge.base.near_copies import nearest_similarities

FEWEST_AT_ONCE = 100  # sentences; a look at all the others costs a second
SPARE = 1.3  # times as many sentences as are wanted are looked at: some are near copies


def far_of_later(
    documents: Sequence[Sequence[str]],
    others: Sequence[str],
    near_copy: float,
    n_wanted: int,
    jobs: int = 1,
) -> Iterator[list[bool]]:
    """Yield for each document which of its sentences are no near copies of those of later ones.

    Sentences are compared when a document is asked for, some more of them at a time, so that the first
    documents of many cost little.

    Args:
        documents: tokenised sentences of each.
        others: tokenised sentences that are later than all documents.
        near_copy: the smallest similarity of a near copy, as of `nearest_similarities`; 0 finds none.
        n_wanted: how many sentences are likely to be wanted.
        jobs: number of threads; -1 takes one for each processor.
    """
    if not near_copy:
        yield from ([True] * len(sentences) for sentences in documents)
        return
    texts = [*chain(*documents, others)]
    ranks = [rank for rank, sentences in enumerate(documents) for _ in sentences]
    ranks += [len(documents)] * len(others)
    first = n_done = n_far = 0
    while first < len(documents):
        n_at_once = max(FEWEST_AT_ONCE, SPARE * (n_wanted - n_far))
        last, end = first, n_done
        while last < len(documents) and end - n_done < n_at_once:
            end += len(documents[last])
            last += 1
        found = nearest_similarities(
            texts[n_done:end], texts[n_done:], near_copy, (ranks[n_done:end], ranks[n_done:]), jobs
        )
        far = iter((found < near_copy).tolist())
        for sentences in documents[first:last]:
            is_far = [next(far) for _ in sentences]
            n_far += sum(is_far)
            yield is_far
        first, n_done = last, end
