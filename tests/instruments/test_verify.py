"""`VerifyInstrument` and `HonestChangeInstrument`: the pass that broke a module, or changed its input, is named."""

from collections.abc import Callable
from typing import Any

import anyio.lowlevel
import pytest

import apass
from apass.adapters.mapping import DictAdapter
from apass.instruments import HonestChangeInstrument, VerifyInstrument

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


@apass.module_pass(opt_level=0)
async def Keep(mod: Module, ctx: apass.PassContext) -> Module:
    await anyio.lowlevel.checkpoint()
    return mod


@apass.function_pass(opt_level=0)
async def Increment(func: int, mod: Module, ctx: apass.PassContext) -> int:
    await anyio.lowlevel.checkpoint()
    return func + 1


@apass.module_pass(opt_level=0)
def Break(mod: Module, ctx: apass.PassContext) -> Module:
    return {**mod, "g": None}


async def failure(pass_: apass.Pass[Module], mod: Module, instrument: object) -> str:
    """Return what a run fails with."""
    async with apass.PassContext(instruments=[instrument]):
        with pytest.raises(apass.VerifyError) as caught:
            await pass_(mod)
    return str(caught.value)


async def test_the_pass_that_broke_the_module_is_named_with_what_it_changed() -> None:
    text = await failure(apass.Sequential([Increment, Break, Keep]), {"f": 1}, VerifyInstrument())
    assert text == (
        "pass 'Break' broke the module: function 'g' of a dict module is None\n"
        "what it changed:\n@@ -1 +1,2 @@\n f: 2\n+g: None"
    )


async def test_a_module_that_was_broken_before_is_not_blamed_on_a_pass() -> None:
    text = await failure(apass.Sequential([Keep]), {"f": None}, VerifyInstrument())
    assert text == "pass 'sequential' was given a module that is not valid: function 'f' of a dict module is None"


async def test_a_pass_that_breaks_its_input_in_place_is_found_where_every_pass_is_checked() -> None:
    @apass.module_pass(opt_level=0)
    def BreakInPlace(mod: Module, ctx: apass.PassContext) -> Module:
        mod["g"] = None
        return mod

    text = await failure(apass.Sequential([Keep, BreakInPlace]), {"f": 1}, VerifyInstrument("always"))
    assert text == (
        "the module that pass 'BreakInPlace' left as it was is not valid: function 'g' of a dict module is None"
    )


def test_when_to_verify_is_checked() -> None:
    with pytest.raises(ValueError, match="when must be one of changed, always, not 'never'"):
        VerifyInstrument("never")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def add(mod: Module) -> Module:
    mod["g"] = 1
    return mod


def replace_inside(mod: Module) -> Module:
    mod["f"].append(3)
    return {**mod, "g": 1}


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (add, "pass 'Change' changed in place the module that it was given ('g'), and returned it as if nothing had"),
        (replace_inside, "pass 'Change' changed in place the module that it was given ('f'), and returned another one"),
    ],
)
async def test_a_pass_that_changes_its_input_is_caught(change: Callable[[Module], Module], wanted: str) -> None:
    @apass.module_pass(opt_level=0)
    def Change(mod: Module, ctx: apass.PassContext) -> Module:
        return change(mod)

    text = await failure(apass.Sequential([Keep, Change, Keep]), {"f": [1]}, HonestChangeInstrument())
    assert text.startswith(wanted)


async def test_a_function_pass_that_changes_a_function_is_caught_with_its_name() -> None:
    @apass.function_pass(opt_level=0)
    async def Append(func: list[int], mod: Module, ctx: apass.PassContext) -> list[int]:
        await anyio.lowlevel.checkpoint()
        if func[0] == 2:
            func.append(7)
        return func

    text = await failure(Append, {"f": [1], "g": [2], "h": [3]}, HonestChangeInstrument())
    assert "given ('g')" in text


async def test_among_many_modules_just_those_fail_that_fail_alone() -> None:
    def change(func: Any) -> Any:
        return None if func[0] % 7 == 3 else func if func[0] % 5 else func.append(1) or func

    @apass.module_pass(opt_level=0)
    def Change(mod: Module, ctx: apass.PassContext) -> Module:
        return {name: change(func) for name, func in mod.items()}

    instruments = [VerifyInstrument(), HonestChangeInstrument()]
    seen: list[dict[str, str]] = []
    for limit in (1, 200):
        modules = {f"m{index}": {"f": [index]} for index in range(200)}
        async with apass.PassContext(instruments=instruments):
            outcomes = await apass.optimize_all(
                modules, apass.Sequential([Keep, Change, Keep]), limit=limit, errors="collect"
            )
        seen.append({name: str(one.error) for name, one in outcomes.items() if one.error})
    assert seen[0] == seen[1]
    assert seen[0].keys() == {f"m{index}" for index in range(200) if index % 7 == 3 or index % 5 == 0}


class Checked(dict[str, Any]):
    """A module that is verified by an adapter that counts."""


class CountingAdapter(DictAdapter):
    """An adapter that notes what it verified."""

    def __init__(self) -> None:
        self.verified: list[dict[str, Any]] = []

    def verify(self, mod: dict[str, Any]) -> None:
        """Note the module."""
        self.verified.append(dict(mod))


ADAPTER = CountingAdapter()
apass.register_adapter(Checked, ADAPTER)


@pytest.mark.parametrize(("when", "wanted"), [("changed", [1, 2]), ("always", [1, 1, 2, 2, 2])])
async def test_each_module_is_verified_as_often_as_was_asked_for(when: Any, wanted: list[int]) -> None:
    ADAPTER.verified.clear()
    async with apass.PassContext(instruments=[VerifyInstrument(when)]):
        await apass.Sequential([Keep, Increment, Keep])(Checked(f=1))
    # What the outermost pass got comes first; what a pass within it has been found to be is not asked again.
    assert [mod["f"] for mod in ADAPTER.verified] == wanted


async def test_a_broken_module_is_shown_up_to_a_limit() -> None:
    @apass.module_pass(opt_level=0)
    def Lose(mod: Module, ctx: apass.PassContext) -> Module:
        return dict.fromkeys(mod)

    with pytest.raises(apass.VerifyError) as caught:
        async with apass.PassContext(instruments=[VerifyInstrument()]):
            await Lose({f"f{place}": place for place in range(500)})
    assert len(str(caught.value).splitlines()) < 70
