"""Several phrase tables and language models, compared with all derivations of small models scored by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from moses_bridge.base.compiled.lexicon import Lexicon
from moses_bridge.base.errors import ConfigError, InputError
from moses_bridge.builtin.decoder.loaded_table import TableFile, load_tables
from moses_bridge.builtin.decoder.model import load_model
from moses_bridge.builtin.decoder.nbest_lines import NBestFormat
from moses_bridge.builtin.decoder.word_places import check_links
from moses_bridge.decoding.decoder import open_decoder
from moses_bridge.decoding.given_translations import force_translations, score_entries
from moses_bridge.decoding.interface import DecoderConfig
from moses_bridge.formats.nbest import parse_features, read_nbest
from tests.moses_bridge.builtin.decoder.conftest import ARPA, BIGRAM_ARPA, make_translator

kenlm = pytest.importorskip("kenlm", reason="KenLM, the extra `kenlm`, is not installed")

INI = """[mapping]
{mapping}
[distortion-limit]
3
[decoding-graph-backoff]
{backoff}
[feature]
KENLM name=Domain factor=0 path=bigram.arpa order=2
PhraseDictionaryMemory name=Small num-features=1 path=small table-limit={limit}
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=Large num-features=3 path=large table-limit={limit}
LexicalReordering name=Moves num-features=6 type=wbe-msd-bidirectional-fe-allff path=moves
KENLM name=General factor=0 path=lm.arpa order=3
Distortion
KENLM name=Third factor=0 path=lm.arpa order=3
[weight]
Domain= 0.3
General= 0.2
Third= 0.1
Small= 0.3
Large= 0.1 0.25 -0.05
WordPenalty0= -0.2
PhrasePenalty0= 0.1
UnknownWordPenalty0= 1
Moves= 0.1 0.2 0.15 0.05 0.1 0.3
Distortion0= 0.2
"""
WEIGHTS = {"Small": (0.3,), "Large": (0.1, 0.25, -0.05)}
MOVES = (0.1, 0.2, 0.15, 0.05, 0.1, 0.3)
WITHIN_BEAM = (
    8.0  # the search drops hypotheses worse by 11.5 than the best with as many words covered
)
SPANS = ["u", "v", "w", "x", "u v", "v w", "w x", "u v w"]
TARGETS = ["a", "b", "c", "a b", "b a", "b c", "a b a b"]

Derivation = list[tuple[int, int, str, str]]  # source words start..end-1, the table, the target


class SmallModel:
    """Two random tables with some pairs in common, three language models, and plain scoring of derivations."""

    def __init__(self, folder: Path, seed: int, mapping: str, backoff: int, limit: int) -> None:
        self.folder, self.backoff, self.limit = folder, backoff, limit
        self.order = ["Small", "Large"] if mapping.endswith("1") else ["Large", "Small"]
        generator = np.random.default_rng(seed)
        self.scores: dict[str, dict[tuple[str, str], list[float]]] = {}
        for name, weights in WEIGHTS.items():
            spans = generator.choice(SPANS[:3] + SPANS[4:], 5, replace=False).tolist()
            self.scores[name] = {
                (span, target): generator.uniform(0.05, 1, len(weights)).round(3).tolist()
                for span in sorted(spans)
                for target in generator.choice(TARGETS, 3, replace=False).tolist()
            }
        pairs = sorted({pair for table in self.scores.values() for pair in table})
        self.moves = {pair: generator.uniform(0.05, 1, 6).round(3).tolist() for pair in pairs[::2]}
        for name, table in (*self.scores.items(), ("Moves", self.moves)):
            rows = [f"{s} ||| {t} ||| {' '.join(map(str, v))}\n" for (s, t), v in table.items()]
            (folder / name.lower()).write_text("".join(rows))
        (folder / "lm.arpa").write_text(ARPA)
        (folder / "bigram.arpa").write_text(BIGRAM_ARPA)
        text = INI.format(mapping=mapping, backoff=f"0\n{backoff}", limit=limit)
        (folder / "moses.ini").write_text(text)
        self.lms = [
            (weight, kenlm.Model(str(folder / name)))
            for weight, name in ((0.3, "bigram.arpa"), (0.2, "lm.arpa"), (0.1, "lm.arpa"))
        ]

    def log_prob(self, words: str, whole: bool = True) -> float:
        """Weighted log probability by all language models, of a sentence or of a phrase alone."""
        return sum(
            weight * lm.score(words, bos=whole, eos=whole) * math.log(10) for weight, lm in self.lms
        )

    def pair_score(self, table: str, pair: tuple[str, str]) -> float:
        values = self.scores[table][pair]
        score = sum(w * math.log(v) for w, v in zip(WEIGHTS[table], values, strict=True))
        return score + 0.2 * len(pair[1].split()) + 0.1

    def translations(self, span: str) -> list[tuple[str, str]]:
        """The tables and targets for a source phrase: the best of each table, by the rules of [mapping]."""
        found: list[tuple[str, str]] = []
        for path, table in enumerate(self.order):
            pairs = [pair for pair in self.scores[table] if pair[0] == span]
            pairs.sort(key=lambda p: -self.pair_score(table, p) - self.log_prob(p[1], whole=False))
            if path and self.backoff and (found or " " in span):
                continue
            found += [(table, target) for _, target in pairs[: self.limit or None]]
        return found or ([("", span)] if " " not in span else [])

    def derivations(self, source: list[str]) -> Iterator[Derivation]:
        def extend(covered: frozenset[int], path: Derivation) -> Iterator[Derivation]:
            if len(covered) == len(source):
                yield path
                return
            gap = min(set(range(len(source))) - covered)
            last = path[-1][1] if path else 0
            for start in range(len(source)):
                for end in range(start + 1, len(source) + 1):
                    new = frozenset(range(start, end))
                    too_far = abs(start - last) > 3 or (start > gap and end - gap > 3)
                    if covered & new or too_far:
                        continue
                    for table, target in self.translations(" ".join(source[start:end])):
                        yield from extend(covered | new, [*path, (start, end, table, target)])

        yield from extend(frozenset(), [])

    def score(self, source: list[str], path: Derivation) -> float:
        words = " ".join(target for *_, target in path)
        total = self.log_prob(words)
        last_start, last_end, last_moves = -1, 0, [1.0] * 6
        for start, end, table, target in path:
            pair = " ".join(source[start:end]), target
            moves = self.moves.get(pair, [1.0] * 6) if table else [1.0] * 6
            kind = 0 if start == last_end else 1 if end == last_start else 2
            total += self.pair_score(table, pair) if table else 0.2 + 0.1 - 100
            total += MOVES[kind] * math.log(moves[kind])
            total += MOVES[3 + kind] * math.log(last_moves[3 + kind])
            total -= 0.2 * abs(start - last_end)
            last_start, last_end, last_moves = start, end, moves
        return total


@pytest.mark.parametrize(
    ("seed", "sentence", "mapping", "backoff", "limit"),
    [
        (1, "u v w x", "0 T 0\n1 T 1", 0, 0),
        (2, "w u v w", "0 T 1\n1 T 0", 0, 2),
        (3, "c u v w", "0 T 0\n1 T 1", 1, 0),
        (4, "v w x v", "0 T 1\n1 T 0", 2, 1),
        (5, "w q u v", "0 T 0\n1 T 1", 2, 0),
        (6, "x w v u", "0 T 0\n1 T 1", 0, 1),
    ],
)
def test_wide_search_finds_the_best_of_all_derivations(
    tmp_path: Path, seed: int, sentence: str, mapping: str, backoff: int, limit: int
) -> None:
    small = SmallModel(tmp_path, seed, mapping, backoff, limit)
    source = sentence.split()
    best: dict[str, float] = {}
    for path in small.derivations(source):
        words = " ".join(target for *_, target in path)
        best[words] = max(best.get(words, -math.inf), small.score(source, path))
    expected = sorted(best.values(), reverse=True)[:30]
    expected = [value for value in expected if value > expected[0] - WITHIN_BEAM]
    translator = make_translator(load_model(tmp_path / "moses.ini", None, None), 3000, 6000)
    _, lines = translator.translate(0, sentence.encode(), NBestFormat(30, 500, False, False))
    found = [line.split(b" ||| ") for line in lines]
    totals = [float(fields[3]) for fields in found[: len(expected)]]
    assert totals == pytest.approx(expected, rel=1e-5)
    for fields in found:
        assert float(fields[3]) == pytest.approx(best[fields[1].strip().decode()], rel=1e-5)


def test_nbest_lists_name_each_feature_and_their_values_make_the_total(tmp_path: Path) -> None:
    SmallModel(tmp_path, 1, "0 T 1\n1 T 0", 0, 0)
    model = load_model(tmp_path / "moses.ini", None, None)
    weights = model.ini.weights
    _, lines = make_translator(model, 100, 200).translate(
        0, b"u v q w", NBestFormat(20, 20, True, True)
    )
    (tmp_path / "nbest").write_bytes(b"\n".join(lines) + b"\n")
    names = ["Domain", "Moves", "General", "Distortion0", "Third"]
    names += ["Small", "WordPenalty0", "PhrasePenalty0", "Large"]
    for entry in read_nbest(tmp_path / "nbest"):
        features = parse_features(entry, "nbest")
        assert list(features) == names
        assert [len(features[name]) for name in ("Small", "Large", "Third")] == [1, 3, 1]
        assert features["General"] == features["Third"] != features["Domain"]
        total = sum(
            w * v for name in names for w, v in zip(weights[name], features[name], strict=True)
        )
        assert entry.total == pytest.approx(total - 100, rel=1e-5)  # q is unknown


def test_a_change_of_weights_by_name_is_a_change_of_this_feature(tmp_path: Path) -> None:
    SmallModel(tmp_path, 1, "0 T 1\n1 T 0", 0, 0)
    model = load_model(tmp_path / "moses.ini", None, None)
    before = model.weight_vector(None)
    for name, values in (("Small", (7.0,)), ("Large", (1.0, 2.0, 3.0)), ("Third", (5.0,))):
        slice_of = {feature.name: feature for feature in model.features}[name]
        after = model.weight_vector({name: values})
        changed = np.flatnonzero(after != before)
        assert changed.tolist() == [*range(slice_of.first, slice_of.first + slice_of.size)]
        assert after[changed].tolist() == [*values]


def test_a_table_without_scores_has_translations_and_no_place_in_lists(tmp_path: Path) -> None:
    """The lines are those of Moses (commit 34452895f) for these files."""
    (tmp_path / "none").write_text("u ||| a ||| |||\nv ||| b ||| |||\n")
    (tmp_path / "six").write_text("u ||| b ||| 0.5 0.2 0.3 0.4 0.1 0.9 ||| 0-0\n")
    (tmp_path / "lm.arpa").write_text(
        "\\data\\\nngram 1=5\nngram 2=1\n\n\\1-grams:\n-1.5\t<unk>\t0\n0\t<s>\t-0.1\n-1.0\t</s>\t0\n"
        "-0.7\ta\t0\n-0.9\tb\t0\n\n\\2-grams:\n-0.1\t<s> a\n\n\\end\\\n"
    )
    (tmp_path / "moses.ini").write_text(
        "[mapping]\n0 T 0\n1 T 1\n[distortion-limit]\n6\n[feature]\n"
        "UnknownWordPenalty\nWordPenalty\nPhrasePenalty\n"
        "PhraseDictionaryMemory name=T0 num-features=0 path=none\n"
        "PhraseDictionaryMemory name=T1 num-features=6 path=six\n"
        "Distortion\nKENLM name=LM0 factor=0 path=lm.arpa order=2\n[weight]\n"
        "WordPenalty0= -0.2\nPhrasePenalty0= 0.1\nT1= 0.1 0.1 0.1 0.1 0.1 0.1\n"
        "Distortion0= 0.1\nLM0= 0.5\n"
    )
    translator = make_translator(load_model(tmp_path / "moses.ini", None, None), 100, 100)
    _, lines = translator.translate(0, b"u v", NBestFormat(3, 20, False, False))
    head = b"LM0= -%b WordPenalty0= -2 PhrasePenalty0= 2 T1= "
    logs = b"-0.693147 -1.60944 -1.20397 -0.916291 -2.30259 -0.105361"
    assert lines == [
        b"0 ||| a b  ||| Distortion0= 0 " + head % b"4.60517" + b"0 0 0 0 0 0 ||| -1.70259",
        b"0 ||| b a  ||| Distortion0= -3 " + head % b"6.21698" + b"0 0 0 0 0 0 ||| -2.80849",
        b"0 ||| b b  ||| Distortion0= 0 " + head % b"6.6775" + logs + b" ||| -3.42183",
    ]


def translated(folder: Path, sentence: str, jobs: int) -> tuple[bytes, bytes]:
    """The translations and n-best list of several copies of a sentence, as a command makes them."""
    (folder / "in").write_text(f"{sentence}\n" * 9)
    config = DecoderConfig(kind="builtin", segmentation=True, alignment=True)
    with open_decoder(folder / "moses.ini", config, jobs) as search:
        search.decode(folder / "in", folder / "out", None, folder / "list", 20)
    return (folder / "out").read_bytes(), (folder / "list").read_bytes()


def test_several_processes_translate_as_one(tmp_path: Path) -> None:
    SmallModel(tmp_path, 1, "0 T 1\n1 T 0", 0, 2)
    assert translated(tmp_path, "u v q w x", 2) == translated(tmp_path, "u v q w x", 1)


def test_a_list_scored_anew_keeps_its_values(tmp_path: Path) -> None:
    SmallModel(tmp_path, 1, "0 T 0\n1 T 1", 0, 0)
    _, listed = translated(tmp_path, "u v w", 1)
    score_entries(
        tmp_path / "moses.ini", tmp_path / "in", tmp_path / "list", tmp_path / "again", None
    )
    found, again = (list(read_nbest(tmp_path / name)) for name in ("list", "again"))
    assert len(found) == len(again) == listed.count(b"\n")
    for one, other in zip(found, again, strict=True):
        assert one.words == other.words
        # A pair of both tables may be scored as one of the other table: then the total is another.
        features = parse_features(one, "list"), parse_features(other, "again")
        assert [features[0][name] for name in ("Domain", "General", "Third", "WordPenalty0")] == [
            features[1][name] for name in ("Domain", "General", "Third", "WordPenalty0")
        ]


def test_a_forced_translation_takes_the_best_derivation_over_both_tables(tmp_path: Path) -> None:
    small = SmallModel(tmp_path, 6, "0 T 0\n1 T 1", 0, 0)
    source = ["v", "w", "u"]
    best: dict[str, float] = {}
    for path in small.derivations(source):
        words = " ".join(target for *_, target in path)
        best[words] = max(best.get(words, -math.inf), small.score(source, path))
    targets = sorted(best)[:12]
    (tmp_path / "in").write_text("v w u\n" * len(targets))
    (tmp_path / "given").write_text("".join(f"{target}\n" for target in targets))
    report = force_translations(
        tmp_path / "moses.ini", DecoderConfig(kind="builtin"), 1, tmp_path / "in",
        tmp_path / "given", tmp_path / "out", None, tmp_path / "list",
    )  # fmt: skip
    assert report.n_missed == 0
    totals = [entry.total for entry in read_nbest(tmp_path / "list")]
    assert totals == pytest.approx([best[target] for target in targets], rel=1e-5)


def test_a_table_without_links_is_named(tmp_path: Path) -> None:
    """Each table needs the links used by a neural model of the source."""
    (tmp_path / "linked").write_text("u ||| a ||| 1 ||| 0-0\nu v ||| b ||| 1 ||| 0-0 1-0\n")
    (tmp_path / "bare").write_text("u ||| a ||| 1 1\n")
    files = [TableFile(tmp_path / "linked", 1), TableFile(tmp_path / "bare", 2)]
    with pytest.raises(InputError, match="bare:1: found no word links"):
        check_links(load_tables(files, Lexicon()))
    (tmp_path / "bare").write_text("w ||| b ||| 1 1 ||| 0-0\nu ||| a ||| 1 1 ||| 0-1\n")
    with pytest.raises(InputError, match="bare:2: found the link '0-1'"):
        check_links(load_tables(files, Lexicon()))


def test_translations_given_as_xml_are_refused(tmp_path: Path) -> None:
    SmallModel(tmp_path, 1, "0 T 0\n1 T 1", 0, 5)
    ini = tmp_path / "moses.ini"
    ini.write_text("[xml-input]\nexclusive\n" + ini.read_text())
    with pytest.raises(ConfigError, match=r"\[xml-input\] is exclusive beside several tables"):
        load_model(ini, None, None)


def test_a_faulty_row_is_reported_by_its_own_table(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("u ||| a ||| 1\n")
    (tmp_path / "two").write_text("u ||| a ||| 1 1\nv ||| b ||| 1\n")
    files = [TableFile(tmp_path / "one", 1), TableFile(tmp_path / "two", 2)]
    with pytest.raises(InputError, match=r"two:2: .* expected 2 scores"):
        load_tables(files, Lexicon())
