"""Options for passes: registration, values, conversion, listing and errors."""

import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from textwrap import dedent
from typing import Any, Literal

import pytest

import apass
from apass import PassContext, register_config_option
from apass.core.config import ConfigOption, adopt_option, list_configs, provide_config_option
from apass.errors import ConfigTypeError, PassRegistrationError, UnknownConfigError
from apass.executors.messages import ContextMessage
from apass.runner.cache_keys import key_of
from tests.core import user_code


class Mode(Enum):
    FAST = "fast"
    SAFE = "safe"


@pytest.fixture(autouse=True)
def options(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Register the same options for each test and remove them afterwards."""
    monkeypatch.setattr("apass.core.config._OPTIONS", {})
    monkeypatch.setattr("apass.core.config._PROVIDED", set[str]())
    monkeypatch.setattr("apass.core.config._MODULES", "apass.no_such_group")
    register_config_option("test.Unroll.depth", int, default=8, doc="how deep")
    register_config_option("test.Unroll.explicit", bool)
    register_config_option("test.Fuse.mode", Mode, default=Mode.SAFE)
    register_config_option("test.Fuse.names", list[str], default=[])
    register_config_option("test.Fuse.ratio", float | None)
    register_config_option("test.Fuse.kind", Literal["a", "b"], default="a")
    register_config_option("test.Any", Any)
    return iter(())


def test_config_returns_value_or_registered_default() -> None:
    config = PassContext(config={"test.Unroll.depth": 3}).config
    assert (config["test.Unroll.depth"], config["test.Fuse.mode"], config["test.Unroll.explicit"]) == (
        3,
        Mode.SAFE,
        None,
    )


def test_get_prefers_registered_default_over_argument() -> None:
    config = PassContext(config={"test.Fuse.kind": "b"}).config
    assert [config.get(key, "argument") for key in ("test.Fuse.kind", "test.Unroll.depth", "test.Any", "no.such")] == [
        "b",
        8,
        "argument",
        "argument",
    ]


def test_config_iterates_over_set_values_only() -> None:
    config = PassContext(config={"test.Unroll.depth": 3}).config
    assert (dict(config), len(config), "test.Unroll.depth" in config, "test.Any" in config, repr(config)) == (
        {"test.Unroll.depth": 3},
        1,
        True,
        False,
        "Config({'test.Unroll.depth': 3})",
    )


def test_config_ignores_later_changes_of_its_source() -> None:
    source: dict[str, object] = {"test.Unroll.depth": 3}
    ctx = PassContext(config=source)
    source["test.Unroll.depth"] = 4
    assert ctx.config["test.Unroll.depth"] == 3
    assert not hasattr(ctx.config, "__setitem__")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
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
def test_values_are_converted_to_option_type(key: str, value: object, expected: object) -> None:
    result = PassContext(config={key: value}).config[key]
    assert (result, type(result)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("test.Unroll.depth", "3", "config option 'test.Unroll.depth': expected int, got '3' (str)"),
        ("test.Unroll.depth", True, "config option 'test.Unroll.depth': expected int, got True (bool)"),
        ("test.Unroll.explicit", 1, "config option 'test.Unroll.explicit': expected bool, got 1 (int)"),
        ("test.Fuse.mode", "quick", "config option 'test.Fuse.mode': expected one of FAST, SAFE, got 'quick'"),
        ("test.Fuse.names", "xy", "config option 'test.Fuse.names': expected list[str], got 'xy' (str)"),
        ("test.Fuse.names", [1], "config option 'test.Fuse.names': expected str, got 1 (int)"),
        ("test.Fuse.ratio", "2", "config option 'test.Fuse.ratio': expected float | None, got '2' (str)"),
        ("test.Fuse.kind", "c", "config option 'test.Fuse.kind': expected 'a' | 'b', got 'c' (str)"),
    ],
)
def test_value_of_wrong_type_raises(key: str, value: object, message: str) -> None:
    with pytest.raises(ConfigTypeError) as caught:
        PassContext(config={key: value})
    assert str(caught.value) == message


def test_unknown_key_error_lists_candidates() -> None:
    for read in (
        lambda: PassContext(config={"test.Unroll.dept": 3}),
        lambda: PassContext().config["test.Unroll.dept"],
    ):
        with pytest.raises(UnknownConfigError) as caught:
            read()
        assert str(caught.value) == "unknown config option 'test.Unroll.dept'; did you mean 'test.Unroll.depth'?"
    with pytest.raises(UnknownConfigError) as caught:
        PassContext(config={"zzz": 1})
    assert str(caught.value) == (
        "unknown config option 'zzz'; registered are: test.Any, test.Fuse.kind, test.Fuse.mode, test.Fuse.names, "
        "test.Fuse.ratio and 2 more; PassContext.list_configs() lists all"
    )


def test_unknown_key_error_when_nothing_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apass.core.config._OPTIONS", {})
    with pytest.raises(UnknownConfigError, match="unknown config option 'x'; none is registered"):
        PassContext(config={"x": 1})


def test_registering_same_option_again_changes_nothing() -> None:
    again = register_config_option("test.Unroll.depth", int, default=8)
    assert again == ConfigOption("test.Unroll.depth", int, 8, "how deep")


@pytest.mark.parametrize(("kind", "default"), [(float, 8), (int, 9), (int, None)])
def test_registering_key_with_other_type_raises(kind: type, default: object) -> None:
    with pytest.raises(PassRegistrationError) as caught:
        register_config_option("test.Unroll.depth", kind, default)
    assert str(caught.value).startswith("config option 'test.Unroll.depth' is already registered as int with default 8")
    assert PassContext().config["test.Unroll.depth"] == 8


def test_default_of_wrong_type_raises_and_registers_nothing() -> None:
    with pytest.raises(ConfigTypeError, match=r"config option 'test.Bad': expected int, got 'x'"):
        register_config_option("test.Bad", int, default="x")
    assert "test.Bad" not in list_configs()


def test_list_configs_is_sorted_by_key() -> None:
    listed = PassContext.list_configs()
    assert listed == list_configs()
    assert [(key, *option.values()) for key, option in listed.items()] == [
        ("test.Any", "any", None, ""),
        ("test.Fuse.kind", "'a' | 'b'", "a", ""),
        ("test.Fuse.mode", "Mode", Mode.SAFE, ""),
        ("test.Fuse.names", "list[str]", [], ""),
        ("test.Fuse.ratio", "float | None", None, ""),
        ("test.Unroll.depth", "int", 8, "how deep"),
        ("test.Unroll.explicit", "bool", None, ""),
    ]


def test_user_default_overrides_default_of_apass() -> None:
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


@pytest.mark.process
@pytest.mark.slow
def test_options_of_apass_are_listed_without_importing_passes() -> None:
    output = output_of("""
        context = apass.PassContext(config={"relay.FuseOps.max_depth": 3})
        print(context.config["relay.FuseOps.max_depth"], apass.PassContext().config.get("relay.FuseOps.link_params"))
    """)
    assert output == "3 False\n"
    assert "relay.FuseOps.max_depth" in output_of("print(apass.PassContext.list_configs())")


@pytest.mark.process
@pytest.mark.slow
def test_user_default_remains_after_passes_are_imported() -> None:
    output = output_of("""
        apass.register_config_option("relay.FuseOps.max_depth", int, default=10)
        apass.parse_pipeline("FuseOps")
        print(apass.PassContext().config["relay.FuseOps.max_depth"])
    """)
    assert output == "10\n"


def output_of(code: str) -> str:
    """Return the output of `code` in a process that has imported only apass."""
    command = [sys.executable, "-c", f"import apass\n{dedent(code)}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("key", [3, None, "", ("a", "b")])
def test_key_of_wrong_type_is_rejected(key: Any) -> None:
    with pytest.raises(PassRegistrationError, match="must be a string such as"):
        register_config_option(key, int)
    assert key not in PassContext.list_configs()


@pytest.mark.parametrize("kind", ["int", 3, [int], (int, str), {"a": int}])
def test_type_of_option_must_be_type(kind: Any) -> None:
    with pytest.raises(PassRegistrationError, match=r"the type of config option 'misuse[.]kind' must be a type"):
        register_config_option("misuse.kind", kind)
    assert "misuse.kind" not in PassContext.list_configs()


@pytest.mark.parametrize("config", [["misuse.depth"], "misuse.depth", [("misuse.depth", 3)], 3])
def test_config_must_be_mapping(config: Any) -> None:
    with pytest.raises(ConfigTypeError, match="config must be a mapping of options by key, got"):
        PassContext(config=config)


def test_context_rejects_key_of_wrong_type() -> None:
    config: Any = {3: 4}
    with pytest.raises(UnknownConfigError, match="the key of a config option must be a string, got 3"):
        PassContext(config=config)


def test_default_changed_in_place_stays_in_context() -> None:
    register_config_option("misuse.layers", list[str], default=["a"])
    register_config_option("misuse.costs", dict[str, list[int]], default={"a": [1]})
    first = PassContext().config
    first["misuse.layers"].append("b")
    first.get("misuse.layers").append("c")
    first["misuse.costs"]["a"].append(2)
    second = apass.PassContext().config
    assert (second["misuse.layers"], second.get("misuse.costs")) == (["a"], {"a": [1]})


@dataclass(frozen=True)
class Depths:
    """The value of a structured option."""

    outer: int = 1
    inner: int = 2


def test_structured_option_takes_a_mapping() -> None:
    apass.register_config_option("tests.Depths", Depths, Depths())
    ctx = PassContext(config={"tests.Depths": {"inner": 5}})
    assert ctx.config["tests.Depths"] == Depths(1, 5)
    with pytest.raises(ConfigTypeError, match=r"config option 'tests.Depths': Depths has no field 'inmost'"):
        PassContext(config={"tests.Depths": {"inmost": 5}})


def test_option_reads_and_sets_its_value() -> None:
    depth = register_config_option("test.Unroll.depth", int, default=8)
    config = PassContext(config={depth: 3, "test.Fuse.kind": "b"}).config
    key: object = depth  # a type checker expects the keys of a mapping before `in`
    assert (config[depth], config.get(depth), key in config, dict(config), repr(config)) == (
        3,
        3,
        True,
        {"test.Unroll.depth": 3, "test.Fuse.kind": "b"},
        "Config({'test.Unroll.depth': 3, 'test.Fuse.kind': 'b'})",
    )
    assert (PassContext().config[depth], PassContext().config.get(depth, 4), key in PassContext().config) == (
        8,
        8,
        False,
    )


def test_option_with_mutable_default_is_key() -> None:
    names = register_config_option("test.Fuse.names", list[str], default=[])
    assert PassContext(config={names: ("a", "b")}).config[names] == ["a", "b"]
    assert {names: 1} == {register_config_option("test.Fuse.names", list[str], default=[]): 1}


def test_option_is_shown_as_call() -> None:
    assert repr(register_config_option("test.Unroll.depth", int, default=8)) == (
        "ConfigOption('test.Unroll.depth', int, default=8, doc='how deep')"
    )
    assert repr(register_config_option("test.Fuse.ratio", float | None)) == (
        "ConfigOption('test.Fuse.ratio', float | None, default=None)"
    )


def test_option_given_twice_raises() -> None:
    depth = register_config_option("test.Unroll.depth", int, default=8)
    with pytest.raises(ConfigTypeError) as caught:
        PassContext(config={depth: 3, "test.Unroll.depth": 4})
    assert str(caught.value) == "config option 'test.Unroll.depth' is given twice, by its key and by the option"


def test_option_of_other_program_is_unknown() -> None:
    option = ConfigOption("test.Unroll.dept", int, 8)
    with pytest.raises(UnknownConfigError, match=r"did you mean 'test[.]Unroll[.]depth'"):
        PassContext(config={option: 3})


def test_context_is_pickled_with_plain_keys() -> None:
    depth = register_config_option("test.Unroll.depth", int, default=8)
    message = ContextMessage.of(PassContext(config={depth: 3}))
    assert message.config == {"test.Unroll.depth": 3}
    assert pickle.loads(pickle.dumps(message)) == message


def test_options_of_user_code_have_their_types() -> None:
    for option in (getattr(user_code, name) for name in ("SIZE", "NAME", "MODE", "LAYERS", "RATIO", "KIND")):
        adopt_option(option)
    contexts = user_code.contexts({"user_code.Tune.size": 5}, {user_code.SIZE: 6})
    for ctx in contexts:
        user_code.reads(ctx)
    assert [dict(ctx.config) for ctx in contexts] == [
        {"user_code.Tune.size": 4},
        {"user_code.Tune.size": 4, "user_code.Tune.name": "x", "user_code.Tune.ratio": 0.5},
        {"user_code.Tune.size": 4, "user_code.Tune.mode": user_code.Mode.FAST},
        {"user_code.Tune.size": 4},
        {},
        {"user_code.Tune.size": 5},
        {"user_code.Tune.size": 6},
        {"user_code.Tune.size": 4},
    ]


def test_passes_depend_on_options_by_key() -> None:
    for option in (user_code.SIZE, user_code.MODE):
        adopt_option(option)
    assert (user_code.Tune.caching.config_keys, user_code.Grow().caching.config_keys) == (
        ("user_code.Tune.size", "user_code.Tune.mode"),
        ("user_code.Tune.size",),
    )
    ctx = PassContext(config={user_code.SIZE: 3})
    by_option = key_of("Shrink", "1", (), ctx, user_code.Shrink.caching.config_keys)
    assert by_option == key_of("Shrink", "1", (), ctx, ["user_code.Tune.size", "user_code.Tune.mode"])
    assert by_option != key_of("Shrink", "1", (), PassContext(), user_code.Shrink.caching.config_keys)
