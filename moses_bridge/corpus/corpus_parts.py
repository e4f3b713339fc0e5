"""Dividing a corpus into train, dev and test by document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, compress

from moses_bridge.base.errors import UserError
from moses_bridge.base.near_copies import nearest_similarities
from moses_bridge.corpus.corpus_config import CorpusConfig, random_key
from moses_bridge.corpus.text_pair import CorpusPair

NEAR = "near copies in dev or test"
# Of all pairs in groups; otherwise dev and test would use up a repetitive text.
MOST_NEAR = 0.25
FEWEST_AT_ONCE = 100  # sentences; comparing with all the others costs a second
SPARE = 1.3  # more sentences than wanted are compared, since some are near copies
ALL_NEAR = (
    "no sentence is left for {}: each one is a near copy of another document's (near_copy = {}); make near_copy"
    " larger, or 0 to keep them"
)


def split_parts(
    pairs: list[CorpusPair], config: CorpusConfig, dropped: Counter[str]
) -> dict[str, list[CorpusPair]]:
    """Divide pairs into train, dev and test by group; train keeps the order of `pairs`.

    Groups in the order of a keyed hash of their names fill test, then dev, without near copies of later
    groups and of pairs without a group, which end up in train, in dev or nowhere. So neither test nor dev
    depends on n_train, and pairs without a group affect only their near copies. The rest of the group
    filling a part is dropped.

    Raises:
        UserError: all pairs for dev or test are near copies.
    """
    groups: dict[str, list[CorpusPair]] = {}
    for pair in pairs:
        if pair.raw.group is not None:
            groups.setdefault(pair.raw.group, []).append(pair)
    names = sorted(groups, key=lambda name: random_key(config.seed, name.encode()))
    n_dev, n_test = _held_out_sizes(sum(map(len, groups.values())), config)
    documents = [[pair.source.lower() for pair in groups[name]] for name in names]
    always_in_train = [pair.source.lower() for pair in pairs if pair.raw.group is None]
    far = _far_of_later(
        documents, always_in_train, config.near_copy, n_dev + n_test, config.jobs or -1
    )
    candidates = zip(names, far, strict=True)
    most_near = 0.0
    parts: dict[str, list[CorpusPair]] = {}
    held_out: set[str] = set()
    for part, size in (("test", n_test), ("dev", n_dev)):
        parts[part] = []
        most_near += sum(map(len, groups.values())) * MOST_NEAR * size / max(1, n_dev + n_test)
        while len(parts[part]) < size and dropped[NEAR] <= most_near:
            found = next(candidates, None)
            if found is None:
                break
            name, is_far = found
            kept = list(compress(groups[name], is_far))
            held_out.add(name)
            parts[part] += kept
            dropped[NEAR] += len(groups[name]) - len(kept)
        if size and not parts[part]:
            raise UserError(ALL_NEAR.format(part, config.near_copy))
        dropped["over in dev or test"] += max(0, len(parts[part]) - size)
        del parts[part][size:]
    train = [pair for pair in pairs if pair.raw.group not in held_out]
    return {"train": _sample(train, config, dropped), "dev": parts["dev"], "test": parts["test"]}


def _far_of_later(
    documents: Sequence[Sequence[str]],
    others: Sequence[str],
    near_copy: float,
    n_wanted: int,
    jobs: int = 1,
) -> Iterator[list[bool]]:
    """Yield for each document which sentences are no near copies of those of later ones or of `others`."""
    if not near_copy:
        yield from ([True] * len(sentences) for sentences in documents)
        return
    texts = [*chain(*documents, others)]
    ranks = [rank for rank, sentences in enumerate(documents) for _ in sentences]
    ranks += [len(documents)] * len(others)
    first = n_done = n_far = 0
    # On demand, a block at a time: the first documents, with some n_wanted sentences, cost little.
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


def _held_out_sizes(n_pairs: int, config: CorpusConfig) -> tuple[int, int]:
    wanted = config.n_dev + config.n_test
    if wanted <= n_pairs // 2:
        return config.n_dev, config.n_test
    most = n_pairs // 2
    return config.n_dev * most // wanted, config.n_test * most // wanted


def _sample(
    pairs: list[CorpusPair], config: CorpusConfig, dropped: Counter[str]
) -> list[CorpusPair]:
    if not 0 < config.n_train < len(pairs):
        return pairs
    keys = [random_key(config.seed, pair.raw.source.encode()) for pair in pairs]
    limit = sorted(keys)[config.n_train]
    dropped["over n_train"] += len(pairs) - config.n_train
    return [pair for pair, key in zip(pairs, keys, strict=True) if key < limit]


def nested_texts(
    pairs: Sequence[CorpusPair], sizes: Sequence[int], seed: int
) -> dict[int, list[CorpusPair]]:
    """Training texts with some numbers of pairs, each the beginning of the next one, for a learning curve.

    Whole documents, in the order of a keyed hash of their names, fill each text; the last one is cut.

    Raises:
        UserError: there are fewer pairs than the largest size.
    """
    if max(sizes, default=0) > len(pairs):
        raise UserError(
            f"{len(pairs):,} pairs are left for training, but train_sizes has {max(sizes):,}; leave"
            " that size out"
        )
    names = set(map(document_of, pairs))
    keys = {name: random_key(seed, f"train\t{name}".encode()) for name in names}
    in_order = sorted(pairs, key=lambda pair: keys[document_of(pair)])
    return {size: in_order[:size] for size in sizes}


def document_of(pair: CorpusPair) -> str:
    """The name of a pair's document; a pair without one is a document of its own."""
    return pair.raw.group or f"\t{pair.raw.source}"
