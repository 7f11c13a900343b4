"""`check_pass`: each law finds the pass that breaks it."""

import asyncio
import time
from collections.abc import Callable
from itertools import count
from typing import Any, cast

import pytest
from anyio.lowlevel import checkpoint

import apass
from apass.relay.testing import mlp
from apass.testing import check_pass, parse_module
from tests.helpers.onnx_models import relu, with_functions

Module = dict[str, Any]
CACHED = "the pass is cacheable by function, so results must not depend on other functions; but"
MODULES = {"empty": {}, "small": {"f": 1, "g": 2, "h": 3}}


@apass.function_pass(opt_level=0, cacheable=True)
async def Halve(func: int, mod: Module, ctx: apass.PassContext) -> int:
    """Halve even functions."""
    await checkpoint()
    return func // 2 if func % 2 == 0 else func


@apass.analysis
def Parity(func: int) -> int:
    """Return the rest of a division by two."""
    return func % 2


def module_pass(body: Callable[[Module], Module], **options: Any) -> apass.Pass[Module]:
    """Return a module pass of a function of the module alone."""
    return apass.module_pass(lambda mod, ctx: body(mod), opt_level=0, name="P", **options)


def function_pass(body: Callable[[Any, Module], Any], **options: Any) -> apass.Pass[Module]:
    """Return a function pass of a function of function and module."""
    return apass.function_pass(lambda func, mod, ctx: body(func, mod), opt_level=0, name="P", **options)


def racing_pass() -> apass.Pass[Module]:
    """Return a pass whose bodies share a variable over a suspension."""
    total = 0

    async def body(func: int, mod: Module, ctx: apass.PassContext) -> int:
        nonlocal total
        total = func
        await checkpoint()
        return total

    return apass.function_pass(body, opt_level=0, name="P")


def counting_pass() -> apass.Pass[Module]:
    """Return a pass that returns another result each time."""
    numbers = count()
    return function_pass(lambda func, mod: next(numbers))


def failing_pass() -> apass.Pass[Module]:
    """Return a pass that fails from the second run on."""
    left = [2, 1]
    return function_pass(lambda func, mod: left.pop())


def mutating(mod: Module) -> Module:
    """Change the module in place."""
    mod["f"] = 7
    return mod


@pytest.mark.parametrize(
    ("pass_", "message"),
    [
        (module_pass(mutating), "the pass changed its input; return a new module, or make an InPlacePass of it"),
        (module_pass(dict), "nothing changed, but the result is a copy; return the module itself"),
        (module_pass(lambda mod: {**mod, "f": None}), "the result is invalid: function 'f' of a dict module is None"),
        (module_pass(lambda mod: {**mod, "f": (1, 2)}), "the result cannot be written, while the input can: this dict"),
        (
            function_pass(lambda func, mod: func + 1, preserves=[Parity], required=[Parity]),
            "a claim of the pass does not hold: pass 'P' claims to preserve Parity, but that was 1 and is 0",
        ),
        (racing_pass(), "the result depends on the order of bodies, or on earlier runs\n--- expected\n"),
        (counting_pass(), "the result depends on the order of bodies, or on earlier runs\n--- expected\n"),
        (failing_pass(), "it fails on asyncio in some orders of bodies, or in later runs: IndexError: "),
        (
            function_pass(lambda func, mod: sum(mod.values()), cacheable=True),
            f"{CACHED} 'f' alone has another one; declare cacheable=\"module\"\n--- expected\n",
        ),
        (
            function_pass(lambda func, mod: mod["g"], cacheable=True),
            f"{CACHED} it fails for 'f' alone with KeyError: 'g'; declare cacheable=\"module\"",
        ),
    ],
    ids=[
        "mutating", "copying", "invalid", "unwritable", "not preserving", "racing", "counting", "failing",
        "using the module", "requiring the module",
    ],
)  # fmt: skip
def test_broken_law_is_named(pass_: apass.Pass[Module], message: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_pass(pass_, {"m": {"f": 1, "g": 2}})
    assert str(caught.value).startswith(f"pass 'P' on module 'm': {message}")


def test_failure_on_trio_only_is_named() -> None:
    async def sleep(mod: Module, ctx: apass.PassContext) -> Module:
        await asyncio.sleep(0)
        return mod

    with pytest.raises(AssertionError) as caught:
        check_pass(apass.module_pass(sleep, opt_level=0, name="P"), {"m": {"f": 1}})
    message = str(caught.value)
    assert message.startswith("pass 'P' on module 'm': it fails on trio, but not on asyncio: TypeError: trio.run")
    assert message.splitlines()[-1] == "(use anyio in place of asyncio, or check_pass(backends=['asyncio']))"


def test_failing_order_is_repeated_by_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    racing = racing_pass()
    with pytest.raises(AssertionError) as caught:
        check_pass(racing, [{"f": 1, "g": 2}], seed=5, runs=50)
    line = str(caught.value).splitlines()[-1]
    seed = line.partition("seed ")[2].partition(";")[0]
    assert line == f"(asyncio, seed {seed}; APASS_SEED={seed} repeats this order)"
    monkeypatch.setenv("APASS_SEED", seed)
    with pytest.raises(AssertionError) as repeated:
        check_pass(racing, [{"f": 1, "g": 2}])
    assert str(repeated.value) == str(caught.value)


def test_slow_bodies_are_expected_in_their_own_order() -> None:
    """A body that holds the loop for longer than a time slice starts no other order."""
    total = 0

    async def body(func: int, mod: Module, ctx: apass.PassContext) -> int:
        nonlocal total
        total = func
        time.sleep(0.05)  # noqa: ASYNC251  it holds the event loop for longer than a slice
        await checkpoint()
        return total

    with pytest.raises(AssertionError) as caught:
        check_pass(apass.function_pass(body, opt_level=0, name="P"), [{"f": 1, "g": 2}], seed=5, runs=50)
    assert "\n-f: 2\n+f: 1\n" in str(caught.value)


def test_correct_passes_hold_all_laws() -> None:
    check_pass(Halve, MODULES)
    check_pass(module_pass(lambda mod: mod, cacheable=True), MODULES, idempotent=True)
    check_pass(function_pass(lambda func, mod: sum(mod.values()), cacheable="module"), MODULES)


def test_idempotence_is_checked_on_request() -> None:
    check_pass(Halve, [{"f": 2}], idempotent=True)
    with pytest.raises(AssertionError, match=r"a second run changes the result again\n--- expected\n\+\+\+ actual"):
        check_pass(Halve, [{"f": 4}], idempotent=True)


def test_claim_of_idempotence_is_checked() -> None:
    with pytest.raises(AssertionError, match="a second run changes the result again"):
        check_pass(function_pass(lambda func, mod: func // 2, idempotent=True), [{"f": 4}])


def test_pipelines_of_relay_and_onnx_are_checked() -> None:
    check_pass("InferType,FoldConstant,FuseOps", [mlp.get_workload(1)[0]], runs=1, idempotent=True)
    check_pass("onnx.Default", [with_functions(), relu()], runs=1)


def test_merged_nodes_are_a_change() -> None:
    mod = parse_module("def @main(%t: (float32, float32)) { (%t.0, %t.0) }", ".relay")
    check_pass(apass.get_pass("EliminateCommonSubexpr"), [mod], runs=1)


def test_invalid_input_is_reported() -> None:
    with pytest.raises(AssertionError, match="on module '0': the module is invalid before the pass: function 'f'"):
        check_pass(Halve, [{"f": None}])


def test_modules_must_be_a_collection() -> None:
    with pytest.raises(TypeError, match=r"modules must be a list or a mapping of modules, but it contains 1 \("):
        check_pass(Halve, cast("Any", {"f": 1}))
    with pytest.raises(ValueError, match="there are no modules to check"):
        check_pass(Halve, [])


@pytest.mark.anyio
async def test_check_pass_refuses_async_tests() -> None:
    with pytest.raises(apass.errors.PassContextError, match="call it from a plain test"):
        check_pass(Halve, MODULES)
