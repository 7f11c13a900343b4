"""Preserved analysis results, and checks of what passes declare."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass import PassContext, relay
from apass.instruments import RunSettings
from tests.helpers.analyses import Module, length_analysis, requesting_pass

pytestmark = pytest.mark.anyio


async def test_result_is_recomputed_when_not_preserved() -> None:
    length, computed = length_analysis()
    async with PassContext():
        await apass.Sequential([requesting_pass(length), requesting_pass(length)])({"f": "ab"})
    assert computed == ["ab", "ab:2"]


async def test_preserved_result_is_reused() -> None:
    length, computed = length_analysis()
    async with PassContext() as ctx:
        result = await apass.Sequential([requesting_pass(length, preserves={length}), requesting_pass(length)])(
            {"f": "ab"}
        )
    assert (result, computed) == ({"f": "ab:2:2"}, ["ab"])
    assert ctx.analyses.counts["preserved"] == 1


async def test_preserved_result_is_dropped_with_its_dependency() -> None:
    length, lengths = length_analysis()
    parities: list[str] = []

    @apass.analysis
    async def Parity(func: str, ctx: PassContext) -> int:
        parities.append(func)
        return await ctx.get(length, func) % 2

    for preserves, expected in (({Parity}, 2), ({Parity, length}, 1), ("all", 1)):
        parities.clear()
        async with PassContext():
            pipeline = apass.Sequential(
                [requesting_pass(Parity), requesting_pass(Parity, preserves=preserves), requesting_pass(Parity)]
            )
            await pipeline({"f": "abc"})
        assert len(parities) - 1 == expected, preserves
    assert "abc" in lengths


async def test_result_is_dropped_with_indirect_dependency() -> None:
    length, _ = length_analysis()
    computed: list[str] = []

    @apass.analysis
    async def Parity(func: str, ctx: PassContext) -> int:
        return await ctx.get(length, func) % 2

    @apass.analysis
    async def IsOdd(func: str, ctx: PassContext) -> int:
        computed.append(func)
        return await ctx.get(Parity, func)

    async with PassContext():
        pipeline = apass.Sequential([requesting_pass(IsOdd, preserves={IsOdd, Parity}), requesting_pass(IsOdd)])
        await pipeline({"f": "abc"})
    assert computed == ["abc", "abc:1"]


async def test_unlisted_result_is_dropped_despite_preserved_dependency() -> None:
    length, _ = length_analysis()
    computed: list[str] = []

    @apass.analysis
    async def Parity(func: str, ctx: PassContext) -> int:
        computed.append(func)
        return await ctx.get(length, func) % 2

    async with PassContext():
        pipeline = apass.Sequential([requesting_pass(Parity, preserves={length}), requesting_pass(Parity)])
        await pipeline({"f": "abc"})
    assert computed == ["abc", "abc:1"]


async def test_preserved_results_are_kept_per_option() -> None:
    length, computed = length_analysis()

    def pass_with_factors(*factors: int) -> apass.Pass[Module]:
        @apass.function_pass(opt_level=0, preserves={length})
        async def Lengths(func: str, mod: Module, ctx: PassContext) -> str:
            return f"{func}{[await ctx.get(length, func, factor=factor) for factor in factors]}"

        return Lengths

    async with PassContext():
        result = await apass.Sequential([pass_with_factors(2), pass_with_factors(2, 1)])({"f": "ab"})
    assert (result, computed) == ({"f": "ab[4][4, 5]"}, ["ab", "ab[4]"])
    async with PassContext(instruments=[RunSettings(strict=True)]):
        with pytest.raises(apass.errors.VerifyError, match="claims to preserve Length, but that was 4 and is 10"):
            await pass_with_factors(2)({"f": "ab"})


async def test_unchanged_contents_count_as_one_computation() -> None:
    length, computed = length_analysis()

    @apass.function_pass(opt_level=0, preserves={length})
    async def Copy(func: list[int], mod: Module, ctx: PassContext) -> list[int]:
        await ctx.get(length, func)
        return [*func]

    async with PassContext(instruments=[RunSettings(strict=True)]) as ctx:
        await Copy({"f": [1, 2]})
    assert len(computed) == 1
    assert ctx.analyses.counts == {"computed": 1}


async def test_preserved_results_apply_across_irs() -> None:
    sizes: list[int] = []
    text = "def @main(%x: int32) { %x }"

    @apass.analysis
    def Size(mod: Any) -> int:
        sizes.append(1)
        return 1

    def converting(build: Any) -> apass.Pass[Any]:
        @apass.module_pass(opt_level=0, preserves={Size})
        async def Convert(mod: Any, ctx: PassContext) -> Any:
            await ctx.get(Size, mod)
            return build()

        return Convert

    there = converting(lambda: relay.parse(text))
    back = converting(lambda: {"main": text})
    async with PassContext() as ctx:
        await apass.Sequential([there, back])({"f": 1})
        assert [await ctx.get(Size, relay.parse(text)), await ctx.get(Size, {"main": text})] == [1, 1]
    assert sizes == [1]


async def test_strict_mode_compares_arrays_by_value() -> None:
    @apass.analysis
    def Ones(func: str) -> np.ndarray[Any, Any]:
        return np.ones(func.count("a"))

    async def add(func: str, mod: Module, ctx: PassContext) -> str:
        await ctx.get(Ones, func)
        return f"{func}{mod['add']}"

    declare: Any = apass.function_pass
    pass_ = declare(add, opt_level=0, name="Add", preserves={Ones})
    async with PassContext(instruments=[RunSettings(strict=True)]):
        assert await pass_({"add": "x", "f": "aa"}) == {"add": "xx", "f": "aax"}
        with pytest.raises(apass.errors.VerifyError, match="claims to preserve Ones"):
            await pass_({"add": "aa"})


async def test_module_pass_preserves_results_of_module() -> None:
    sizes: list[int] = []

    @apass.analysis
    def Size(mod: Module) -> int:
        sizes.append(len(mod))
        return len(mod)

    @apass.module_pass(opt_level=0, required=[Size], preserves={Size})
    def Rename(mod: Module, ctx: PassContext) -> Module:
        assert ctx.got(Size, mod) == 2
        return {f"{name}_": func for name, func in mod.items()}

    async with PassContext():
        result = await apass.Sequential([Rename, Rename])({"f": 1, "g": 2})
    assert (sorted(result), sizes) == (["f__", "g__"], [2])


async def test_strict_mode_rejects_false_claim() -> None:
    length, _ = length_analysis()
    async with PassContext(instruments=[RunSettings(strict=True)]):
        with pytest.raises(apass.errors.VerifyError) as caught:
            await requesting_pass(length, preserves={length})({"f": "ab"})
    assert str(caught.value) == "pass 'Ask' claims to preserve Length, but that was 2 and is 4"


def test_declaration_checks_preserves_and_argument_names() -> None:
    def body(func: str, mod: Module, ctx: PassContext) -> str:
        return func

    declare: Any = apass.function_pass
    with pytest.raises(
        apass.errors.PassDefinitionError, match="preserves must be a set of analyses or 'all', got 'Length'"
    ):
        declare(body, opt_level=0, name="P", preserves="Length")
    with pytest.raises(TypeError, match="unexpected argument 'cachable'; did you mean 'cacheable'"):
        declare(body, opt_level=0, name="P", cachable=True)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans(), st.booleans()), max_size=8))
def test_honest_claims_give_computed_results(steps: list[tuple[str, bool, bool]]) -> None:
    """Steps append letters and request the number of "a".

    They preserve that number if they append another letter.
    """

    @apass.analysis
    def CountA(func: str) -> int:
        return func.count("a")

    def step(letter: str, requests: bool, claims: bool) -> apass.Pass[Module]:
        async def body(func: str, mod: Module, ctx: PassContext) -> str:
            if requests:
                assert await ctx.get(CountA, func) == func.count("a")
            return func + letter

        declare: Any = apass.function_pass
        preserves = {CountA} if claims and letter != "a" else ()
        pass_: apass.Pass[Module] = declare(body, opt_level=0, name="Step", preserves=preserves)
        return pass_

    pipeline = apass.Sequential([step(*arguments) for arguments in steps])
    result = apass.run(pipeline, {"f": "x", "g": "a"}, context=PassContext(instruments=[RunSettings(strict=True)]))
    assert result["g"] == "a" + "".join(letter for letter, _, _ in steps)


def test_invalid_declaration_raises() -> None:
    length, _ = length_analysis()

    def body(func: str, mod: Module, ctx: PassContext) -> str:
        return func

    declare: Any = apass.function_pass
    option = apass.ConfigOption("a.b", int, 1)
    for options, message in (
        ({"preserves": length}, "preserves must be a set of analyses"),
        ({"preserves": {"Length"}}, "preserves must be a set of analyses"),
        ({"required": length}, "required must be a list of names and analyses"),
        ({"cacheable": "function"}, "cacheable must be True, False or 'module', got 'function'"),
        ({"config_keys": "a.b"}, r"config_keys must be a list of options or their keys, got 'a.b'; write \['a.b'\]"),
        ({"config_keys": option}, r"config_keys must be a list .*, got ConfigOption\('a.b', int, .*; write \['a.b'\]"),
        ({"config_keys": ["a.b", 5]}, "config_keys must be a list of options or their keys, but contains 5"),
        ({"config_keys": 5}, "config_keys must be a list of options or their keys, got 5"),
    ):
        with pytest.raises(apass.errors.PassDefinitionError, match=message):
            declare(body, opt_level=0, **options)
    assert declare(body, opt_level=0, preserves=(analysis for analysis in [length])).contract.preserves == {length}


class Count:
    """A result type that defines only `==`."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Count) and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)


async def test_strict_mode_compares_results_with_equality_operator() -> None:
    @apass.analysis
    def Count_of(func: str) -> Count:
        return Count(func.count("a"))

    async def add(func: str, mod: Module, ctx: PassContext) -> str:
        await ctx.get(Count_of, func)
        return f"{func}{mod['add']}"

    declare: Any = apass.function_pass
    pass_ = declare(add, opt_level=0, name="Add", preserves={Count_of})
    async with PassContext(instruments=[RunSettings(strict=True)]):
        assert await pass_({"add": "x"}) == {"add": "xx"}
        with pytest.raises(apass.errors.VerifyError, match="claims to preserve Count_of"):
            await pass_({"add": "a"})


async def test_preserved_result_applies_to_equal_functions() -> None:
    computed: list[int] = []

    @apass.analysis
    def Size(func: relay.Function) -> int:
        computed.append(1)
        return len(func.params)

    async def mark(func: relay.Function, mod: relay.IRModule, ctx: PassContext) -> relay.Function:
        await ctx.get(Size, func)
        return relay.Function(func.params, func.body, func.ret_type, func.type_params, {"marked": 1})

    declare: Any = apass.function_pass
    pass_ = declare(mark, opt_level=0, preserves={Size})
    async with PassContext():
        result = await pass_(relay.parse("def @main(%x: int32) { %x }"))
        await pass_(relay.parse(result.astext()))
    assert computed == [1]
