# pyright: reportUnnecessaryTypeIgnoreComment=true
"""Config options as users write them, for mypy and pyright in strict mode.

Each line with an ignore comment is a mistake. Both type checkers report an ignore comment that is not needed.
"""

from enum import Enum
from typing import Any, Literal, assert_type

import apass
from apass.testing import run_pass

Module = dict[str, int]


class Mode(Enum):
    FAST = "fast"
    SAFE = "safe"


SIZE = apass.register_config_option("user_code.Tune.size", int, default=8, doc="how many at once")
NAME = apass.register_config_option("user_code.Tune.name", str)
MODE = apass.register_config_option("user_code.Tune.mode", Mode, Mode.SAFE)
LAYERS = apass.register_config_option("user_code.Tune.layers", list[str], default=["conv"])
RATIO = apass.register_config_option("user_code.Tune.ratio", float | None)
KIND = apass.register_config_option("user_code.Tune.kind", Literal["a", "b"], default="a")
LEVEL = apass.plugins.provide_config_option("user_code.Tune.level", int, 1)

assert_type(SIZE, apass.ConfigOption[int])
assert_type(SIZE.default, int)
assert_type(NAME, apass.ConfigOption[str | None])
assert_type(MODE, apass.ConfigOption[Mode])
assert_type(LAYERS, apass.ConfigOption[list[str]])
assert_type(KIND, apass.ConfigOption[Any])
assert_type(LEVEL, apass.ConfigOption[int])


@apass.function_pass(opt_level=1, cacheable=True, config_keys=[SIZE, "user_code.Tune.mode"])
def Tune(func: int, mod: Module, ctx: apass.PassContext) -> int:
    return func + ctx.config[SIZE] + len(ctx.config.get(NAME, ""))


class Grow(apass.FunctionPass[Module, int], opt_level=1, cacheable=True, config_keys=[SIZE]):
    """A pass whose results depend on one option."""

    def transform_function(self, func: int, mod: Module, ctx: apass.PassContext) -> int:
        return func * ctx.config[SIZE]


class Shrink(apass.FunctionPass[Module, int]):
    """A pass with attributes in place of keywords."""

    info = apass.PassInfo(1, "Shrink")
    cacheable = True
    config_keys = (SIZE, "user_code.Tune.mode")

    def transform_function(self, func: int, mod: Module, ctx: apass.PassContext) -> int:
        return func // ctx.config[SIZE]


@apass.register_property("user_code.small")
async def is_small(mod: Module, ctx: apass.PassContext) -> bool | str:
    return len(mod) < ctx.config[SIZE] or "too many functions"


@apass.register_property("user_code.named")
def is_named(mod: Module) -> bool:
    return "" not in mod


def reads(ctx: apass.PassContext) -> None:
    """Read options, whose types are known."""
    assert_type(ctx.config[SIZE], int)
    assert "none is set" if SIZE not in ctx.config else ctx.config[SIZE] > 0
    assert_type(ctx.config[NAME], str | None)
    assert_type(ctx.config[MODE], Mode)
    assert_type(ctx.config[LAYERS], list[str])
    assert_type(ctx.config[KIND], Any)
    assert_type(ctx.config["user_code.Tune.size"], Any)
    assert_type(ctx.config.get(NAME, ""), str)
    assert_type(ctx.config.get(NAME), str | None)
    assert_type(ctx.config.get(SIZE, 3), int)
    assert_type(ctx.config.get("user_code.Tune.size"), Any)


def contexts(by_key: dict[str, int], by_option: dict[apass.ConfigOption[int], int]) -> list[apass.PassContext]:
    """Set options by themselves, by their keys, and by both."""
    run_pass(Tune, {"f": 1}, config={SIZE: 4})
    return [
        apass.PassContext(config={SIZE: 4}),
        apass.PassContext(config={SIZE: 4, NAME: "x", RATIO: 0.5}),
        apass.PassContext(config={SIZE: 4, "user_code.Tune.mode": "fast"}),
        apass.PassContext(config={"user_code.Tune.size": 4}),
        apass.PassContext(config={}),
        apass.PassContext(config=by_key),
        apass.PassContext(config=by_option),
        apass.PassContext(config=apass.PassContext(config={SIZE: 4}).config),
    ]


def mistakes(ctx: apass.PassContext) -> None:
    """Make mistakes, which the type checkers report."""
    name: str = ctx.config[SIZE]  # type: ignore[assignment]
    len(ctx.config[NAME])  # type: ignore[arg-type]
    ctx.config[SIZE].upper()  # type: ignore[attr-defined]
    ctx.config[8]  # type: ignore[call-overload]
    apass.PassContext(config={8: name})  # type: ignore[dict-item]
    apass.PassContext(config=[SIZE])  # type: ignore[arg-type]
    ctx.config.get(8)  # type: ignore[call-overload]
    apass.function_pass(opt_level=1, config_keys=[8])(Tune.transform_function)  # type: ignore[list-item]
