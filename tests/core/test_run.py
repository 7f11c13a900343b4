"""`current_run()`: where a hook or a body stands, under nesting and concurrency."""

from collections import Counter
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, PassInfo, Run, Sequential, current_run, function_pass, module_pass
from tests.helpers.recording import FunctionBody, function_pass_of, logging_pass

pytestmark = pytest.mark.anyio

Module = dict[str, Any]
Where = tuple[tuple[str, ...], str | None, str | None]


def where() -> Where:
    """Return path, function and module of the present run."""
    run = current_run()
    assert run is not None
    return run.path, run.function, run.module


@pytest.mark.parametrize("kind", ["plain", "async", "suspending", "lambda", "timeout"])
async def test_a_body_knows_pass_function_and_module(kind: str) -> None:
    seen: dict[int, list[Where]] = {}

    def plain(func: int, mod: Module, ctx: PassContext) -> int:
        seen.setdefault(func, []).append(where())
        return func

    async def work(func: int, mod: Module, ctx: PassContext) -> int:
        for _ in range(0 if kind == "async" else 3):
            plain(func, mod, ctx)
            await checkpoint()
        return plain(func, mod, ctx)

    bodies: dict[str, FunctionBody] = {"plain": plain, "lambda": lambda func, mod, ctx: work(func, mod, ctx)}
    inner = function_pass_of(bodies.get(kind, work), 0, "Inner", timeout=60 if kind == "timeout" else None)
    pipeline = Sequential([Sequential([inner], name="Mid")], name="Outer")
    modules = {f"m{n}": {f"f{m}": 10 * n + m for m in range(5)} for n in range(4)}
    await apass.optimize_all(modules, pipeline)
    expect = {10 * n + m: {(("Outer", "Mid", "Inner"), f"f{m}", f"m{n}")} for n in range(4) for m in range(5)}
    assert {func: set(places) for func, places in seen.items()} == expect


async def test_outside_of_any_pass_there_is_no_run() -> None:
    await Sequential([logging_pass([], "P")])({"f": 1})
    assert current_run() is None


async def test_a_pass_called_in_a_body_has_the_run_of_the_body_for_parent() -> None:
    seen: list[Where] = []

    @module_pass(opt_level=0)
    async def Inner(mod: Module, ctx: PassContext) -> Module:
        await checkpoint()
        run = current_run()
        assert run is not None
        assert run.parent is not None
        seen.append((run.path, run.parent.function, run.function))
        return mod

    @function_pass(opt_level=0)
    async def Outer(func: int, mod: Module, ctx: PassContext) -> int:
        await checkpoint()
        before = current_run()
        await Inner({"own": func})
        assert current_run() is before
        return func

    await Outer({"f": 1, "g": 2, "h": 3})
    assert sorted(seen) == [(("Outer", "Inner"), name, None) for name in "fgh"]


async def test_the_hooks_of_one_execution_see_one_run_and_no_other_execution_sees_it() -> None:
    runs: dict[Run, list[str]] = {}

    class Note:
        def should_run(self, mod: Module, info: PassInfo) -> bool:
            return self._note("should", info)

        async def run_before_pass(self, mod: Module, info: PassInfo) -> None:
            await checkpoint()
            self._note("before", info)

        async def run_after_pass(self, mod: Module, info: PassInfo) -> None:
            await checkpoint()
            self._note("after", info)

        def _note(self, hook: str, info: PassInfo) -> bool:
            run = current_run()
            assert run is not None
            assert run.info is info
            runs.setdefault(run, []).append(f"{hook} {run.module}")
            return True

    async def look(mod: Module) -> Module:
        run = current_run()
        assert run is not None
        runs[run].append("body")
        return mod

    p = logging_pass([], "P", body=look)
    async with PassContext(instruments=[Note()]):
        await apass.optimize_all({"a": {}, "b": {}}, Sequential([p, p, Sequential([p], name="S")], name="T"))
    assert Counter((run.path, *hooks) for run, hooks in runs.items()) == {
        (path, f"should {mod}", f"before {mod}", *body, f"after {mod}"): count
        for mod in "ab"
        for path, body, count in (
            (("T",), (), 1),
            (("T", "P"), ("body",), 2),
            (("T", "S"), (), 1),
            (("T", "S", "P"), ("body",), 1),
        )
    }


async def test_the_failure_hook_and_the_hooks_of_a_context_know_where_they_are() -> None:
    seen: list[tuple[str, tuple[str, ...] | None]] = []

    class Note:
        def enter_pass_ctx(self) -> None:
            self._note("enter")

        async def exit_pass_ctx(self) -> None:
            await checkpoint()
            self._note("exit")

        async def run_after_pass_failed(self, mod: Module, info: PassInfo, error: BaseException) -> None:
            await checkpoint()
            self._note(f"failed {info.name}")

        def _note(self, hook: str) -> None:
            run = current_run()
            seen.append((hook, None if run is None else run.path))

    async def enter_and_fail(mod: Module) -> Module:
        async with PassContext(instruments=[Note()]):
            await logging_pass([], "Inner", body=fail)(mod)
        return mod

    async def fail(mod: Module) -> Module:
        raise KeyError

    with pytest.raises(KeyError):
        await logging_pass([], "Outer", body=enter_and_fail)({})
    assert seen == [("enter", ("Outer",)), ("failed Inner", ("Outer", "Inner")), ("exit", ("Outer",))]


async def test_a_required_pass_is_a_child_of_the_sequential() -> None:
    seen: list[Where] = []

    async def look(mod: Module) -> Module:
        seen.append(where())
        return mod

    apass.register_pass("Needed", logging_pass([], "Needed", body=look))
    try:
        await Sequential([logging_pass([], "P", required=["Needed"], body=look)], name="S")({})
    finally:
        apass.unregister_pass("Needed")
    assert seen == [(("S", "Needed"), None, None), (("S", "P"), None, None)]


async def test_tasks_that_a_body_starts_stand_where_it_stands() -> None:
    seen: list[tuple[str, ...]] = []

    async def look() -> None:
        await checkpoint()
        seen.append(where()[0])

    async def start_some(mod: Module) -> Module:
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(look)
        return mod

    await Sequential([logging_pass([], name, body=start_some) for name in "PQ"], name="S")({})
    assert seen == [("S", "P")] * 3 + [("S", "Q")] * 3


async def test_a_run_of_any_depth_tells_its_path() -> None:
    seen: list[Where] = []

    async def look(mod: Module) -> Module:
        seen.append(where())
        return mod

    pass_: apass.Pass[Module] = logging_pass([], "P", body=look)
    for n in range(50):
        pass_ = Sequential([pass_], name=f"S{n}")
    await pass_({})
    assert seen == [((*(f"S{n}" for n in reversed(range(50))), "P"), None, None)]


def test_runs_are_equal_only_to_themselves() -> None:
    info = PassInfo(0, "P")
    one, other = Run(info, None), Run(info, None)
    assert (one == one, one == other, one.lineage, Run(info, one).lineage[1:]) == (True, False, (one,), (one,))
