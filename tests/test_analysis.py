"""Analyses: asked by passes, computed once for equal contents, carried over where a pass preserves them."""

import threading
from collections.abc import Callable
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass import PassContext, relay

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


def counted(**options: Any) -> tuple[apass.Analysis[int], list[str]]:
    """Return an analysis that waits, and what it was computed for."""
    seen: list[str] = []

    async def Length(func: str, *, factor: int = 1) -> int:
        seen.append(func)
        await anyio.lowlevel.checkpoint()
        return len(func) * factor

    made: apass.Analysis[int] = apass.analysis(**options)(Length)
    return made, seen


def asking(asked: apass.Analysis[int], **promises: Any) -> apass.Pass[Module]:
    """Return a function pass that asks, and adds what it learned to the function."""

    async def ask(func: str, mod: Module, ctx: PassContext) -> str:
        return f"{func}:{await ctx.get(asked, func)}"

    make: Any = apass.function_pass
    pass_: apass.Pass[Module] = make(ask, opt_level=0, name="Ask", **promises)
    return pass_


async def test_many_askers_of_the_same_share_one_computation() -> None:
    length, seen = counted()
    modules = {f"m{index}": {f"f{n}": "xyz" if n % 2 else "ab" for n in range(20)} for index in range(20)}
    async with PassContext() as ctx:
        made = await apass.optimize_all(modules, asking(length))
    assert made["m3"]["f4"] == "ab:2"
    assert made["m7"]["f5"] == "xyz:3"
    assert (sorted(seen), ctx.analyses.counts["computed"]) == (["ab", "xyz"], 2)


async def test_options_are_part_of_what_is_asked() -> None:
    length, seen = counted()
    async with PassContext() as ctx:
        unhashable: Any = [1]
        answers = [await ctx.get(length, "abc", factor=factor) for factor in (2, 3, 2)]
    assert (answers, seen) == ([6, 9, 6], ["abc", "abc"])
    with pytest.raises(apass.AnalysisError, match=r"the option factor=\[1\] of Length cannot be hashed"):
        await ctx.get(length, "abc", factor=unhashable)


async def test_a_failure_goes_to_all_who_wait_and_is_not_kept() -> None:
    begun, fails = anyio.Event(), [True]

    @apass.analysis
    async def Flaky(func: str) -> int:
        begun.set()
        await anyio.wait_all_tasks_blocked()
        if fails:
            fails.clear()
            raise ValueError("no answer")
        return 1

    ctx, errors = PassContext(), list[str]()

    async def ask() -> None:
        try:
            await ctx.get(Flaky, "f")
        except ValueError as error:
            errors.append(str(error))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(ask)
    assert (errors, await ctx.get(Flaky, "f")) == (["no answer"] * 3, 1)


async def test_the_cancellation_of_one_asker_does_not_fail_the_others() -> None:
    tries: list[int] = []
    go = anyio.Event()

    @apass.analysis
    async def Slow(func: str) -> int:
        tries.append(1)
        await go.wait()
        return 7

    ctx, answers = PassContext(), list[int]()

    async def ask() -> None:
        answers.append(await ctx.get(Slow, "f"))

    async with anyio.create_task_group() as group:
        first = anyio.CancelScope()

        async def ask_first() -> None:
            with first:
                await ctx.get(Slow, "f")

        group.start_soon(ask_first)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(ask)
        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        first.cancel()
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert (answers, len(tries)) == ([7, 7], 2)


async def test_what_a_pass_does_not_preserve_is_computed_anew() -> None:
    length, seen = counted()
    async with PassContext():
        await apass.Sequential([asking(length), asking(length)])({"f": "ab"})
    assert seen == ["ab", "ab:2"]


async def test_what_a_pass_preserves_is_taken_over() -> None:
    length, seen = counted()
    async with PassContext() as ctx:
        result = await apass.Sequential([asking(length, preserves={length}), asking(length)])({"f": "ab"})
    assert (result, seen) == ({"f": "ab:2:2"}, ["ab"])
    assert ctx.analyses.counts["preserved"] == 1


async def test_a_preserved_result_made_from_one_that_is_not_is_dropped() -> None:
    length, seen = counted()
    made: list[str] = []

    @apass.analysis
    async def Parity(func: str, ctx: PassContext) -> int:
        made.append(func)
        return await ctx.get(length, func) % 2

    for preserves, wanted in (({Parity}, 2), ({Parity, length}, 1), ("all", 1)):
        made.clear()
        async with PassContext():
            pipeline = apass.Sequential([asking(Parity), asking(Parity, preserves=preserves), asking(Parity)])
            await pipeline({"f": "abc"})
        assert len(made) - 1 == wanted, preserves
    assert "abc" in seen


async def test_module_passes_preserve_too_and_modules_are_asked_about() -> None:
    seen: list[int] = []

    @apass.analysis
    def Size(mod: Module) -> int:
        seen.append(len(mod))
        return len(mod)

    @apass.module_pass(opt_level=0, required=[Size], preserves={Size})
    def Rename(mod: Module, ctx: PassContext) -> Module:
        assert ctx.got(Size, mod) == 2
        return {f"{name}_": func for name, func in mod.items()}

    async with PassContext():
        result = await apass.Sequential([Rename, Rename])({"f": 1, "g": 2})
    assert (sorted(result), seen) == (["f__", "g__"], [2])


async def test_strict_finds_a_claim_that_is_not_true() -> None:
    length, _ = counted()
    async with PassContext(strict=True):
        with pytest.raises(apass.VerifyError) as caught:
            await asking(length, preserves={length})({"f": "ab"})
    assert str(caught.value) == "pass 'Ask' claims to preserve Length, but that was 2 and is 4"


async def test_a_plain_body_finds_what_it_requires() -> None:
    length, seen = counted()

    @apass.function_pass(opt_level=0, required=[length])
    def Plain(func: str, mod: Module, ctx: PassContext) -> str:
        return func * ctx.got(length, func)

    async with PassContext() as ctx:
        assert await Plain({"f": "ab", "g": "c"}) == {"f": "abab", "g": "c"}
        with pytest.raises(apass.AnalysisError, match="the result of Length is not there"):
            ctx.got(length, "never asked")
    assert Plain.info.required == ()
    assert sorted(seen) == ["ab", "c"]


async def test_analyses_that_ask_in_a_circle_are_an_error_and_no_deadlock() -> None:
    found: dict[str, apass.Analysis[int]] = {}

    @apass.analysis
    async def One(func: str, ctx: PassContext) -> int:
        await anyio.lowlevel.checkpoint()
        return await ctx.get(found["Other"], func)

    @apass.analysis
    async def Other(func: str, ctx: PassContext) -> int:
        await anyio.lowlevel.checkpoint()
        return await ctx.get(One, func)

    found["Other"] = Other
    ctx, errors = PassContext(), list[str]()

    async def ask(which: apass.Analysis[int]) -> None:
        try:
            await ctx.get(which, "f")
        except apass.AnalysisError as error:
            errors.append(str(error))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(ask, One)
            group.start_soon(ask, Other)
    assert len(errors) == 2
    assert all("asks its way back to itself" in error for error in errors)


async def test_results_make_room_for_new_ones() -> None:
    length, seen = counted()
    ctx = PassContext()
    ctx.analyses._limit = 3  # pyright: ignore[reportPrivateUsage]
    for text in ("a", "bb", "ccc", "a", "dddd", "bb"):
        await ctx.get(length, text)
    assert (len(ctx.analyses), seen) == (3, ["a", "bb", "ccc", "dddd", "bb"])


def takes_nothing() -> int:
    return 1


def takes_three(one: str, two: str, three: str) -> int:
    return 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (takes_nothing, "must take (x) or (x, ctx)"),
        (takes_three, "must take (x) or (x, ctx)"),
        (int, "analysis takes a function"),
    ],
)
def test_what_is_no_analysis_is_an_error(wrong: Callable[..., Any], message: str) -> None:
    with pytest.raises(apass.PassDefinitionError) as caught:
        apass.analysis(wrong)
    assert message in str(caught.value)


def test_promises_are_checked() -> None:
    def body(func: str, mod: Module, ctx: PassContext) -> str:
        return func

    make: Any = apass.function_pass
    with pytest.raises(apass.PassDefinitionError, match="preserves must be a set of analyses, or 'all'; not 'Length'"):
        make(body, opt_level=0, name="P", preserves="Length")
    with pytest.raises(TypeError, match="unexpected argument 'cachable'; did you mean 'cacheable'"):
        make(body, opt_level=0, name="P", cachable=True)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans(), st.booleans()), max_size=8))
def test_with_honest_claims_what_is_asked_is_what_would_be_computed(steps: list[tuple[str, bool, bool]]) -> None:
    """The number of a's is asked; each step adds a letter, and preserves the number where the letter is none."""

    @apass.analysis
    def CountA(func: str) -> int:
        return func.count("a")

    def step(letter: str, asks: bool, claims: bool) -> apass.Pass[Module]:
        async def body(func: str, mod: Module, ctx: PassContext) -> str:
            if asks:
                assert await ctx.get(CountA, func) == func.count("a")
            return func + letter

        make: Any = apass.function_pass
        preserves = {CountA} if claims and letter != "a" else ()
        made: apass.Pass[Module] = make(body, opt_level=0, name="Step", preserves=preserves)
        return made

    pipeline = apass.Sequential([step(*one) for one in steps])
    result = apass.run(pipeline, {"f": "x", "g": "a"}, context=PassContext(strict=True))
    assert result["g"] == "a" + "".join(letter for letter, _, _ in steps)


class Opaque:
    """What has no contents that a fingerprint could go by."""

    def __init__(self, value: int) -> None:
        self.value = value


async def test_an_object_that_is_gone_does_not_lend_its_results_to_another() -> None:
    @apass.analysis
    def Value(func: Opaque) -> int:
        return func.value

    ctx = PassContext()
    assert [await ctx.get(Value, Opaque(index)) for index in range(5)] == list(range(5))


async def test_a_pass_by_subclassing_finds_its_analyses_too() -> None:
    @apass.analysis
    async def Size(mod: Module) -> int:
        return len(mod)

    class Count(apass.ModulePass[Module]):
        info = apass.PassInfo(opt_level=0, name="Count")
        analyses = (Size,)

        def transform_module(self, mod: Module, ctx: PassContext) -> Module:
            return {"size": ctx.got(Size, mod)}

    assert await Count()({"f": 1, "g": 2}) == {"size": 2}


async def test_what_requires_analyses_stays_in_the_loop_where_the_context_has_an_executor() -> None:
    length, _ = counted()

    def plain(func: str, mod: Module, ctx: PassContext) -> str:
        return func * ctx.got(length, func)

    make: Any = apass.function_pass
    async with PassContext(executor="thread"):
        assert await make(plain, opt_level=0, required=[length])({"f": "ab"}) == {"f": "abab"}
        with pytest.raises(apass.PassDefinitionError, match="requires analyses, which are in the loop"):
            await make(plain, opt_level=0, required=[length], executor="thread")({"f": "ab"})


def test_promises_that_cannot_be_kept_are_errors() -> None:
    length, _ = counted()

    def body(func: str, mod: Module, ctx: PassContext) -> str:
        return func

    make: Any = apass.function_pass
    for wrong, message in (
        ({"preserves": length}, "preserves must be a set of analyses"),
        ({"preserves": {"Length"}}, "preserves must be a set of analyses"),
        ({"required": length}, "required must be a list of names and analyses"),
        ({"cacheable": "function"}, "cacheable must be True, False or 'module', not 'function'"),
        ({"config_keys": "a.b"}, r"write \['a.b'\]"),
    ):
        with pytest.raises(apass.PassDefinitionError, match=message):
            make(body, opt_level=0, **wrong)
    assert make(body, opt_level=0, preserves=(one for one in [length])).preserves == {length}


class Count:
    """A result that is compared by `==` alone."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Count) and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)


async def test_strict_compares_results_as_their_type_does() -> None:
    @apass.analysis
    def Count_of(func: str) -> Count:
        return Count(func.count("a"))

    async def add(func: str, mod: Module, ctx: PassContext) -> str:
        await ctx.get(Count_of, func)
        return f"{func}{mod['add']}"

    make: Any = apass.function_pass
    pass_ = make(add, opt_level=0, name="Add", preserves={Count_of})
    async with PassContext(strict=True):
        assert await pass_({"add": "x"}) == {"add": "xx"}
        with pytest.raises(apass.VerifyError, match="claims to preserve Count_of"):
            await pass_({"add": "a"})


def test_threads_may_share_a_context() -> None:
    @apass.analysis
    async def Slow(func: str) -> int:
        begun.wait(10)
        await anyio.lowlevel.checkpoint()
        return len(func)

    ctx, answers, begun = PassContext(), list[int](), threading.Barrier(3)

    async def ask() -> None:
        answers.append(await ctx.get(Slow, "abc"))

    threads = [threading.Thread(target=anyio.run, args=(ask,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert answers == [3, 3, 3]


async def test_what_is_preserved_of_a_function_holds_for_all_of_equal_contents() -> None:
    seen: list[int] = []

    @apass.analysis
    def Size(func: relay.Function) -> int:
        seen.append(1)
        return len(func.params)

    async def mark(func: relay.Function, mod: relay.IRModule, ctx: PassContext) -> relay.Function:
        await ctx.get(Size, func)
        return relay.Function(func.params, func.body, func.ret_type, func.type_params, {"marked": 1})

    make: Any = apass.function_pass
    pass_ = make(mark, opt_level=0, preserves={Size})
    async with PassContext():
        made = await pass_(relay.parse("def @main(%x: int32) { %x }"))
        await pass_(relay.parse(made.astext()))
    assert seen == [1]


async def test_options_of_another_type_are_others_and_what_is_no_analysis_is_said_so() -> None:
    @apass.analysis
    def Twice(func: str, *, factor: float = 1) -> float:
        return factor * 2

    ctx, no_analysis = PassContext(), cast("apass.Analysis[int]", len)
    assert [repr(await ctx.get(Twice, "f", factor=one)) for one in (1, 1.0)] == ["2", "2.0"]
    with pytest.raises(apass.AnalysisError, match=r"is no analysis; make it one with @apass\.analysis"):
        await ctx.get(no_analysis, "f")
