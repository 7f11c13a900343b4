"""Options for passes: registering, giving, reading and listing them, and what a wrong one says."""

import subprocess
import sys
from collections.abc import Iterator
from enum import Enum
from textwrap import dedent
from typing import Any, Literal

import pytest

from apass import ConfigTypeError, PassContext, UnknownConfigError, register_config_option
from apass.core.config import ConfigOption, list_configs, provide_config_option
from apass.errors import PassRegistrationError


class Mode(Enum):
    FAST = "fast"
    SAFE = "safe"


@pytest.fixture(autouse=True)
def options(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let each test begin with the same options and leave none behind."""
    monkeypatch.setattr("apass.core.config._OPTIONS", {})
    monkeypatch.setattr("apass.core.config._PROVIDED", set[str]())
    monkeypatch.setattr("apass.core.config._PROVIDERS", {})
    register_config_option("test.Unroll.depth", int, default=8, doc="how deep")
    register_config_option("test.Unroll.explicit", bool)
    register_config_option("test.Fuse.mode", Mode, default=Mode.SAFE)
    register_config_option("test.Fuse.names", list[str], default=[])
    register_config_option("test.Fuse.ratio", float | None)
    register_config_option("test.Fuse.kind", Literal["a", "b"], default="a")
    register_config_option("test.Any", Any)
    return iter(())


def test_a_context_gives_what_was_given_and_else_the_default() -> None:
    config = PassContext(config={"test.Unroll.depth": 3}).config
    assert (config["test.Unroll.depth"], config["test.Fuse.mode"], config["test.Unroll.explicit"]) == (
        3,
        Mode.SAFE,
        None,
    )


def test_get_knows_the_registered_default_before_its_own() -> None:
    config = PassContext(config={"test.Fuse.kind": "b"}).config
    assert [config.get(key, "own") for key in ("test.Fuse.kind", "test.Unroll.depth", "test.Any", "no.such")] == [
        "b",
        8,
        "own",
        "own",
    ]


def test_len_and_iteration_and_in_go_over_what_was_given() -> None:
    config = PassContext(config={"test.Unroll.depth": 3}).config
    assert (dict(config), len(config), "test.Unroll.depth" in config, "test.Any" in config, repr(config)) == (
        {"test.Unroll.depth": 3},
        1,
        True,
        False,
        "Config({'test.Unroll.depth': 3})",
    )


def test_what_was_given_cannot_change_afterwards() -> None:
    given: dict[str, object] = {"test.Unroll.depth": 3}
    ctx = PassContext(config=given)
    given["test.Unroll.depth"] = 4
    assert ctx.config["test.Unroll.depth"] == 3
    assert not hasattr(ctx.config, "__setitem__")


@pytest.mark.parametrize(
    ("key", "given", "is_read_as"),
    [
        ("test.Fuse.mode", "fast", Mode.FAST),
        ("test.Fuse.mode", "FAST", Mode.FAST),
        ("test.Fuse.mode", Mode.FAST, Mode.FAST),
        ("test.Fuse.ratio", 2, 2.0),
        ("test.Fuse.ratio", None, None),
        ("test.Fuse.names", ("x", "y"), ["x", "y"]),
        ("test.Any", object, object),
    ],
)
def test_values_are_converted_to_the_type_of_the_option(key: str, given: object, is_read_as: object) -> None:
    read = PassContext(config={key: given}).config[key]
    assert (read, type(read)) == (is_read_as, type(is_read_as))


@pytest.mark.parametrize(
    ("key", "given", "says"),
    [
        ("test.Unroll.depth", "3", "config option 'test.Unroll.depth': wanted int, got '3' (str)"),
        ("test.Unroll.depth", True, "config option 'test.Unroll.depth': wanted int, got True (bool)"),
        ("test.Unroll.explicit", 1, "config option 'test.Unroll.explicit': wanted bool, got 1 (int)"),
        ("test.Fuse.mode", "quick", "config option 'test.Fuse.mode': wanted one of FAST, SAFE, got 'quick'"),
        ("test.Fuse.names", "xy", "config option 'test.Fuse.names': wanted list[str], got 'xy' (str)"),
        ("test.Fuse.names", [1], "config option 'test.Fuse.names': wanted str, got 1 (int)"),
        ("test.Fuse.ratio", "2", "config option 'test.Fuse.ratio': wanted float | None, got '2' (str)"),
        ("test.Fuse.kind", "c", "config option 'test.Fuse.kind': wanted 'a' | 'b', got 'c' (str)"),
    ],
)
def test_a_value_of_another_type_is_told_with_what_was_wanted_and_given(key: str, given: object, says: str) -> None:
    with pytest.raises(ConfigTypeError) as caught:
        PassContext(config={key: given})
    assert str(caught.value) == says


def test_an_unknown_key_is_told_with_the_nearest_and_all_candidates() -> None:
    for ask in (lambda: PassContext(config={"test.Unroll.dept": 3}), lambda: PassContext().config["test.Unroll.dept"]):
        with pytest.raises(UnknownConfigError) as caught:
            ask()
        assert str(caught.value) == (
            "unknown config option 'test.Unroll.dept'; did you mean 'test.Unroll.depth'?; registered are: test.Any, "
            "test.Fuse.kind, test.Fuse.mode, test.Fuse.names, test.Fuse.ratio, test.Unroll.depth, test.Unroll.explicit"
        )


def test_where_none_is_registered_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apass.core.config._OPTIONS", {})
    with pytest.raises(UnknownConfigError, match="unknown config option 'x'; none is registered"):
        PassContext(config={"x": 1})


def test_registering_the_same_again_changes_nothing() -> None:
    again = register_config_option("test.Unroll.depth", int, default=8)
    assert again == ConfigOption("test.Unroll.depth", int, 8, "how deep")


@pytest.mark.parametrize(("kind", "default"), [(float, 8), (int, 9), (int, None)])
def test_registering_the_key_as_something_else_is_an_error(kind: type, default: object) -> None:
    with pytest.raises(PassRegistrationError) as caught:
        register_config_option("test.Unroll.depth", kind, default)
    assert str(caught.value).startswith("config option 'test.Unroll.depth' is already registered as int with default 8")
    assert PassContext().config["test.Unroll.depth"] == 8


def test_a_default_of_another_type_is_an_error_and_registers_nothing() -> None:
    with pytest.raises(ConfigTypeError, match=r"config option 'test.Bad': wanted int, got 'x'"):
        register_config_option("test.Bad", int, default="x")
    assert "test.Bad" not in list_configs()


def test_list_configs_tells_key_type_default_and_doc_in_order_of_the_keys() -> None:
    listed = PassContext.list_configs()
    assert listed == list_configs()
    assert [(key, *one.values()) for key, one in listed.items()] == [
        ("test.Any", "any", None, ""),
        ("test.Fuse.kind", "'a' | 'b'", "a", ""),
        ("test.Fuse.mode", "Mode", Mode.SAFE, ""),
        ("test.Fuse.names", "list[str]", [], ""),
        ("test.Fuse.ratio", "float | None", None, ""),
        ("test.Unroll.depth", "int", 8, "how deep"),
        ("test.Unroll.explicit", "bool", None, ""),
    ]


def test_the_default_of_an_option_of_apass_gives_way_to_a_users_whichever_comes_first() -> None:
    provide_config_option("own.A", int, 1, "of apass")
    assert (register_config_option("own.A", int, 7).default, PassContext().config["own.A"]) == (7, 7)
    register_config_option("own.B", int, 7)
    assert (provide_config_option("own.B", int, 1).default, PassContext().config["own.B"]) == (7, 7)
    for register in (register_config_option, provide_config_option):
        with pytest.raises(
            PassRegistrationError, match=r"'own.A' is already registered as int with default 7, not str"
        ):
            register("own.A", str, "x")
    with pytest.raises(PassRegistrationError, match=r"'own.A' is already registered as int with default 7, not int"):
        register_config_option("own.A", int, 8)


def test_options_of_apass_are_known_before_their_passes_are_imported() -> None:
    said = fresh("""
        context = apass.PassContext(config={"relay.FuseOps.max_depth": 3})
        print(context.config["relay.FuseOps.max_depth"], apass.PassContext().config.get("relay.FuseOps.link_params"))
    """)
    assert said == "3 False\n"
    assert "relay.FuseOps.max_depth" in fresh("print(apass.PassContext.list_configs())")


def test_a_users_default_stands_when_the_passes_are_imported() -> None:
    said = fresh("""
        apass.register_config_option("relay.FuseOps.max_depth", int, default=10)
        apass.parse_pipeline("FuseOps")
        print(apass.PassContext().config["relay.FuseOps.max_depth"])
    """)
    assert said == "10\n"


def fresh(code: str) -> str:
    """Return what `code` prints in a process that has imported nothing but apass."""
    command = [sys.executable, "-c", f"import apass\n{dedent(code)}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
