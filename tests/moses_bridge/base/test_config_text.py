from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moses_bridge.base.config import AtLeast, AtMost, Below, from_mapping
from moses_bridge.base.config_text import (
    Setting,
    commented_toml,
    limits_in_words,
    meanings,
    settings_of,
    to_toml,
    type_in_words,
)
from moses_bridge.base.errors import ConfigError

SCALARS = st.text() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.booleans()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_a_table_that_is_written_is_read_again(table: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(table)) == table


def test_types_stay() -> None:
    table = {
        "i": 1,
        "f": 1.0,
        "b": True,
        "s": 'a"\\\n\x7f\U0001f600',
        "l": [0, 0.5],
        "t": {"x": {}},
    }
    again = tomllib.loads(to_toml(table))
    assert again == table
    assert [type(again[key]) for key in "ifb"] == [int, float, bool]


@pytest.mark.parametrize("value", [None, b"bytes", {1, 2}, [None]])
def test_values_without_a_place_in_toml(value: object) -> None:
    with pytest.raises(ConfigError, match="cannot be written in a TOML file"):
        to_toml({"key": value})


@dataclass(frozen=True)
class Adam:
    """A recipe.

    Attributes:
        rate: how far an update goes.
        clip: the gradient's norm is cut to this.
    """

    rate: Annotated[float, AtLeast(0), Below(1)] = 0.5
    clip: float | None = None


@dataclass(frozen=True)
class Training:
    """Settings of a training.

    Every `key` has a line.

    Attributes:
        adam: the recipe.
        name: words of any kind, with a meaning that is so long that it does not fit into one line
            of a hundred characters, not even
            into two of them.
        file: a path.
        kind: the way.
        sizes: one each.
        span: from, to.
        width: an integer.

    Raises:
        ValueError: never.
    """

    adam: Adam = field(default_factory=lambda: Adam(rate=0.25))
    name: str = 'a "name" with \\ and \x7f'
    file: Path | None = Path("a/b")
    kind: Literal["mert", "pro"] = "pro"
    sizes: tuple[Annotated[int, AtLeast(0)], ...] = (1, 2)
    span: tuple[float, float] | None = None
    width: Annotated[int, AtLeast(1), AtMost(7)] | None = 5

    @property
    def no_setting(self) -> int:
        """A property."""
        return 3


def test_the_text_of_settings() -> None:
    text = commented_toml(Training())
    assert (
        text
        == """\
# words of any kind, with a meaning that is so long that it does not fit into one line of a
# hundred characters, not even into two of them.
name = "a \\"name\\" with \\\\ and \\u007f"

# a path.
file = "a/b"

# the way. [one of "mert", "pro"]
kind = "pro"

# one each. [each at least 0]
sizes = [1, 2]

# from, to.
# span is not set

# an integer. [at least 1, at most 7]
width = 5

# the recipe.
[adam]
# how far an update goes. [at least 0, below 1]
rate = 0.25

# the gradient's norm is cut to this.
# clip is not set
"""
    )


@given(
    st.builds(
        Training,
        adam=st.builds(Adam, rate=st.floats(0, 1, exclude_max=True), clip=st.none() | st.floats()),
        name=st.text(st.characters(codec="utf-8")),
        file=st.none() | st.sampled_from([Path("c"), Path("/d e/é")]),
        kind=st.sampled_from(["mert", "pro"]),
        sizes=st.lists(st.integers(0, 2**63 - 1)).map(tuple),
        span=st.none() | st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False)),
        width=st.none() | st.integers(1, 7),
    )
)
def test_settings_that_are_printed_are_read_again(settings: Training) -> None:
    mapping = tomllib.loads(commented_toml(settings))
    found = from_mapping(Training, mapping, "here", Training(Adam(), file=None, width=None))
    assert repr(found) == repr(settings)  # NaN is not equal to itself


def test_each_key_has_its_meaning_type_and_limits() -> None:
    rows = {setting.name: setting for setting in settings_of(Training())}
    assert list(rows) == [
        *("adam", "adam.rate", "adam.clip"),
        *("name", "file", "kind", "sizes", "span", "width"),
    ]
    assert rows["adam"] == Setting("adam", "the recipe.", "table", "", None, True)
    assert rows["adam.rate"] == Setting(
        "adam.rate", "how far an update goes.", "number", "at least 0, below 1", 0.25, False
    )


@pytest.mark.parametrize(
    ("hint", "kind", "limits"),
    [
        (int, "integer", ""),
        (Path | None, "string", ""),
        (bool, "boolean", ""),
        (Literal["a", "b"] | None, "string", 'one of "a", "b"'),
        (Literal[1, "b"], "integer or string", 'one of 1, "b"'),
        (Literal["a", "b"] | Literal["c"], "string", 'one of "a", "b", "c"'),
        (
            Annotated[int, AtLeast(1)] | Literal["all"] | None,
            "integer or string",
            'at least 1 or one of "all"',
        ),
        (Annotated[float, AtLeast(0.5)] | None, "number", "at least 0.5"),
        (Annotated[int | None, AtLeast(-1)], "integer", "at least -1"),
        (tuple[str, ...], "list of strings", ""),
        (tuple[Literal["x", "y"], ...], "list of strings", 'each one of "x", "y"'),
        (tuple[float, int] | None, "list: number, integer", ""),
    ],
)
def test_types_and_limits_in_words(hint: Any, kind: str, limits: str) -> None:
    assert (type_in_words(hint), limits_in_words(hint)) == (kind, limits)


@pytest.mark.parametrize("hint", [bytes, dict[str, int], tuple[bytes, ...], complex | None])
def test_a_type_without_a_place_in_toml(hint: Any) -> None:
    with pytest.raises(TypeError, match="no value in TOML"):
        type_in_words(hint)


@dataclass(frozen=True)
class Unexplained:
    """Settings of which one has no meaning.

    Attributes:
        width: an integer.
    """

    width: int = 3
    height: int = 4


@dataclass(frozen=True)
class More(Adam):
    """A recipe with one more key, and another meaning of one.

    Attributes:
        decay: how fast the rate falls.
        clip: the largest norm.
    """

    decay: float = 0.0


def test_a_key_may_be_explained_where_it_is_inherited_from() -> None:
    assert meanings(More) == {
        "rate": "how far an update goes.",
        "clip": "the largest norm.",
        "decay": "how fast the rate falls.",
    }
    assert [setting.name for setting in settings_of(More())] == ["rate", "clip", "decay"]


@dataclass(frozen=True)
class WithoutDocstring:
    width: int = 3


@pytest.mark.parametrize(("kind", "key"), [(Unexplained, "height"), (WithoutDocstring, "width")])
def test_a_key_without_a_meaning_is_an_error(kind: type[Any], key: str) -> None:
    with pytest.raises(TypeError, match=f"{kind.__name__}.{key} is missing"):
        meanings(kind)
    with pytest.raises(TypeError, match=key):
        commented_toml(kind())
