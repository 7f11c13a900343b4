"""`PrintChanged`: each change is printed once, for the pass that made it."""

import io
from textwrap import dedent
from typing import Any

import anyio.lowlevel
import pytest

import apass
from apass.instruments import PrintChanged

pytestmark = pytest.mark.anyio

Module = dict[str, int]


@apass.function_pass(opt_level=0)
async def Increment(func: int, mod: Module, ctx: apass.PassContext) -> int:
    await anyio.lowlevel.checkpoint()
    return func + 1


@apass.module_pass(opt_level=0)
def Keep(mod: Module, ctx: apass.PassContext) -> Module:
    return dict(mod)


@apass.module_pass(opt_level=0)
async def Around(mod: Module, ctx: apass.PassContext) -> Module:
    return {**await Increment(mod), "own": 1}


async def printed(pass_: apass.Pass[Module], mod: Module, **options: Any) -> str:
    """Return the output of a run."""
    file = io.StringIO()
    async with apass.PassContext(instruments=[PrintChanged(file=file, **options)]):
        await pass_(mod)
    return file.getvalue()


async def test_change_is_printed_once_for_its_pass() -> None:
    text = await printed(apass.Sequential([Keep, apass.Sequential([Increment]), Keep]), {"f": 1})
    assert text == "IR changed by Increment\n@@ -1 +1 @@ f\n-f: 1\n+f: 2\n\n"


async def test_composite_pass_is_printed_for_its_own_change() -> None:
    text = await printed(Around, {"f": 1})
    expected = """\
        IR changed by Increment
        @@ -1 +1 @@ f
        -f: 1
        +f: 2

        IR changed by Around
        @@ -0,0 +1 @@ own
        +own: 1

        """
    assert text == dedent(expected)


@apass.module_pass(opt_level=0)
def Check(mod: Module, ctx: apass.PassContext) -> Module:
    return mod


@apass.module_pass(opt_level=0)
async def Checked(mod: Module, ctx: apass.PassContext) -> Module:
    return await Check({**mod, "own": 1})


async def test_change_before_inner_pass_is_printed() -> None:
    text = await printed(Checked, {"f": 1})
    assert text == "IR changed by Checked\n@@ -0,0 +1 @@ own\n+own: 1\n\n"


@apass.module_pass(opt_level=0)
async def Finished(mod: Module, ctx: apass.PassContext) -> Module:
    return await Increment({**mod, "own": 1})


async def test_change_continued_by_inner_pass_is_printed_whole() -> None:
    text = await printed(Finished, {"f": 1})
    titles = [line for line in text.splitlines() if line.startswith("IR changed by")]
    assert titles == ["IR changed by Increment", "IR changed by Finished"]
    assert text.rpartition("IR changed by")[2].count("\n+own: 2") == 1


async def test_race_is_not_printed_for_its_winner() -> None:
    text = await printed(apass.Race([Keep, Increment], key=lambda mod: -mod["f"]), {"f": 1})
    assert text == "IR changed by Increment\n@@ -1 +1 @@ f\n-f: 1\n+f: 2\n\n"


async def test_selection_limits_passes_modules_and_functions() -> None:
    mod = {"f": 1, "g": 5}
    assert await printed(Increment, mod, names=["Other"]) == ""
    assert await printed(Increment, mod, names=["Inc*"], functions=["g"], color=True) == (
        "IR changed by Increment\n\x1b[36m@@ -1 +1 @@ g\x1b[0m\n\x1b[31m-g: 5\x1b[0m\n\x1b[32m+g: 6\x1b[0m\n\n"
    )
    file = io.StringIO()
    async with apass.PassContext(instruments=[PrintChanged(file=file, modules=["b"])]):
        await apass.optimize_all({"a": {"f": 1}, "b": {"f": 2}}, Increment)
    assert file.getvalue() == "IR changed by Increment (module 'b')\n@@ -1 +1 @@ f\n-f: 2\n+f: 3\n\n"
