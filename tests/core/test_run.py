"""`current_run()`: path, function and module of a run, nested and concurrent."""

import pickle
from collections import Counter
from time import perf_counter
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, PassInfo, Run, Sequential, current_run, function_pass, module_pass
from apass.core.run import RunNote
from tests.helpers.recording import FunctionBody, function_pass_of, logging_pass

pytestmark = pytest.mark.anyio

Module = dict[str, Any]
Location = tuple[tuple[str, ...], str | None, str | None]


def location() -> Location:
    """Return the path, function and module of the current run."""
    run = current_run()
    assert run is not None
    return run.path, run.function, run.module


@pytest.mark.parametrize("kind", ["plain", "async", "suspending", "lambda", "timeout"])
async def test_body_sees_its_pass_function_and_module(kind: str) -> None:
    locations: dict[int, list[Location]] = {}

    def plain(func: int, mod: Module, ctx: PassContext) -> int:
        locations.setdefault(func, []).append(location())
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
    expected = {10 * n + m: {(("Outer", "Mid", "Inner"), f"f{m}", f"m{n}")} for n in range(4) for m in range(5)}
    assert {func: set(actual) for func, actual in locations.items()} == expected


async def test_no_run_is_current_outside_passes() -> None:
    await Sequential([logging_pass([], "P")])({"f": 1})
    assert current_run() is None


async def test_nested_pass_has_run_of_body_as_parent() -> None:
    locations: list[Location] = []

    @module_pass(opt_level=0)
    async def Inner(mod: Module, ctx: PassContext) -> Module:
        await checkpoint()
        run = current_run()
        assert run is not None
        assert run.parent is not None
        locations.append((run.path, run.parent.function, run.function))
        return mod

    @function_pass(opt_level=0)
    async def Outer(func: int, mod: Module, ctx: PassContext) -> int:
        await checkpoint()
        before = current_run()
        await Inner({"own": func})
        assert current_run() is before
        return func

    await Outer({"f": 1, "g": 2, "h": 3})
    assert sorted(locations) == [(("Outer", "Inner"), name, None) for name in "fgh"]


async def test_hooks_of_one_execution_share_one_run() -> None:
    runs: dict[Run, list[str]] = {}

    class Recording:
        def should_run(self, mod: Module, info: PassInfo) -> bool:
            return self._record("should", info)

        async def run_before_pass(self, mod: Module, info: PassInfo) -> None:
            await checkpoint()
            self._record("before", info)

        async def run_after_pass(self, mod: Module, info: PassInfo) -> None:
            await checkpoint()
            self._record("after", info)

        def _record(self, hook: str, info: PassInfo) -> bool:
            run = current_run()
            assert run is not None
            assert run.info is info
            runs.setdefault(run, []).append(f"{hook} {run.module}")
            return True

    async def record(mod: Module) -> Module:
        run = current_run()
        assert run is not None
        runs[run].append("body")
        return mod

    p = logging_pass([], "P", body=record)
    async with PassContext(instruments=[Recording()]):
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


async def test_failure_and_context_hooks_see_current_run() -> None:
    paths: list[tuple[str, tuple[str, ...] | None]] = []

    class Recording:
        def enter_pass_ctx(self) -> None:
            self._record("enter")

        async def exit_pass_ctx(self) -> None:
            await checkpoint()
            self._record("exit")

        async def run_after_pass_failed(self, mod: Module, info: PassInfo, error: BaseException) -> None:
            await checkpoint()
            self._record(f"failed {info.name}")

        def _record(self, hook: str) -> None:
            run = current_run()
            paths.append((hook, None if run is None else run.path))

    async def enter_and_fail(mod: Module) -> Module:
        async with PassContext(instruments=[Recording()]):
            await logging_pass([], "Inner", body=fail)(mod)
        return mod

    async def fail(mod: Module) -> Module:
        raise KeyError

    with pytest.raises(KeyError):
        await logging_pass([], "Outer", body=enter_and_fail)({})
    assert paths == [("enter", ("Outer",)), ("failed Inner", ("Outer", "Inner")), ("exit", ("Outer",))]


async def test_required_pass_is_child_of_sequential() -> None:
    locations: list[Location] = []

    async def record(mod: Module) -> Module:
        locations.append(location())
        return mod

    apass.register_pass("Needed", logging_pass([], "Needed", body=record))
    try:
        await Sequential([logging_pass([], "P", required=["Needed"], body=record)], name="S")({})
    finally:
        apass.unregister_pass("Needed")
    assert locations == [(("S", "Needed"), None, None), (("S", "P"), None, None)]


async def test_tasks_of_body_have_its_run() -> None:
    paths: list[tuple[str, ...]] = []

    async def record() -> None:
        await checkpoint()
        paths.append(location()[0])

    async def start_some(mod: Module) -> Module:
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(record)
        return mod

    await Sequential([logging_pass([], name, body=start_some) for name in "PQ"], name="S")({})
    assert paths == [("S", "P")] * 3 + [("S", "Q")] * 3


async def test_path_covers_deep_nesting() -> None:
    locations: list[Location] = []

    async def record(mod: Module) -> Module:
        locations.append(location())
        return mod

    pass_: apass.Pass[Module] = logging_pass([], "P", body=record)
    for n in range(50):
        pass_ = Sequential([pass_], name=f"S{n}")
    await pass_({})
    assert locations == [((*(f"S{n}" for n in reversed(range(50))), "P"), None, None)]


async def test_run_keeps_module_name_of_its_pass() -> None:
    names: list[tuple[str | None, ...]] = []

    async def record(mod: Module) -> Module:
        run = current_run()
        assert run is not None
        names.append(tuple(member.module for member in run.lineage))
        return mod

    async def optimize_parts(mod: Module) -> Module:
        await apass.optimize_all({"part": {}}, logging_pass([], "Inner", body=record))
        return mod

    outer = logging_pass([], "Outer", body=optimize_parts)
    await outer({})
    await Sequential([outer])({})
    await apass.optimize_all({"whole": {}}, outer)
    assert names == [("part", None), ("part", None, None), ("part", "whole")]


async def test_task_sees_no_run_after_its_pass() -> None:
    runs: list[Run | None] = []
    is_over = anyio.Event()

    async def record() -> None:
        runs.append(current_run())
        await is_over.wait()
        runs.append(current_run())

    async with anyio.create_task_group() as tasks:

        async def start(mod: Module) -> Module:
            tasks.start_soon(record)
            await anyio.wait_all_tasks_blocked()
            return mod

        await logging_pass([], "P", body=start)({})
        is_over.set()
    assert [None if run is None else run.path for run in runs] == [("P",), None]


@pytest.mark.parametrize("requested_in", ["run_before_pass", "body", "run_after_pass"])
async def test_run_has_times_whenever_it_is_requested(requested_in: str) -> None:
    runs: list[Run | None] = []
    times: list[float] = []

    def request(hook: str) -> None:
        if hook == requested_in:
            runs.append(current_run())

    class Requests:
        def run_before_pass(self, mod: Module, info: PassInfo) -> None:
            request("run_before_pass")
            times.append(perf_counter())

        def run_after_pass(self, mod: Module, info: PassInfo) -> None:
            times.append(perf_counter())
            request("run_after_pass")

    async def body(mod: Module) -> Module:
        request("body")
        return mod

    pass_ = logging_pass([], "P", body=body)
    async with PassContext(instruments=[Requests()]):
        await Sequential([pass_, pass_])({})
        await pass_({})
    inner = [run for run in runs if run is not None and run.info.name == "P"]
    # In between are the hooks of the Sequential.
    expected = [times[1:3], times[3:5], times[6:8]]
    for run, (before, after) in zip(inner, expected, strict=True):
        assert before <= run.started <= run.ended <= after


async def test_run_without_instruments_has_no_times() -> None:
    runs: list[Run | None] = []

    async def remove_instruments(mod: Module) -> Module:
        await PassContext.current().override_instruments(None)
        return mod

    async def record(mod: Module) -> Module:
        runs.append(current_run())
        return mod

    @apass.pass_instrument
    class Nothing:
        def run_before_pass(self, mod: Module, info: PassInfo) -> None:
            """Do nothing."""

    passes = [logging_pass([], "First", body=remove_instruments), logging_pass([], "Second", body=record)]
    async with PassContext(instruments=[Nothing()]):
        await Sequential(passes)({})
    assert [(run.started, run.ended) for run in runs if run is not None] == [(0.0, 0.0)]


def test_runs_compare_by_identity() -> None:
    info = PassInfo(0, "P")
    first, second = Run(info, None), Run(info, None)
    assert (first == first, first == second, first.lineage, Run(info, first).lineage[1:]) == (
        True,
        False,
        (first,),
        (first,),
    )


@module_pass(opt_level=0)
class Keep:
    def transform_module(self, mod: dict[str, int], ctx: PassContext) -> dict[str, int]:
        return mod


@pytest.mark.parametrize("value", [None, Keep, [Keep()], len])
def test_run_rejects_what_is_not_pass(value: Any) -> None:
    with pytest.raises(
        TypeError, match=r"apass\.run\(pass_, mod\) takes a pass or the text of a pipeline as pass_, (got|but) "
    ):
        apass.run(value, {"f": 1})


def test_run_takes_text_of_a_pipeline() -> None:
    assert apass.run("Repeat{times=2}(Sequential)", {"f": 1}) == {"f": 1}
    with pytest.raises(apass.errors.UnknownPassError, match="did you mean 'Repeat'"):
        apass.run("Repeet", {"f": 1})


def test_run_names_the_order_of_arguments() -> None:
    pass_: Any = Keep()
    mod: Any = {"f": 1}
    with pytest.raises(TypeError, match=r"takes the pass first and then the module; write apass.run\(pass_, mod\)"):
        apass.run(mod, pass_)
    with pytest.raises(TypeError, match=r"^apass.run\(pass_, mod\) takes .* as pass_, got {'f': 1}$"):
        apass.run(mod, "Sequential")


def test_run_rejects_what_is_not_context() -> None:
    pass_: Any = Keep()
    context: Any = {"opt_level": 3}
    with pytest.raises(TypeError, match=r"the context must be of type PassContext \| None, got"):
        apass.run(pass_, {"f": 1}, context=context)


def test_run_rejects_none_as_module(anyio_backend: str) -> None:
    keep: Any = Keep()
    no_module: Any = None
    for pass_, name in ((keep, "Keep"), (apass.Sequential([keep]), "sequential")):
        with pytest.raises(TypeError, match=f"^pass '{name}' was called with None, not a module; check the code that"):
            anyio.run(pass_, no_module, backend=anyio_backend)


def test_note_about_a_run_is_pickled_as_text() -> None:
    error = ValueError("no")
    error.add_note(RunNote("in pass 'Fold'", Run(PassInfo(0, "Fold"), None)))
    copied = pickle.loads(pickle.dumps(error))
    assert (copied.__notes__, type(copied.__notes__[0])) == (["in pass 'Fold'"], str)
