from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from moses_bridge.base.config import (
    AtLeast,
    AtMost,
    Below,
    check_limits,
    from_mapping,
    load_toml,
    with_options,
)
from moses_bridge.base.errors import ConfigError, InputError


@dataclass(frozen=True)
class Inner:
    rate: float = 0.5
    name: str = "adam"


@dataclass(frozen=True)
class Settings:
    width: int = 3
    rate: float = 0.1
    resume: bool = False
    kind: Literal["mert", "pro"] = "mert"
    limit: int | None = None
    choice: Literal["a", "b"] | None = None
    precision: Literal["half", "single"] | Literal["fastest"] = "single"
    batch: int | Literal["auto"] = "auto"
    prune: tuple[int, ...] = (0, 0, 1)
    span: tuple[float, float] | None = None
    file: Path | None = None
    inner: Inner = field(default_factory=Inner)
    maybe: Inner | None = None


@dataclass(frozen=True)
class WithItsOwnDefault:
    inner: Inner = field(default_factory=lambda: Inner(rate=0.9))


@dataclass(frozen=True)
class Needed:
    width: int


def load(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    return from_mapping(Settings, load_toml(path), str(path))


def test_a_table_changes_what_it_names_in_the_default_of_its_field() -> None:
    found = from_mapping(WithItsOwnDefault, {"inner": {"name": "sgd"}}, "here")
    assert found == WithItsOwnDefault(Inner(rate=0.9, name="sgd"))


def test_defaults() -> None:
    assert from_mapping(Settings, {}, "") == Settings()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Settings()),
        ("width = 5\nresume = true", Settings(width=5, resume=True)),
        ("rate = 1", Settings(rate=1.0)),
        ("kind = 'pro'\nlimit = 7", Settings(kind="pro", limit=7)),
        ("choice = 'b'", Settings(choice="b")),
        ("precision = 'half'", Settings(precision="half")),
        ("precision = 'fastest'", Settings(precision="fastest")),
        ("batch = 3", Settings(batch=3)),
        ("prune = []", Settings(prune=())),
        ("prune = [1, 2]", Settings(prune=(1, 2))),
        ("span = [0, 1.5]", Settings(span=(0.0, 1.5))),
        ("file = 'a/b'", Settings(file=Path("a/b"))),
        ("[inner]\nrate = 2", Settings(inner=Inner(rate=2.0))),
        ("[maybe]\nname = 'sgd'", Settings(maybe=Inner(name="sgd"))),
    ],
)
def test_settings(tmp_path: Path, text: str, expected: Settings) -> None:
    found = load(tmp_path, text)
    assert found == expected
    assert type(found.rate) is float


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("widht = 5", "unknown key 'widht'; did you mean 'width'?"),
        ("zzzz = 5", "unknown key 'zzzz'; the keys are batch, choice, file"),
        ("name = 5", "unknown key 'name'; did you mean 'inner.name' or 'maybe.name'?"),
        ("nam = 5", "unknown key 'nam'; did you mean 'inner.name' or 'maybe.name'?"),
        ("[inner]\nrat = 2", "inner: unknown key 'rat'; did you mean 'rate'"),
        ("width = 5.0", "width: found 5.0, expected int"),
        ("width = '5'", "width: found '5', expected int"),
        ("width = true", "width: found True, expected int"),
        ("rate = true", "rate: found True, expected float"),
        ("resume = 1", "resume: found 1, expected bool"),
        ("kind = 'mira'", "kind: found 'mira', expected one of mert, pro"),
        ("choice = 'c'", "choice: found 'c', expected one of a, b"),
        ("choice = ['a']", "choice: found ['a'], expected one of a, b"),
        ("precision = 'best'", "expected one of half, single, fastest"),
        ("batch = 'all'", "batch: found 'all', expected int or one of auto"),
        ("limit = 'x'", "limit: found 'x', expected int or None"),
        ("prune = 3", "prune: found 3"),
        ("prune = [1, 'x']", "prune: found 'x', expected int"),
        ("span = [1.0]", "span: found 1 values, expected 2"),
        ("inner = 3", "inner: found 3, expected a table"),
    ],
)
def test_faulty_settings(tmp_path: Path, text: str, found: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(tmp_path, text)
    assert found in str(error.value)
    assert str(error.value).startswith(f"{tmp_path / 'settings.toml'}: ")


@pytest.mark.parametrize("content", [b"width = ", b"a = '\xff'", b"width = 1\nwidth = 2"])
def test_files_that_are_not_toml(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match="expected a TOML file"):
        from_mapping(Settings, load_toml(path), "file")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a readable file"):
        from_mapping(Settings, load_toml(tmp_path / "nothing.toml"), "file")


@pytest.mark.parametrize("mapping", [{}, {"widht": 3}])
def test_a_setting_without_default_must_be_there(mapping: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="'wid"):
        from_mapping(Needed, mapping, "here")
    assert from_mapping(Needed, {"width": 3}, "here") == Needed(3)


@dataclass(frozen=True)
class Limited:
    width: Annotated[int, AtLeast(1)] = 3
    share: Annotated[float, AtLeast(0), Below(1)] = 0.5
    order: Annotated[int, AtLeast(1), AtMost(7)] | None = None
    prune: tuple[Annotated[int, AtLeast(0)], ...] = ()
    span: tuple[Annotated[float, AtLeast(0)], float] | None = None

    def __post_init__(self) -> None:
        check_limits(self)


@dataclass(frozen=True)
class Outer:
    inner: Limited = field(default_factory=lambda: Limited(width=5))


@dataclass(frozen=True)
class Outermost:
    outer: Outer = field(default_factory=lambda: Outer(Limited(width=6)))


def test_values_within_their_limits() -> None:
    mapping = {"width": 1, "share": 0, "order": 7, "prune": [0, 3], "span": [0.0, -5.0]}
    found = from_mapping(Limited, mapping, "here")
    assert found == Limited(1, 0.0, 7, (0, 3), (0.0, -5.0))


@pytest.mark.parametrize(
    ("mapping", "found"),
    [
        ({"width": 0}, "width is 0; the smallest value is 1"),
        ({"share": -0.1}, "share is -0.1; the smallest value is 0"),
        ({"share": 1.0}, "share is 1.0; it must be below 1"),
        ({"share": math.nan}, "share is nan; the smallest value is 0"),
        ({"order": 0}, "order is 0; the smallest value is 1"),
        ({"order": 8}, "order is 8; the largest value is 7"),
        ({"prune": [0, -1]}, "prune is -1; the smallest value is 0"),
        ({"span": [-1, 0]}, "span is -1.0; the smallest value is 0"),
    ],
)
def test_a_value_out_of_its_limits_is_named(mapping: dict[str, Any], found: str) -> None:
    with pytest.raises(ConfigError) as error:
        from_mapping(Limited, mapping, "here.toml")
    assert str(error.value) == f"here.toml: {found}"


def test_limits_hold_for_settings_made_in_python_too() -> None:
    with pytest.raises(ConfigError, match=r"^width is 0; the smallest value is 1$"):
        Limited(width=0)


@pytest.mark.parametrize(
    ("mapping", "found"),
    [
        ({"width": 2.0}, "here: width: found 2.0, expected int"),
        ({"order": "x"}, "here: order: found 'x', expected int or None"),
        ({"prune": [True]}, "here: prune: found True, expected int"),
    ],
)
def test_a_limit_leaves_the_type_as_it_is(mapping: dict[str, Any], found: str) -> None:
    with pytest.raises(ConfigError) as error:
        from_mapping(Limited, mapping, "here")
    assert str(error.value) == found


def test_a_nested_table_is_named_where_a_limit_is_broken() -> None:
    with pytest.raises(ConfigError, match=r"^here: outer: inner: width is 0; the smallest"):
        from_mapping(Outermost, {"outer": {"inner": {"width": 0}}}, "here")


def test_a_table_within_a_table_keeps_the_default_of_the_outer_field() -> None:
    found = from_mapping(Outermost, {"outer": {"inner": {"share": 0}}}, "here")
    assert found == Outermost(Outer(Limited(width=6, share=0.0)))


def test_options_go_before_what_is_there() -> None:
    config = Outermost(Outer(Limited(width=2, prune=(1,))))
    options = {"outer.inner.share": 0.25, "outer.inner.prune": (2, 3), "outer.inner.order": None}
    assert with_options(config, options) == Outermost(
        Outer(Limited(width=2, share=0.25, prune=(2, 3)))
    )
    assert with_options(config, {"outer.inner.width": None}) == config


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"outer.inner.width": 0}, "outer: inner: width is 0; the smallest value is 1"),
        ({"outer.inner.widht": 3}, "outer: inner: unknown key 'widht'; did you mean 'width'?"),
        ({"outer.inner.width": "3"}, "outer: inner: width: found '3', expected int"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], found: str) -> None:
    with pytest.raises(ConfigError) as error:
        with_options(Outermost(), options)
    assert str(error.value) == f"command line: {found}"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a = " + "[" * 100_000, "nested more than 100 deep, expected a TOML file"),
        ("a." * 100_000 + "b = 1", "nested more than 100 deep, expected a TOML file"),
        ("a = " + "9" * 5000, "expected a TOML file"),
    ],
)
def test_what_nests_without_end_or_has_thousands_of_digits_is_no_settings(
    tmp_path: Path, text: str, fault: str
) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(InputError, match=rf"a\.toml: found .*{fault}"):
        load_toml(tmp_path / "a.toml")


def test_numbers_that_no_compiled_code_takes_are_refused(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Sizes:
        n: int = 1
        rate: float = 1.0

    for key in ("n", "rate"):
        (tmp_path / "a.toml").write_text(f"{key} = 0x{'f' * 20_000}")
        with pytest.raises(ConfigError, match=rf"{key}: found a number of 80,000 bits, expected"):
            from_mapping(Sizes, load_toml(tmp_path / "a.toml"), "file")
    (tmp_path / "a.toml").write_text("n = 18446744073709551615")
    assert from_mapping(Sizes, load_toml(tmp_path / "a.toml"), "file").n == 2**64 - 1


def test_texts_with_many_dots_are_settings(tmp_path: Path) -> None:
    numbers = ", ".join(["0.5"] * 300)
    (tmp_path / "a.toml").write_text(f'# {"." * 300}\na = [{numbers}]\nb = "{". " * 300}"\n')
    assert len(load_toml(tmp_path / "a.toml")["a"]) == 300
