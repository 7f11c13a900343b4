"""Passes from partials, callable objects and methods, and subclasses of passes."""

import functools
from typing import Any

import pytest

import apass
from apass import PassContext, function_pass, get_pass, module_pass, register_pass, unregister_pass
from apass.errors import PassDefinitionError
from apass.executors.pickling import dumps, loads
from apass.passes.registry import pass_options
from apass.stores import MemoryStore

pytestmark = pytest.mark.anyio

Module = dict[str, int]


def scale(func: int, mod: Module, ctx: PassContext, by: int = 1) -> int:
    return func * by


class Scale:
    """A callable object with attributes of the names that a pass has."""

    def __init__(self, by: int) -> None:
        self.by = by
        self.version = 3
        self.children = self.timeout = self.analyses = "its own"

    def __call__(self, func: int, mod: Module, ctx: PassContext) -> int:
        return func * self.by

    async def later(self, func: int, mod: Module, ctx: PassContext) -> int:
        return func * self.by


class SlottedScale:
    __slots__ = ("by",)

    def __init__(self, by: int) -> None:
        self.by = by

    def __call__(self, func: int, mod: Module, ctx: PassContext) -> int:
        return func * self.by


def partial_scale(by: int) -> Any:
    return functools.partial(scale, by=by)


def partial_of_partial(by: int) -> Any:
    return functools.partial(functools.partial(scale), by=by)


def bound_scale(by: int) -> Any:
    return Scale(by).later


CALLABLES = [
    (partial_scale, "scale"),
    (partial_of_partial, "scale"),
    (Scale, "Scale"),
    (SlottedScale, "SlottedScale"),
    (bound_scale, "later"),
]


@pytest.mark.parametrize(("make", "name"), CALLABLES)
async def test_any_callable_becomes_a_named_pass(make: Any, name: str) -> None:
    decorate: Any = function_pass
    made = decorate(make(3), opt_level=0)
    assert (made.info.name, await made({"f": 2})) == (name, {"f": 6})


@pytest.mark.parametrize(("make", "_name"), CALLABLES)
async def test_cache_key_contains_the_state_of_callables(make: Any, _name: str) -> None:
    async with PassContext(store=MemoryStore()):
        results: list[Any] = [await function_pass(make(by), opt_level=0, cacheable=True)({"f": 2}) for by in (3, 5, 3)]
    assert results == [{"f": 6}, {"f": 10}, {"f": 6}]


async def test_equal_callables_share_cached_results() -> None:
    async with PassContext(store=MemoryStore()) as ctx:
        for make in (partial_scale, SlottedScale, bound_scale):
            for _ in range(2):
                await function_pass(make(3), opt_level=0, cacheable=True)({"f": 2})
        assert ctx.analyses.counts["pass stored"] == 3


def test_pass_exposes_attributes_of_its_callable() -> None:
    made: Any = function_pass(Scale(3), opt_level=0)
    assert (made.by, made.caching.version, made.timeout, made.children(), str(made)) == (3, "1", None, (), "Scale")
    assert not hasattr(made, "version")


@function_pass(opt_level=1)
class Add:
    def __init__(self, amount: int) -> None:
        self.amount = amount

    def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        return func + self.amount


@module_pass(opt_level=1)
class Put:
    def __init__(self, name: str) -> None:
        self.name = name

    async def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        return {**mod, self.name: 0}


class AddTwice(Add):
    def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        once: int = Add.transform_function(self, func, mod, ctx)
        return once + self.amount


class AddMore(Add):
    def __init__(self, amount: int, more: int) -> None:
        Add.__init__(self, amount)
        self.more = more

    def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        return func + self.amount + self.more


class PutBoth(Put):
    async def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        return {**mod, self.name: 1, "both": 1}


class AddAsBefore(Add):
    """Overrides nothing."""


@function_pass(opt_level=2)
class AddDecoratedAgain(Add):
    def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        return func - self.amount


@pytest.mark.parametrize(
    ("made", "result"),
    [
        (Add(3), {"f": 5}),
        (AddTwice(3), {"f": 8}),
        (AddMore(3, 4), {"f": 9}),
        (AddAsBefore(3), {"f": 5}),
        (AddDecoratedAgain(3), {"f": -1}),
        (PutBoth("g"), {"f": 2, "g": 1, "both": 1}),
    ],
    ids=lambda one: type(one).__name__,
)
async def test_subclass_of_a_decorated_class_can_override(made: apass.Pass[Module], result: Module) -> None:
    assert await made({"f": 2}) == result


async def test_subclass_does_not_share_equality_or_cache() -> None:
    assert Add(3) == Add(3)
    assert AddTwice(3) != Add(3)
    passes: list[Any] = [Add(3), AddTwice(3), AddMore(3, 1), AddMore(3, 2)]
    async with PassContext(store=MemoryStore()):
        for one in passes:
            one.cacheable = True
        results = [await one({"f": 2}) for one in (*passes, *passes)]
    assert results == [{"f": 5}, {"f": 8}, {"f": 6}, {"f": 7}] * 2


@pytest.mark.parametrize(
    ("target", "options", "complaint"),
    [
        (Add(3), {}, "function_pass takes a function or a class, but <Add Add opt_level=1 amount=3> is already a pass"),
        (scale, {"required": 3}, "required must be a list of names and analyses, got 3"),
        (scale, {"required": "InferType"}, "required is the string 'InferType'; give a list of names"),
    ],
)
def test_invalid_pass_function_raises(target: Any, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(PassDefinitionError) as caught:
        function_pass(target, opt_level=0, **options)
    assert str(caught.value) == complaint


def test_requirements_must_be_a_list() -> None:
    wrong: Any = 3
    with pytest.raises(PassDefinitionError, match="required of pass 'A' must be a list, got 3"):
        apass.PassInfo(0, "A", wrong)


@pytest.mark.parametrize("made", [AddTwice(3), AddMore(3, 4), AddMore(more=4, amount=3), AddAsBefore(amount=3)])
async def test_worker_rebuilds_subclass_from_constructor_arguments(made: apass.Pass[Module]) -> None:
    there: apass.Pass[Module] = loads(dumps(made, "the pass"))
    assert type(there) is type(made)
    assert await there({"f": 2}) == await made({"f": 2})


@pytest.mark.parametrize(
    ("factory", "options"), [(Add, ["amount"]), (AddTwice, ["amount"]), (AddMore, ["amount", "more"])]
)
def test_options_of_a_pass_class_are_constructor_parameters(factory: Any, options: list[str]) -> None:
    register_pass("tests.callables.Adder", factory)
    try:
        assert list(pass_options("tests.callables.Adder")) == options
        with pytest.raises(PassDefinitionError, match="has no option 'amuont'; did you mean 'amount'"):
            get_pass("tests.callables.Adder", amuont=3)
    finally:
        unregister_pass("tests.callables.Adder")
