from hypothesis import given, settings
from hypothesis import strategies as st

from moses_bridge.compiled.row_bytes import insert_scores


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.tuples(st.binary(), st.binary()), max_size=4))
def test_texts_stand_behind_the_scores(pairs: list[tuple[bytes, bytes]]) -> None:
    clean = [tuple(part.translate(None, b"|\n") for part in pair) for pair in pairs]
    rows = b"".join(b"a|||%b|||1 0.5 |||%b\n" % pair for pair in clean)
    expected = b"".join(b"a|||%b|||1 0.5 7 |||%b\n" % pair for pair in clean)
    assert insert_scores(rows, b" 7\n" * len(clean)) == expected
