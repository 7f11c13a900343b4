"""What cannot be a config option says so at once, and no later use of another one suffers from it."""

from typing import Any

import pytest

import apass
from apass import ConfigTypeError, PassContext, PassRegistrationError, UnknownConfigError, register_config_option


@pytest.mark.parametrize("key", [3, None, "", ("a", "b")])
def test_a_key_that_is_no_text_is_refused(key: Any) -> None:
    with pytest.raises(PassRegistrationError, match="is registered under a key, such as"):
        register_config_option(key, int)
    assert key not in PassContext.list_configs()


@pytest.mark.parametrize("kind", ["int", 3, [int], (int, str), {"a": int}])
def test_a_value_in_the_place_of_a_type_is_refused(kind: Any) -> None:
    with pytest.raises(PassRegistrationError, match=r"the type of config option 'misuse[.]kind' must be a type"):
        register_config_option("misuse.kind", kind)
    assert "misuse.kind" not in PassContext.list_configs()


@pytest.mark.parametrize("config", [["misuse.depth"], "misuse.depth", [("misuse.depth", 3)], 3])
def test_a_config_that_is_no_mapping_is_told(config: Any) -> None:
    with pytest.raises(ConfigTypeError, match="config must be a mapping of options by key, not"):
        PassContext(config=config)


def test_a_key_of_another_type_is_unknown() -> None:
    config: Any = {3: 4}
    with pytest.raises(UnknownConfigError, match="the key of a config option is a text, not 3"):
        PassContext(config=config)


def test_a_default_that_one_context_changes_is_as_it_was_in_the_next() -> None:
    register_config_option("misuse.layers", list[str], default=["a"])
    register_config_option("misuse.costs", dict[str, list[int]], default={"a": [1]})
    first = PassContext().config
    first["misuse.layers"].append("b")
    first.get("misuse.layers").append("c")
    first["misuse.costs"]["a"].append(2)
    second = apass.PassContext().config
    assert (second["misuse.layers"], second.get("misuse.costs")) == (["a"], {"a": [1]})
