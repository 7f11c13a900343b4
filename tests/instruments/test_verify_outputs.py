"""`VerifyOutputsInstrument`: names the first pass that changes the outputs."""

from pathlib import Path
from typing import Any

import pytest

import apass
from apass import relay
from apass.instruments import ReproducerInstrument, VerifyOutputsInstrument

pytestmark = pytest.mark.anyio


@apass.function_pass(opt_level=0)
def Swap(func: relay.Function, mod: relay.IRModule, ctx: apass.PassContext) -> relay.Function:
    """Keep the meaning: swap the operands of the addition."""
    match func.body:
        case relay.Call(args=(lhs, rhs)):
            return relay.Function(func.params, relay.add(rhs, lhs))
        case _:
            return func


@apass.function_pass(opt_level=0)
def Subtract(func: relay.Function, mod: relay.IRModule, ctx: apass.PassContext) -> relay.Function:
    """Change the meaning: subtract where the function adds."""
    match func.body:
        case relay.Call(args=(lhs, rhs)):
            return relay.Function(func.params, relay.subtract(lhs, rhs))
        case _:
            return func


def sum_of_two() -> relay.IRModule:
    x, y = (relay.var(name, shape=(2,), dtype="float32") for name in "xy")
    return relay.IRModule.from_expr(relay.Function([x, y], relay.add(x, y)))


async def message(pass_: apass.Pass[Any], mod: Any, *instruments: object) -> str:
    """Return the message of the OutputsChangedError that ends a run."""
    async with apass.PassContext(instruments=[VerifyOutputsInstrument(), *instruments]):
        with pytest.raises(apass.errors.OutputsChangedError) as caught:
            await pass_(mod)
    return str(caught.value)


async def test_error_names_first_pass_and_changes() -> None:
    text = await message(apass.Sequential([Swap, Subtract, Swap]), sum_of_two())
    assert text == (
        "pass 'Subtract' changed the outputs: "
        "the result differs by up to 0.264 in 2 of 2 elements, where magnitudes reach 0.766\n"
        "changes:\n"
        "@@ -1,3 +1,3 @@ main\n"
        " def @main(%x: Tensor[(2), float32], %y: Tensor[(2), float32]) {\n"
        "-  add(%y, %x)\n"
        "+  subtract(%y, %x)\n"
        " }"
    )


async def test_pass_that_calls_others_is_not_blamed() -> None:
    @apass.module_pass(opt_level=0)
    async def Outer(mod: relay.IRModule, ctx: apass.PassContext) -> relay.IRModule:
        return await Subtract(await Swap(mod))

    assert (await message(Outer, sum_of_two())).startswith("pass 'Subtract' changed the outputs")


async def test_equal_outputs_pass() -> None:
    async with apass.PassContext(instruments=[VerifyOutputsInstrument()]):
        result = await apass.Sequential([Swap, Swap])(sum_of_two())
    assert apass.adapter_for(result).equal(result, sum_of_two())


async def test_modules_without_evaluator_pass() -> None:
    @apass.function_pass(opt_level=0)
    def Double(func: int, mod: dict[str, int], ctx: apass.PassContext) -> int:
        return 2 * func

    async with apass.PassContext(instruments=[VerifyOutputsInstrument(prove=True)]):
        assert await Double({"f": 4}) == {"f": 8}


async def test_reproducer_repeats_changed_outputs(tmp_path: Path) -> None:
    await message(apass.Sequential([Swap, Subtract]), sum_of_two(), ReproducerInstrument(tmp_path))
    folder = tmp_path / "module" / "1_Subtract"
    assert apass.read_reproducer(folder).verify_outputs == "each"
    replayed = await apass.replay(folder, Subtract)
    assert replayed.verdict is apass.debugging.Verdict.SAME
    assert (await apass.replay(folder, Swap)).verdict is apass.debugging.Verdict.NONE


async def test_module_with_changed_outputs_is_reduced(tmp_path: Path) -> None:
    x, y = (relay.var(name, shape=(2,), dtype="float32") for name in "xy")
    body = relay.add(relay.tanh(relay.exp(x)), relay.multiply(y, relay.exp(y)))
    mod = relay.IRModule.from_expr(relay.Function([x, y], body))
    reproducer = ReproducerInstrument(tmp_path)
    await message(Subtract, mod, reproducer)
    reduced = await apass.reduce(reproducer.folders[0], Subtract)
    [file] = reduced.folder.glob("module.*")
    text = file.read_text()
    assert "add(" in text
    assert all(name not in text for name in ("tanh(", "exp(", "multiply("))


async def test_outputs_are_compared_in_executor_threads() -> None:
    async with apass.PassContext(instruments=[VerifyOutputsInstrument()]):
        with pytest.raises(apass.errors.OutputsChangedError, match="pass 'Subtract' changed the outputs"):
            await apass.optimize_all({"m": sum_of_two()}, Subtract, executor="thread")


async def test_change_in_place_is_an_error() -> None:
    def clear(mod: dict[str, int], ctx: apass.PassContext) -> dict[str, int]:
        mod["f"] = 0
        return mod

    clear_pass = apass.module_pass(clear, opt_level=0, name="Clear")
    async with apass.PassContext(instruments=[VerifyOutputsInstrument()]):
        with pytest.raises(
            apass.errors.VerifyError, match=r"^pass 'Clear' changed its input in place \('f'\), and returned it"
        ):
            await clear_pass({"f": 8})
