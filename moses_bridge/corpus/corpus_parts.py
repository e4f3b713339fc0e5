"""Dividing a corpus into train, dev and test by document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from itertools import compress

from moses_bridge.base.errors import UserError
from moses_bridge.corpus.corpus_config import CorpusConfig
from moses_bridge.corpus.far_sentences import far_of_later
from moses_bridge.corpus.text_pair import CorpusPair, n_words

NEAR = "near copies in dev or test"
MOST_NEAR = (
    0.25  # of all pairs in groups: a text of one pattern would else be used up for dev and test
)
ALL_NEAR = (
    "no sentence is left for {}: each one is a near copy of another document's (near_copy = {}); make near_copy"
    " larger, or 0 to keep them"
)


def split_parts(
    pairs: list[CorpusPair], config: CorpusConfig, dropped: Counter[str]
) -> dict[str, list[CorpusPair]]:
    """Divide pairs into train, dev and test by group.

    Groups in the order of a keyed hash of their names fill test, then dev. Near copies of later groups and of
    pairs without a group are left out of them: such a group or pair is in train, in dev or in none. So neither
    test nor dev depends on n_train, and pairs without a group change nothing but their near copies. The rest of
    the group that fills a part is dropped.

    Returns:
        Pairs of each part; train keeps the order of `pairs`.

    Raises:
        UserError: all pairs for dev or test are near copies.
    """
    groups: dict[str, list[CorpusPair]] = {}
    for pair in pairs:
        if pair.raw.group is not None:
            groups.setdefault(pair.raw.group, []).append(pair)
    names = sorted(groups, key=lambda name: random_key(config.seed, name))
    n_dev, n_test = _held_out_sizes(sum(map(len, groups.values())), config)
    candidates = _candidates(names, groups, pairs, config, n_dev + n_test)
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
            name, kept = found
            held_out.add(name)
            parts[part] += kept
            dropped[NEAR] += len(groups[name]) - len(kept)
        if size and not parts[part]:
            raise UserError(ALL_NEAR.format(part, config.near_copy))
        dropped["over in dev or test"] += max(0, len(parts[part]) - size)
        del parts[part][size:]
    if config.origin == "libreoffice for debian":
        held_out |= groups.keys()
    train = [pair for pair in pairs if pair.raw.group not in held_out]
    sample = _with_mismatches(_sample(train, config, dropped), config)
    return {"train": sample, "dev": parts["dev"], "test": parts["test"]}


def _candidates(
    names: list[str],
    groups: dict[str, list[CorpusPair]],
    pairs: list[CorpusPair],
    config: CorpusConfig,
    n_wanted: int,
) -> Iterator[tuple[str, list[CorpusPair]]]:
    """Groups in the order of their names, without near copies of later ones and of pairs without a group."""
    texts = [[pair.source for pair in groups[name]] for name in names]
    always_in_train = [pair.source for pair in pairs if pair.raw.group is None]
    jobs = config.jobs or -1
    far = far_of_later(texts, always_in_train, config.near_copy, n_wanted, jobs)
    for name, is_far in zip(names, far, strict=True):
        yield name, list(compress(groups[name], is_far))


def _held_out_sizes(n_pairs: int, config: CorpusConfig) -> tuple[int, int]:
    wanted = config.n_dev + config.n_test
    if wanted <= n_pairs // 2:
        return config.n_dev, config.n_test
    most = n_pairs // 2
    return config.n_dev * most // wanted, config.n_test * most // wanted


def random_key(seed: int, name: str) -> bytes:
    """A key to sort by at random: the same for a seed and a name everywhere."""
    return blake2b(f"{seed}\t{name}".encode(), digest_size=16).digest()


def _sample(
    pairs: list[CorpusPair], config: CorpusConfig, dropped: Counter[str]
) -> list[CorpusPair]:
    if not 0 < config.n_train < len(pairs):
        return pairs
    keys = [random_key(config.seed, pair.raw.source) for pair in pairs]
    limit = sorted(keys)[config.n_train]
    dropped["over n_train"] += len(pairs) - config.n_train
    return [pair for pair, key in zip(pairs, keys, strict=True) if key < limit]


def _with_mismatches(pairs: list[CorpusPair], config: CorpusConfig) -> list[CorpusPair]:
    """Some pairs, chosen by a keyed hash, pass their targets on to the next longer one of them."""
    if not config.mismatched:
        return pairs
    keys = [random_key(config.seed, f"mismatched\t{pair.raw.source}") for pair in pairs]
    chosen = sorted(range(len(pairs)), key=keys.__getitem__)[
        : round(config.mismatched * len(pairs))
    ]
    chosen.sort(key=lambda place: (n_words(pairs[place].target), keys[place]))
    mismatched = list(pairs)
    for place, giver in zip(chosen, chosen[-1:] + chosen[:-1], strict=True):
        raw = replace(pairs[place].raw, target=pairs[giver].raw.target)
        mismatched[place] = replace(pairs[place], raw=raw, target=pairs[giver].target)
    return mismatched
