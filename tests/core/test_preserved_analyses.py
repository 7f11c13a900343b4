"""Results of analyses that a pass preserves, and the promises that it makes of them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass import PassContext, relay
from tests.helpers.analyses import Module, asking, counted

pytestmark = pytest.mark.anyio


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


async def test_a_result_is_dropped_whatever_lies_between_it_and_what_does_not_hold() -> None:
    length, _ = counted()
    made: list[str] = []

    @apass.analysis
    async def Parity(func: str, ctx: PassContext) -> int:
        return await ctx.get(length, func) % 2

    @apass.analysis
    async def IsOdd(func: str, ctx: PassContext) -> int:
        made.append(func)
        return await ctx.get(Parity, func)

    async with PassContext():
        pipeline = apass.Sequential([asking(IsOdd, preserves={IsOdd, Parity}), asking(IsOdd)])
        await pipeline({"f": "abc"})
    assert made == ["abc", "abc:1"]


async def test_what_is_not_named_is_dropped_even_if_it_was_made_of_what_is() -> None:
    length, _ = counted()
    made: list[str] = []

    @apass.analysis
    async def Parity(func: str, ctx: PassContext) -> int:
        made.append(func)
        return await ctx.get(length, func) % 2

    async with PassContext():
        pipeline = apass.Sequential([asking(Parity, preserves={length}), asking(Parity)])
        await pipeline({"f": "abc"})
    assert made == ["abc", "abc:1"]


async def test_what_holds_for_some_options_holds_for_these() -> None:
    length, seen = counted()

    def make(*factors: int) -> apass.Pass[Module]:
        @apass.function_pass(opt_level=0, preserves={length})
        async def Ask(func: str, mod: Module, ctx: PassContext) -> str:
            return f"{func}{[await ctx.get(length, func, factor=factor) for factor in factors]}"

        return Ask

    async with PassContext():
        result = await apass.Sequential([make(2), make(2, 1)])({"f": "ab"})
    assert (result, seen) == ({"f": "ab[4][4, 5]"}, ["ab", "ab[4]"])
    async with PassContext(strict=True):
        with pytest.raises(apass.VerifyError, match="claims to preserve Length, but that was 4 and is 10"):
            await make(2)({"f": "ab"})


async def test_nothing_is_taken_over_where_the_contents_are_the_same() -> None:
    length, seen = counted()

    @apass.function_pass(opt_level=0, preserves={length})
    async def Copy(func: list[int], mod: Module, ctx: PassContext) -> list[int]:
        await ctx.get(length, func)
        return [*func]

    async with PassContext(strict=True) as ctx:
        await Copy({"f": [1, 2]})
    assert len(seen) == 1
    assert ctx.analyses.counts == {"computed": 1}


async def test_what_holds_for_a_module_of_another_ir_is_known_about_its_equals() -> None:
    sizes: list[int] = []
    text = "def @main(%x: int32) { %x }"

    @apass.analysis
    def Size(mod: Any) -> int:
        sizes.append(1)
        return 1

    def converting(make: Any) -> apass.Pass[Any]:
        @apass.module_pass(opt_level=0, preserves={Size})
        async def Convert(mod: Any, ctx: PassContext) -> Any:
            await ctx.get(Size, mod)
            return make()

        return Convert

    there = converting(lambda: relay.parse(text))
    back = converting(lambda: {"main": text})
    async with PassContext() as ctx:
        await apass.Sequential([there, back])({"f": 1})
        assert [await ctx.get(Size, relay.parse(text)), await ctx.get(Size, {"main": text})] == [1, 1]
    assert sizes == [1]


async def test_strict_compares_arrays_by_what_they_hold() -> None:
    @apass.analysis
    def Ones(func: str) -> np.ndarray[Any, Any]:
        return np.ones(func.count("a"))

    async def add(func: str, mod: Module, ctx: PassContext) -> str:
        await ctx.get(Ones, func)
        return f"{func}{mod['add']}"

    make: Any = apass.function_pass
    pass_ = make(add, opt_level=0, name="Add", preserves={Ones})
    async with PassContext(strict=True):
        assert await pass_({"add": "x", "f": "aa"}) == {"add": "xx", "f": "aax"}
        with pytest.raises(apass.VerifyError, match="claims to preserve Ones"):
            await pass_({"add": "aa"})


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
