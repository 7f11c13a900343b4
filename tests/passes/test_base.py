"""Base classes of passes: direct calls, results, kinds of functions, equality."""

from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import FunctionPass, ModulePass, PassContext, PassInfo, PrimFuncPass, Sequential
from apass.errors import PassDefinitionError, PassResultError
from apass.testing import RecordingInstrument
from tests.helpers.recording import FunctionBody, ModuleBody, function_pass_of, logging_pass, module_pass_of

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


class Rename(ModulePass[Module]):
    """Puts a prefix before every name."""

    info = PassInfo(opt_level=1, name="Rename")

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    async def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        await checkpoint()
        return {self.prefix + name: func for name, func in mod.items()}


class Increment(FunctionPass[Module, int]):
    """Adds one to every function."""

    info = PassInfo(opt_level=1, name="Increment")

    def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        return func + 1


class SuspendingIncrement(FunctionPass[Module, int]):
    """The same, with a body that suspends."""

    info = PassInfo(opt_level=1, name="SuspendingIncrement")

    async def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        await checkpoint()
        return func + 1


class Func:
    """A function with attributes."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


def visiting(log: list[Any], of: str = "function") -> apass.Pass[Module]:
    """Return a pass that writes down every function it visits."""

    async def visit(func: Any, mod: Module, ctx: PassContext) -> Any:
        await checkpoint()
        log.append(func)
        return func

    declare = apass.function_pass if of == "function" else apass.prim_func_pass
    return declare(visit, opt_level=0, name="Visit")


def test_error_names_the_group_of_an_attribute() -> None:
    pass_: Any = Rename("x_")
    assert (pass_.caching.cacheable, pass_.contract.requires, pass_.execution.native) == (False, (), False)
    with pytest.raises(AttributeError, match=r"no attribute 'cacheable'; it is in `caching`: pass_.caching.cacheable$"):
        _ = pass_.cacheable
    with pytest.raises(AttributeError, match=r"'Rename' object has no attribute 'other'$"):
        _ = pass_.other


# Calling a pass.


async def test_module_pass_returns_the_result_of_its_method() -> None:
    assert await Rename("x_")({"f": 1, "g": 2}) == {"x_f": 1, "x_g": 2}


@pytest.mark.parametrize("kind", [Increment, SuspendingIncrement])
async def test_function_pass_replaces_functions_and_keeps_the_input(kind: Any) -> None:
    mod = {"b": 1, "a": 2, "c": 3}
    result = await kind()(mod)
    assert (list(result.items()), mod) == ([("b", 2), ("a", 3), ("c", 4)], {"b": 1, "a": 2, "c": 3})


async def test_direct_call_ignores_level_and_disabled_pass() -> None:
    log: list[str] = []
    async with PassContext(opt_level=0, disabled_pass=["P"]):
        await logging_pass(log, "P", opt_level=9)({})
    assert log == ["run P"]


async def test_direct_call_does_not_resolve_requirements() -> None:
    log: list[str] = []
    await logging_pass(log, "P", required=["NoSuchPass"])({})
    await Sequential([logging_pass(log, "Q")], required=["NoSuchPass"])({})
    assert log == ["run P", "run Q"]


async def test_pass_object_runs_on_many_modules_concurrently() -> None:
    pass_ = Sequential([SuspendingIncrement(), Rename("x_"), SuspendingIncrement()])
    done = await apass.optimize_all({key: {"f": key} for key in range(1000)}, pass_, limit=None)
    assert done == {key: {"x_f": key + 2} for key in range(1000)}


# What a pass returns.


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (None, "pass 'Bad' returned None; return the new module, or `mod` if unchanged"),
        (7, "pass 'Bad' returned 7, which is no module (a int)"),
        (("f", 1), "pass 'Bad' returned ('f', 1), which is no module (a tuple)"),
    ],
)
@pytest.mark.parametrize("instruments", [False, True], ids=["without instruments", "with instruments"])
async def test_error_names_a_pass_without_module_result(given: object, says: str, instruments: bool) -> None:
    async def bad(mod: Module, ctx: PassContext) -> Any:
        return given

    async with PassContext(instruments=[RecordingInstrument("A", [])] if instruments else []):
        bodies: list[ModuleBody] = [bad, lambda mod, ctx: given]
        for body in bodies:
            with pytest.raises(PassResultError) as caught:
                await module_pass_of(body, opt_level=0, name="Bad")({})
            assert says in str(caught.value)


@pytest.mark.parametrize("is_async", [False, True])
async def test_error_names_the_function_without_result(is_async: bool) -> None:
    async def bad(func: int, mod: Module, ctx: PassContext) -> Any:
        return None if func == 2 else func

    plain: FunctionBody = lambda func, mod, ctx: None if func == 2 else func  # noqa: E731
    body = bad if is_async else plain
    with pytest.raises(PassResultError) as caught:
        await function_pass_of(body, opt_level=0, name="Bad")({"f": 1, "g": 2})
    assert "pass 'Bad' returned None for function 'g'" in str(caught.value)


@pytest.mark.parametrize("is_async", [False, True])
async def test_unchanged_functions_return_the_same_module(is_async: bool) -> None:
    async def same(func: Any, mod: Module, ctx: PassContext) -> Any:
        await checkpoint()
        return func

    mod = {"f": [1], "g": [2]}
    plain: FunctionBody = lambda func, mod, ctx: func  # noqa: E731
    body = same if is_async else plain
    assert await function_pass_of(body, opt_level=0, name="Same")(mod) is mod


async def test_equal_but_new_function_makes_a_new_module() -> None:
    mod = {"f": [1]}
    result = await function_pass_of(lambda func, mod, ctx: list(func), opt_level=0, name="Copy")(mod)
    assert (result is mod, result["f"] is mod["f"], result) == (False, False, mod)


async def test_module_without_functions_is_returned_unchanged() -> None:
    mod: Module = {}
    assert (await Increment()(mod) is mod, await SuspendingIncrement()(mod) is mod) == (True, True)


# Which functions a function pass visits.


async def test_every_body_gets_the_input_module() -> None:
    mod = {"f": 1, "g": 2, "h": 3}
    seen: list[tuple[bool, dict[str, int]]] = []

    @apass.function_pass(opt_level=0)
    async def Look(func: int, given: dict[str, int], ctx: PassContext) -> int:
        for _ in range(func):
            await checkpoint()
        seen.append((given is mod, dict(given)))
        return func * 10

    assert await Look(mod) == {"f": 10, "g": 20, "h": 30}
    assert seen == [(True, {"f": 1, "g": 2, "h": 3})] * 3


async def test_skip_optimization_attribute_skips_a_function() -> None:
    log: list[Any] = []
    mod: Module = {
        "plain": Func(),
        "attribute": Func(SkipOptimization=True),
        "false": Func(SkipOptimization=0),
        "attrs": Func(attrs={"SkipOptimization": 1}),
        "mapping": {"SkipOptimization": True},
        "nested": {"attrs": {"SkipOptimization": True}},
        "other": {"SkipOptimization": False, "attrs": {}},
    }
    assert await visiting(log)(mod) is mod
    assert {name for name, func in mod.items() if any(func is one for one in log)} == {"plain", "false", "other"}


async def test_function_kinds_have_separate_passes() -> None:
    functions: list[Any] = []
    prim_funcs: list[Any] = []
    mod: Module = {"f": Func(), "p": Func(kind="prim_func"), "q": {"kind": "prim_func", "SkipOptimization": True}}
    await visiting(functions)(mod)
    await visiting(prim_funcs, "prim_func")(mod)
    assert (functions, prim_funcs) == ([mod["f"]], [mod["p"]])


def test_prim_func_pass_has_its_own_function_kind() -> None:
    assert (FunctionPass.kind, PrimFuncPass.kind, issubclass(PrimFuncPass, FunctionPass)) == (
        "function",
        "prim_func",
        True,
    )


async def test_missing_adapter_error_suggests_registration() -> None:
    pass_: Any = Increment()
    with pytest.raises(apass.errors.AdapterError, match=r"no IR adapter for modules of type builtins.list"):
        await pass_([1, 2])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Increment(), "expected a module, got a pass: <Increment .*>; check the order of the arguments"),
        (PassContext(), r"expected a module, got a context: PassContext\(.*\); check the order of the arguments"),
    ],
)
async def test_pass_or_context_as_module_is_named(value: Any, message: str) -> None:
    with pytest.raises(apass.errors.AdapterError, match=message):
        await Increment()(value)


async def test_run_takes_the_context_second() -> None:
    level = module_pass_of(lambda mod, ctx: {"level": ctx.opt_level})
    assert await level.run({}, PassContext(3)) == await level.run({}, ctx=PassContext(3)) == {"level": 3}


@pytest.mark.parametrize("ctx", [PassContext, {}])
async def test_run_rejects_what_is_no_context(ctx: Any) -> None:
    with pytest.raises(TypeError, match="the ctx must be of type PassContext, got "):
        await Increment().run({}, ctx=ctx)


async def test_module_pass_needs_no_adapter() -> None:
    pass_ = module_pass_of(lambda mod, ctx: [*mod, 1], opt_level=0, name="Append")
    assert await pass_([0]) == [0, 1]


# Declaring a pass.


async def test_pass_without_info_raises_when_called() -> None:
    class NoInfo(ModulePass[Module]):
        def transform_module(self, mod: Module, ctx: PassContext) -> Module:
            return mod

    with pytest.raises(PassDefinitionError) as caught:
        await NoInfo()({})
    assert str(caught.value) == "NoInfo has no `info`; set it to PassInfo(opt_level=..., name='NoInfo')"


def test_class_with_invalid_info_raises() -> None:
    with pytest.raises(PassDefinitionError, match=r"Wrong.info must be a PassInfo"):
        type("Wrong", (ModulePass,), {"info": "Wrong"})


def test_pass_class_needs_its_transform_method() -> None:
    for base in (ModulePass, FunctionPass, PrimFuncPass):
        incomplete: Any = type("Incomplete", (base,), {"info": PassInfo(0, "Incomplete")})
        with pytest.raises(TypeError, match="abstract"):
            incomplete()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"opt_level": "1", "name": "P"}, "opt_level of pass 'P' must be an int, got '1'"),
        ({"opt_level": 1, "name": ""}, "the name of a pass must be a string that is not empty, got ''"),
        ({"opt_level": 1, "name": None}, "the name of a pass must be a string that is not empty, got None"),
        (
            {"opt_level": 1, "name": "P", "required": "Q"},
            "required of pass 'P' is the string 'Q'; give a list of names",
        ),
        ({"opt_level": 1, "name": "P", "required": [1]}, "required of pass 'P' must be a list of names, got (1,)"),
    ],
)
def test_info_checks_its_fields(given: Mapping[str, Any], says: str) -> None:
    with pytest.raises(PassDefinitionError) as caught:
        PassInfo(**given)
    assert str(caught.value) == says


def test_info_is_a_value() -> None:
    info = PassInfo(2, "P", ["Q", "R"])
    assert (info, info.required) == (PassInfo(opt_level=2, name="P", required=("Q", "R")), ("Q", "R"))
    assert PassInfo(0, "P", None).required == ()
    with pytest.raises(FrozenInstanceError):
        info.__setattr__("name", "Q")


# Text and equality.


def test_passes_with_equal_spec_are_equal() -> None:
    apass.register_pass("Rename", Rename)
    try:
        one, same, other = (apass.get_pass("Rename", prefix=prefix) for prefix in ("x", "x", "y"))
        assert (one == same, hash(one) == hash(same), one == other) == (True, True, False)
        assert (str(one), repr(one)) == ("Rename{prefix=x}", "<Rename Rename opt_level=1 prefix='x'>")
        assert Sequential([one]) == Sequential([same])
        assert Sequential([one]) != Sequential([other])
        assert Sequential([one], name="A") != Sequential([one])
    finally:
        apass.unregister_pass("Rename")


def test_passes_without_spec_compare_by_identity() -> None:
    one, other = Rename("x"), Rename("x")
    assert (one == one, one == other, {one: 1}.get(one), {one: 1}.get(other)) == (True, False, 1, None)


def test_simple_pass_has_no_children() -> None:
    pass_ = Increment()
    assert (pass_.children(), Sequential([pass_]).children()) == ((), (pass_,))


def test_anyio_runs_a_pass_from_synchronous_code() -> None:
    assert anyio.run(Rename("x"), {"f": 1}) == {"xf": 1}


async def test_run_enters_context_and_names_module() -> None:
    seen: list[object] = []

    @apass.module_pass(opt_level=0)
    def Look(mod: Module, ctx: PassContext) -> Module:
        seen.append((ctx.opt_level, apass.current_module_name()))
        return mod

    ctx = PassContext(opt_level=3)
    mod = {"f": 1}
    assert await Look.run(mod, name="a", ctx=ctx) is mod
    assert await Look.run(mod) is mod
    assert seen == [(3, "a"), (2, None)]
    assert apass.current_module_name() is None


async def test_error_of_run_names_the_module() -> None:
    @apass.module_pass(opt_level=0)
    def Fail(mod: Module, ctx: PassContext) -> Module:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        await Fail.run({"f": 1}, name="a", ctx=PassContext())
    assert caught.value.__notes__ == ["in pass 'Fail', module 'a'"]
