"""`ReproducerInstrument(crash_safe=True)` leaves nothing of passes that end."""

from pathlib import Path
from typing import Any

import anyio
import pytest

import apass
from apass.instruments import ReproducerInstrument
from apass.instruments.reproducer.running import RUNNING
from tests.helpers.folders import files

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


def running_inputs(base: Path) -> list[str]:
    """Return the inputs of passes that run, as paths below the folder of a process."""
    return [path.split("/", 1)[1] for path in files(base / RUNNING) if path.endswith("module.json")]


async def test_input_exists_while_pass_runs(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    @apass.module_pass(opt_level=0)
    async def Inner(mod: Module, ctx: apass.PassContext) -> Module:
        seen.append(running_inputs(tmp_path))
        return {**mod, "f": 2}

    @apass.module_pass(opt_level=0)
    async def Outer(mod: Module, ctx: apass.PassContext) -> Module:
        seen.append(running_inputs(tmp_path))
        return await Inner(mod)

    async with apass.PassContext(instruments=[ReproducerInstrument(tmp_path, crash_safe=True)]):
        await apass.Sequential([Outer, Inner])({"f": 1})
    outer, nested, inner = (f"module/{name}/module.json" for name in ("0_Outer", "0_Outer.0_Inner", "1_Inner"))
    assert seen == [[outer], sorted([nested, outer]), [inner]]
    assert files(tmp_path) == []


async def test_failed_pass_leaves_only_its_reproducer(tmp_path: Path) -> None:
    @apass.module_pass(opt_level=0)
    async def Fail(mod: Module, ctx: apass.PassContext) -> Module:
        raise ValueError("no")

    async with apass.PassContext(instruments=[ReproducerInstrument(tmp_path, crash_safe=True)]):
        with pytest.raises(ValueError, match="no"):
            await Fail({"f": 1})
    assert files(tmp_path) == [f"module/0_Fail/{name}" for name in ("module.json", "reproducer.json", "traceback.txt")]


@pytest.mark.both_loops
async def test_cancelled_pass_leaves_nothing(tmp_path: Path) -> None:
    started = anyio.Event()

    @apass.module_pass(opt_level=0)
    async def Wait(mod: Module, ctx: apass.PassContext) -> Module:
        started.set()
        await anyio.sleep_forever()
        return mod

    context = apass.PassContext(instruments=[ReproducerInstrument(tmp_path, crash_safe=True)])
    async with context, anyio.create_task_group() as group:
        group.start_soon(Wait, {"f": 1})
        await started.wait()
        assert running_inputs(tmp_path) == ["module/0_Wait/module.json"]
        group.cancel_scope.cancel()
    assert files(tmp_path) == []


async def test_input_of_living_process_stays(tmp_path: Path) -> None:
    found: list[list[Path]] = []

    @apass.module_pass(opt_level=0)
    async def Look(mod: Module, ctx: apass.PassContext) -> Module:
        found.append(ReproducerInstrument(tmp_path).recover())
        return mod

    async with apass.PassContext(instruments=[ReproducerInstrument(tmp_path, crash_safe=True)]):
        await Look({"f": 1})
    assert found == [[]]


async def test_only_native_passes_are_written_by_default(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def look(mod: Module, ctx: apass.PassContext) -> Module:
        seen.append(running_inputs(tmp_path))
        return mod

    passes = [apass.module_pass(look, opt_level=0, name=name, native=name == "Native") for name in ("Plain", "Native")]
    async with apass.PassContext(instruments=[ReproducerInstrument(tmp_path)]):
        await apass.Sequential(passes)({"f": 1})
    assert seen == [[], ["module/1_Native/module.json"]]


async def test_concurrent_modules_have_own_inputs(tmp_path: Path) -> None:
    started = 0
    have_met = anyio.Event()

    @apass.module_pass(opt_level=0)
    async def Meet(mod: Module, ctx: apass.PassContext) -> Module:
        nonlocal started
        started += 1
        if started == 2:
            assert running_inputs(tmp_path) == ["a/0_Meet/module.json", "b/0_Meet/module.json"]
            have_met.set()
        await have_met.wait()
        return mod

    async with apass.PassContext(instruments=[ReproducerInstrument(tmp_path, crash_safe=True)]):
        await apass.optimize_all({"a": {"f": 1}, "b": {"f": 2}}, Meet)
    assert files(tmp_path) == []


def test_wrong_native_is_an_error() -> None:
    options: Any = {"native": "yes"}
    with pytest.raises(apass.errors.PassDefinitionError, match="native must be True or False, got 'yes'"):
        apass.module_pass(lambda mod, ctx: mod, opt_level=0, name="P", **options)
