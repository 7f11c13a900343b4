"""`VerifyInstrument` and `HonestChangeInstrument`: name the pass that did harm."""

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
    """Return the message of the VerifyError that ends a run."""
    async with apass.PassContext(instruments=[instrument]):
        with pytest.raises(apass.errors.VerifyError) as caught:
            await pass_(mod)
    return str(caught.value)


async def test_error_names_the_pass_and_its_changes() -> None:
    text = await failure(apass.Sequential([Increment, Break, Keep]), {"f": 1}, VerifyInstrument())
    assert text == (
        "pass 'Break' broke the module: function 'g' of a dict module is None\nchanges:\n@@ -0,0 +1 @@ g\n+g: None"
    )


async def test_invalid_input_is_reported_as_input() -> None:
    text = await failure(apass.Sequential([Keep]), {"f": None}, VerifyInstrument())
    assert text == "the input of pass 'sequential' is not valid: function 'f' of a dict module is None"


async def test_invalid_in_place_change_is_found_with_always() -> None:
    @apass.module_pass(opt_level=0)
    def BreakInPlace(mod: Module, ctx: apass.PassContext) -> Module:
        mod["g"] = None
        return mod

    text = await failure(apass.Sequential([Keep, BreakInPlace]), {"f": 1}, VerifyInstrument("always"))
    assert text == ("pass 'BreakInPlace' returned its input, which is not valid: function 'g' of a dict module is None")


def test_unknown_when_raises_value_error() -> None:
    with pytest.raises(ValueError, match="when must be one of changed, always, got 'never'"):
        VerifyInstrument("never")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def add(mod: Module) -> Module:
    mod["g"] = 1
    return mod


def replace_inside(mod: Module) -> Module:
    mod["f"].append(3)
    return {**mod, "g": 1}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (add, "pass 'Change' changed its input in place ('g'), and returned it as if nothing had"),
        (replace_inside, "pass 'Change' changed its input in place ('f'), and returned another module"),
    ],
)
async def test_pass_that_changes_its_input_raises_verify_error(
    change: Callable[[Module], Module], expected: str
) -> None:
    @apass.module_pass(opt_level=0)
    def Change(mod: Module, ctx: apass.PassContext) -> Module:
        return change(mod)

    text = await failure(apass.Sequential([Keep, Change, Keep]), {"f": [1]}, HonestChangeInstrument())
    assert text.startswith(expected)


async def test_changed_function_is_named_for_function_passes() -> None:
    @apass.function_pass(opt_level=0)
    async def Append(func: list[int], mod: Module, ctx: apass.PassContext) -> list[int]:
        await anyio.lowlevel.checkpoint()
        if func[0] == 2:
            func.append(7)
        return func

    text = await failure(Append, {"f": [1], "g": [2], "h": [3]}, HonestChangeInstrument())
    assert "in place ('g')" in text


@pytest.mark.slow
async def test_concurrent_modules_fail_as_single_modules_do() -> None:
    def change(func: Any) -> Any:
        return None if func[0] % 7 == 3 else func if func[0] % 5 else func.append(1) or func

    @apass.module_pass(opt_level=0)
    def Change(mod: Module, ctx: apass.PassContext) -> Module:
        return {name: change(func) for name, func in mod.items()}

    instruments = [VerifyInstrument(), HonestChangeInstrument()]
    failures: list[dict[str, str]] = []
    for limit in (1, 200):
        modules = {f"m{index}": {"f": [index]} for index in range(200)}
        async with apass.PassContext(instruments=instruments):
            outcomes = await apass.optimize_all(
                modules, apass.Sequential([Keep, Change, Keep]), limit=limit, errors="collect"
            )
        failures.append({name: str(item.error) for name, item in outcomes.items() if item.error})
    assert failures[0] == failures[1]
    assert failures[0].keys() == {f"m{index}" for index in range(200) if index % 7 == 3 or index % 5 == 0}


class Checked(dict[str, Any]):
    """A module type whose adapter records verifications."""


class CountingAdapter(DictAdapter):
    """An adapter that records the modules that it verified."""

    def __init__(self) -> None:
        self.verified: list[dict[str, Any]] = []

    def verify(self, mod: dict[str, Any]) -> None:
        """Record the module."""
        self.verified.append(dict(mod))


ADAPTER = CountingAdapter()
apass.register_adapter(Checked, ADAPTER)


@pytest.mark.parametrize(("when", "expected"), [("changed", [1, 2]), ("always", [1, 1, 2, 2, 2])])
async def test_verifications_follow_the_when_argument(when: Any, expected: list[int]) -> None:
    ADAPTER.verified.clear()
    async with apass.PassContext(instruments=[VerifyInstrument(when)]):
        await apass.Sequential([Keep, Increment, Keep])(Checked(f=1))
    # The first is the input of the outermost pass. A result of an inner pass is not verified again for the outer one.
    assert [mod["f"] for mod in ADAPTER.verified] == expected


async def test_diff_of_a_large_module_is_truncated() -> None:
    @apass.module_pass(opt_level=0)
    def Lose(mod: Module, ctx: apass.PassContext) -> Module:
        return dict.fromkeys(mod)

    with pytest.raises(apass.errors.VerifyError) as caught:
        async with apass.PassContext(instruments=[VerifyInstrument()]):
            await Lose({f"f{index}": index for index in range(500)})
    assert len(str(caught.value).splitlines()) < 70
