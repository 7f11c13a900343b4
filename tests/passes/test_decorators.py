"""The forms and the errors of the decorators that create passes."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import (
    FunctionPass,
    ModulePass,
    PassContext,
    PassInfo,
    PrimFuncPass,
    function_pass,
    module_pass,
    prim_func_pass,
)
from apass.errors import PassDefinitionError
from tests.helpers.recording import FunctionBody, ModuleBody, function_pass_of, module_pass_of

pytestmark = pytest.mark.anyio

Module = dict[str, int]
DECORATORS: dict[str, tuple[Callable[..., Any], type]] = {
    "module_pass": (module_pass, ModulePass),
    "function_pass": (function_pass, FunctionPass),
    "prim_func_pass": (prim_func_pass, PrimFuncPass),
}
EVERY = pytest.mark.parametrize(("declare", "base"), DECORATORS.values(), ids=DECORATORS)


async def increment(func: int, mod: Module, ctx: PassContext) -> int:
    """Add one."""
    await checkpoint()
    return func + 1


async def add(amount: int, func: int, mod: Module, ctx: PassContext) -> int:
    await checkpoint()
    return func + amount


async def increment_module(mod: Module, ctx: PassContext | None = None) -> Module:
    await checkpoint()
    return {"f": mod["f"] + 1}


class Adder:
    """An object that can be called as a function pass's function."""

    async def __call__(self, func: int, mod: Module, ctx: PassContext) -> int:
        await checkpoint()
        return func + 1


class PlainAdder:
    def __call__(self, func: int, mod: Module, ctx: PassContext) -> int:
        return func + 1


@functools.wraps(increment)
def wrapped(func: int, mod: Module, ctx: PassContext) -> Any:
    return increment(func, mod, ctx)


class Awaited:
    """Something to await that is no coroutine."""

    def __init__(self, func: int) -> None:
        self.func = func

    def __await__(self) -> Any:
        yield from checkpoint().__await__()
        return self.func + 1


# What can be the work of a pass.


FUNCTION_BODIES: dict[str, FunctionBody] = {
    "async def": increment,
    "lambda": lambda func, mod, ctx: func + 1,
    "lambda over async def": lambda func, mod, ctx: increment(func, mod, ctx),
    "partial of async def": functools.partial(add, 1),
    "partial of partial": functools.partial(functools.partial(add, 1)),
    "object with async __call__": Adder(),
    "object with __call__": PlainAdder(),
    "bound async method": Adder().__call__,
    "wrapper around async def": wrapped,
    "lambda over an awaitable object": lambda func, mod, ctx: Awaited(func),
    "lambda that awaits now and then": lambda func, mod, ctx: func + 1 if func == 2 else increment(func, mod, ctx),
}


@pytest.mark.parametrize("body", FUNCTION_BODIES.values(), ids=FUNCTION_BODIES)
@pytest.mark.parametrize("guards", [{}, {"timeout": 60.0}, {"on_error": "keep"}], ids=["", "timeout", "keep"])
async def test_any_callable_can_be_a_function_pass(body: FunctionBody, guards: dict[str, Any]) -> None:
    pass_ = function_pass_of(body, **guards)
    assert await pass_({"f": 1, "g": 2, "h": 3}) == {"f": 2, "g": 3, "h": 4}


@pytest.mark.parametrize("guards", [{}, {"timeout": 60.0}], ids=["", "timeout"])
async def test_lambda_returning_unchanged_coroutine_result_keeps_module(
    guards: dict[str, Any],
) -> None:
    async def same(func: list[int]) -> list[int]:
        await checkpoint()
        return func

    mod = {"f": [1], "g": [2]}
    pass_ = function_pass_of(lambda func, mod, ctx: same(func), opt_level=0, name="Same", **guards)
    assert await pass_(mod) is mod


async def test_lambda_coroutine_without_function_result_raises() -> None:
    async def nothing() -> None:
        await checkpoint()

    with pytest.raises(apass.errors.PassResultError, match="pass 'Nothing' returned None for function 'f'"):
        await function_pass_of(lambda func, mod, ctx: nothing(), opt_level=0, name="Nothing")({"f": 1})


async def test_failing_lambda_closes_earlier_coroutines() -> None:
    def body(func: int, mod: Module, ctx: PassContext) -> Any:
        if func == 3:
            raise KeyError(func)
        return increment(func, mod, ctx)

    with pytest.raises(KeyError):
        await function_pass(body, opt_level=0, name="Increment")({"f": 1, "g": 2, "h": 3})


MODULE_BODIES: dict[str, ModuleBody] = {
    "lambda": lambda mod, ctx: {"f": mod["f"] + 1},
    "lambda over async def": lambda mod, ctx: increment_module(mod),
    "partial of async def": functools.partial(increment_module),
}


@pytest.mark.parametrize("body", MODULE_BODIES.values(), ids=MODULE_BODIES)
async def test_any_callable_can_be_a_module_pass(body: ModuleBody) -> None:
    assert await module_pass_of(body)({"f": 1}) == {"f": 2}


# The forms.


@EVERY
def test_decorator_with_arguments_creates_its_kind(declare: Callable[..., Any], base: type) -> None:
    def Work(*given: Any) -> Any:
        """Do it."""

    pass_ = declare(opt_level=3, required=["Q"])(Work)
    assert (isinstance(pass_, base), pass_.info, pass_.__doc__) == (True, PassInfo(3, "Work", ["Q"]), "Do it.")


@EVERY
def test_function_can_be_the_first_argument(declare: Callable[..., Any], base: type) -> None:
    work = increment_module if base is ModulePass else increment
    pass_ = declare(work, 2, "Renamed", ["Q"])
    assert (isinstance(pass_, base), pass_.info) == (True, PassInfo(2, "Renamed", ("Q",)))


def test_timeout_and_on_error_become_attributes() -> None:
    pass_ = function_pass(increment, opt_level=0, timeout=2.5, on_error="keep")
    plain = function_pass(increment, opt_level=0)
    assert (pass_.timeout, pass_.on_error, plain.timeout, plain.on_error) == (2.5, "keep", None, "raise")


# Classes.


async def test_decorated_class_becomes_a_pass_class() -> None:
    class AddFunction:
        """Adds a function."""

        def __init__(self, name: str, *, value: int = 0) -> None:
            self.name = name
            self.value = value

        async def transform_module(self, mod: Module, ctx: PassContext) -> Module:
            await checkpoint()
            return {**mod, self.name: self.value}

    passes: Any = module_pass(opt_level=2)(AddFunction)
    pass_ = passes("g", value=7)
    assert (isinstance(passes, type), issubclass(passes, ModulePass), passes.__name__) == (True, True, "AddFunction")
    assert (pass_.info, passes.__doc__) == (PassInfo(2, "AddFunction"), "Adds a function.")
    assert await pass_({"f": 1}) == {"f": 1, "g": 7}
    assert (pass_.spec, str(pass_)) == (
        ("AddFunction", {"name": "g", "value": 7}),
        "AddFunction{name=g,value=7}",
    )
    assert pass_ == passes("g", value=7)
    assert pass_ != passes("g")


async def test_pass_exposes_attributes_of_its_instance() -> None:
    class ReplaceFunc:
        def __init__(self, new_func: int) -> None:
            self.new_func = new_func

        def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
            return self.new_func

    declare: Any = function_pass
    passes = declare(opt_level=1, name="Replace", required=["Q"], timeout=60)(ReplaceFunc)
    pass_ = passes(9)
    assert (pass_.new_func, pass_.info, pass_.timeout) == (9, PassInfo(1, "Replace", ("Q",)), 60)
    assert await pass_({"f": 1, "g": 2}) == {"f": 9, "g": 9}
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = pass_.no_such_thing


async def test_each_pass_has_its_own_instance() -> None:
    class Add:
        def __init__(self, amount: int) -> None:
            self.amount = amount

        async def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
            await checkpoint()
            return func + self.amount

    passes: Any = function_pass(opt_level=0)(Add)
    assert await apass.Sequential[Module]([passes(1), passes(10)])({"f": 0}) == {"f": 11}


def test_class_without_constructor_takes_no_options() -> None:
    class Keep:
        def transform_module(self, mod: Module, ctx: PassContext) -> Module:
            return mod

    passes: Any = module_pass(opt_level=0)(Keep)
    assert (str(inspect.signature(passes)), str(passes())) == ("()", "Keep")
    with pytest.raises(TypeError, match="takes no arguments"):
        passes(amount=3)


# What is wrong.


@EVERY
def test_opt_level_is_mandatory(declare: Callable[..., Any], base: type) -> None:
    for given in ([increment], []):
        with pytest.raises(PassDefinitionError, match=r"please provide opt_level: .*_pass\(opt_level=...\)"):
            declare(*given)


@EVERY
def test_decorator_rejects_objects_that_are_not_callable(declare: Callable[..., Any], base: type) -> None:
    as_decorator: Callable[[object], object] = declare(opt_level=2)
    for refuse in (lambda: declare(2, 2), lambda: declare("name", 2), lambda: as_decorator("body")):
        with pytest.raises(PassDefinitionError, match="takes a function or a class, got"):
            refuse()


@pytest.mark.parametrize(
    ("declare", "method", "near"),
    [
        (module_pass, "transform_module", "transform_modul"),
        (function_pass, "transform_function", "transform_func"),
        (prim_func_pass, "transform_function", "transform_functions"),
    ],
)
def test_decorated_class_needs_the_method(declare: Callable[..., Any], method: str, near: str) -> None:
    with pytest.raises(PassDefinitionError) as caught:
        declare(opt_level=0)(type("Mine", (), {near: None}))
    says = f"{declare.__name__} needs a method {method!r} on class Mine; did you mean {near!r}?"
    assert str(caught.value) == says


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"timeout": 0}, "timeout must be a positive number of seconds or None, got 0"),
        ({"timeout": -1.5}, "timeout must be a positive number of seconds or None, got -1.5"),
        ({"timeout": "2"}, "timeout must be a positive number of seconds or None, got '2'"),
        ({"timeout": True}, "timeout must be a positive number of seconds or None, got True"),
        ({"timeout": float("nan")}, "timeout must be a positive number of seconds or None, got nan"),
        (
            {"on_error": "ignore"},
            "on_error must be 'raise', 'keep' or a function (func, mod, ctx, error) -> func, got 'ignore'",
        ),
    ],
)
def test_timeout_on_error_and_executor_are_validated(given: dict[str, Any], says: str) -> None:
    for declare in (function_pass, prim_func_pass):
        with pytest.raises(PassDefinitionError) as caught:
            declare(increment, opt_level=0, **given)
        assert str(caught.value) == says


def test_misspelt_option_error_suggests_a_name() -> None:
    make: Any = apass.function_pass
    with pytest.raises(TypeError, match=r"^unexpected argument 'timeot'; did you mean 'timeout'"):
        make(opt_level=0, timeot=1.0)
