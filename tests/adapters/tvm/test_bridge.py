"""`from_tvm` and `to_tvm`: hooks around inner passes, errors, cancellation."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio import to_thread

import apass
from apass.adapters.tvm import ADAPTER
from apass.adapters.tvm.library import tvm
from apass.instruments import DebugInstrument, ReproducerInstrument
from apass.runner.changes import CHANGES, ChangeLog
from tests.helpers.tvm_modules import Pausing, legalized, mixed, shared, skipped

relax = tvm.relax

CANONICAL = ["CanonicalizeBindings", "CanonicalizeTIRVariables", "CanonicalizeRelaxBindings"]


class Record(apass.PassInstrument):
    """Records hooks with the path of the run; `fail` names a hook that raises."""

    def __init__(self, *, skip: tuple[str, ...] = (), fail: str = "") -> None:
        self.events: list[str] = []
        self.skip = skip
        self.fail = fail

    async def should_run(self, mod: Any, info: apass.PassInfo) -> bool:
        await anyio.lowlevel.checkpoint()
        return info.name not in self.skip

    async def run_before_pass(self, mod: Any, info: apass.PassInfo) -> None:
        await anyio.lowlevel.checkpoint()
        self._add("before", info)

    async def run_after_pass(self, mod: Any, info: apass.PassInfo) -> None:
        await anyio.lowlevel.checkpoint()
        self._add("after", info)

    async def run_after_pass_failed(self, mod: Any, info: apass.PassInfo, error: BaseException) -> None:
        self.events.append(f"failed {info.name} {type(error).__name__}")

    def _add(self, hook: str, info: apass.PassInfo) -> None:
        run = apass.current_run()
        assert run is not None
        self.events.append(f"{hook} {'.'.join(run.path)}")
        if self.fail == f"{hook} {info.name}":
            raise KeyError(self.fail)


def nested(*passes: Any, name: str = "outer") -> Any:
    """Return a module pass of TVM in Python that runs a Sequential."""
    inner = tvm.transform.Sequential(list(passes), name="inner")

    def run(mod: Any, _ctx: Any) -> Any:
        return inner(mod)

    return tvm.transform.module_pass(run, opt_level=0, name=name)


def around(path: str, *inner: str) -> list[str]:
    return [f"before {path}", *inner, f"after {path}"]


def test_sequential_becomes_one_of_apass() -> None:
    pass_ = apass.from_tvm(tvm.transform.Sequential([relax.transform.CanonicalizeBindings()], 1, "mine"))
    assert isinstance(pass_, apass.Sequential)
    assert (pass_.info.opt_level, pass_.info.name) == (1, "mine")
    assert [child.info.name for child in pass_.children()[0].children()] == CANONICAL[1:]


def test_other_objects_are_rejected() -> None:
    with pytest.raises(TypeError, match=r"takes a tvm\.transform\.Pass, got <function .*; call the function"):
        apass.from_tvm(relax.transform.FoldConstant)
    other: Any = relax.transform.FoldConstant()
    with pytest.raises(TypeError, match="to_tvm takes a pass of apass"):
        apass.to_tvm(other)
    with pytest.raises(
        apass.errors.AdapterError, match=r"takes a tvm\.IRModule, got dict; import a model into TVM first"
    ):
        apass.run(apass.from_tvm(other), {"f": 1})


@pytest.mark.anyio
async def test_hooks_see_passes_inside_a_pass() -> None:
    mod, record = shared(), Record()
    async with apass.PassContext(instruments=[record]):
        result = await apass.from_tvm(nested(relax.transform.CanonicalizeBindings(), relax.transform.LegalizeOps()))(
            mod
        )
    where = "outer.inner.CanonicalizeBindings"
    assert record.events == around(
        "outer",
        *around(
            "outer.inner",
            *around(where, *around(f"{where}.{CANONICAL[1]}"), *around(f"{where}.{CANONICAL[2]}")),
            *around("outer.inner.LegalizeOps"),
        ),
    )
    assert ADAPTER.equal(result, relax.transform.LegalizeOps()(relax.transform.CanonicalizeBindings()(mod)))


@pytest.mark.anyio
@pytest.mark.parametrize("is_small", [True, False])
async def test_hooks_see_passes_inside_a_pass_in_cpp(is_small: bool) -> None:
    record = Record()
    async with apass.PassContext(instruments=[record]):
        await apass.from_tvm(relax.transform.ComputePrimValue())(legalized(is_small=is_small))
    assert record.events == around("ComputePrimValue", *around("ComputePrimValue.NormalizeGlobalVar"))


@pytest.mark.anyio
@pytest.mark.parametrize("makes", [relax.transform.FuseOps, relax.transform.EliminateCommonSubexpr])
async def test_only_large_modules_use_threads(makes: Callable[[], Any]) -> None:
    workers: list[str] = []

    class Works(apass.PassInstrument):
        def on_work(self, run: apass.Run, worker: str, start: float, end: float) -> None:
            workers.append(worker)

        def run_before_function(self, func: Any, run: apass.Run) -> None: ...

    async with apass.PassContext(instruments=[Works()]):
        await apass.from_tvm(makes())(legalized(is_small=True))
        assert not workers
        await apass.from_tvm(makes())(legalized(is_small=False))
    assert all(worker.startswith("thread") for worker in workers)
    assert workers


@pytest.mark.anyio
async def test_should_run_skips_an_inner_pass() -> None:
    mod, record = shared(), Record(skip=("LegalizeOps",))
    async with apass.PassContext(instruments=[record]):
        result = await apass.from_tvm(nested(relax.transform.LegalizeOps()))(mod)
    assert (result is mod, record.events) == (True, around("outer", *around("outer.inner")))


@pytest.mark.anyio
async def test_required_inner_pass_runs_without_being_asked() -> None:
    mod, record = shared(), Record(skip=("LegalizeOps",))
    async with apass.PassContext(required_pass=["LegalizeOps"], instruments=[record]):
        await apass.from_tvm(nested(relax.transform.LegalizeOps()))(mod)
    assert record.events == around("outer", *around("outer.inner", *around("outer.inner.LegalizeOps")))


@pytest.mark.anyio
async def test_context_selects_inner_passes() -> None:
    passes = [relax.transform.EliminateCommonSubexpr(), relax.transform.LegalizeOps()]
    async with apass.PassContext(opt_level=0, instruments=[low := Record()]):
        await apass.from_tvm(nested(*passes))(shared())
    async with apass.PassContext(disabled_pass=["LegalizeOps"], instruments=[disabled := Record()]):
        await apass.from_tvm(nested(*passes))(shared())
    assert low.events == around("outer", *around("outer.inner", *around("outer.inner.LegalizeOps")))
    assert disabled.events == around("outer", *around("outer.inner", *around("outer.inner.EliminateCommonSubexpr")))


@pytest.mark.anyio
@pytest.mark.parametrize("hook", ["before LegalizeOps", "after LegalizeOps"])
async def test_failed_hook_of_an_inner_pass_ends_all(hook: str) -> None:
    record = Record(fail=hook)
    with pytest.raises(KeyError, match=hook):
        async with apass.PassContext(instruments=[record]):
            await apass.from_tvm(nested(relax.transform.LegalizeOps(), relax.transform.FuseOps()))(shared())
    # An instrument whose `run_before_pass` or `run_after_pass` failed gets no further call for the pass.
    assert record.events[-2:] == ["failed inner KeyError", "failed outer KeyError"]
    assert not any("FuseOps" in event for event in record.events)


@pytest.mark.anyio
async def test_error_of_an_inner_pass_reaches_all_hooks() -> None:
    def boom(_mod: Any, _ctx: Any) -> Any:
        raise ValueError("no such layout")

    failing = tvm.transform.module_pass(boom, opt_level=0, name="Boom")
    record = Record()
    with pytest.raises(apass.errors.AdapterError) as caught:
        async with apass.PassContext(instruments=[record]):
            await apass.from_tvm(nested(failing)).run(shared(), name="model")
    assert str(caught.value) == "pass 'outer' of TVM failed on module 'model': ValueError: no such layout"
    assert caught.value.__notes__[0] == "in pass 'outer > inner > Boom', module 'model'"
    assert record.events[3:] == [f"failed {name} AdapterError" for name in ("Boom", "inner", "outer")]


@pytest.mark.anyio
async def test_pass_that_handles_an_inner_error_goes_on() -> None:
    def boom(_mod: Any, _ctx: Any) -> Any:
        raise ValueError("no such layout")

    failing = nested(tvm.transform.module_pass(boom, opt_level=0, name="Boom"), name="middle")
    legalize = relax.transform.LegalizeOps()

    def handle(mod: Any, _ctx: Any) -> Any:
        try:
            return failing(mod)
        except ValueError:
            return legalize(mod)

    outer = tvm.transform.module_pass(handle, opt_level=0, name="outer")
    async with apass.PassContext(instruments=[record := Record()]):
        result = await apass.from_tvm(outer)(shared())
    assert ADAPTER.equal(result, legalize(shared()))
    assert record.events[-1] == "after outer"
    assert [event.split()[1] for event in record.events if event.startswith("failed")] == ["Boom", "inner", "middle"]


@pytest.mark.anyio
async def test_function_passes_skip_marked_functions() -> None:
    def mark(func: Any, _mod: Any, _ctx: Any) -> Any:
        return func.with_attr("marked", True)

    mod = skipped(mixed(), "scale", "main")
    for pass_ in (
        tvm.tirx.transform.StmtSimplify(),
        relax.transform.EliminateCommonSubexpr(),
        relax.transform.FoldConstant(),
        relax.transform.function_pass(mark, opt_level=0, name="Mark"),
    ):
        result = await apass.from_tvm(pass_)(mod)
        assert all(result[name].same_as(mod[name]) for name in ("scale", "main"))
    simplified = await apass.from_tvm(tvm.tirx.transform.StmtSimplify())(mod)
    assert not ADAPTER.equal(simplified["shift"], mod["shift"])


@pytest.mark.anyio
async def test_unchanged_module_is_the_same_object() -> None:
    mod = shared()
    for maker in (relax.transform.Normalize, relax.transform.FuseOps):
        assert await apass.from_tvm(maker())(mod) is mod


@pytest.mark.anyio
async def test_passes_of_apass_run_in_pipelines_of_tvm() -> None:
    @apass.module_pass(opt_level=0)
    async def Mine(mod: Any, ctx: apass.PassContext) -> Any:
        await anyio.lowlevel.checkpoint()
        assert threading.get_ident() == loop
        return relax.transform.LegalizeOps()(mod)

    loop = threading.get_ident()
    pipeline = tvm.transform.Sequential([relax.transform.Normalize(), apass.to_tvm(Mine)])
    expected = relax.transform.LegalizeOps()(shared())
    async with apass.PassContext(instruments=[record := Record()]):
        assert ADAPTER.equal(await apass.from_tvm(nested(apass.to_tvm(Mine)))(shared()), expected)
    assert record.events == around("outer", *around("outer.inner", *around("outer.inner.Mine")))
    assert ADAPTER.equal(await apass.from_tvm(pipeline)(shared()), expected)
    assert ADAPTER.equal(await to_thread.run_sync(pipeline, shared()), expected)


def test_passes_of_apass_run_in_plain_tvm() -> None:
    @apass.module_pass(opt_level=1)
    async def Mine(mod: Any, ctx: apass.PassContext) -> Any:
        await anyio.lowlevel.checkpoint()
        seen.append((ctx.opt_level, sorted(ctx.disabled_pass)))
        return mod

    seen: list[tuple[int, list[str]]] = []
    pipeline = tvm.transform.Sequential([apass.to_tvm(Mine)])
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["Other"]):
        assert ADAPTER.equal(pipeline(shared()), shared())
    with tvm.transform.PassContext(opt_level=0):
        pipeline(shared())
    assert seen == [(3, ["Other"])]


@pytest.mark.anyio
async def test_pipeline_in_the_loop_thread_is_an_error() -> None:
    pipeline = apass.to_tvm(apass.Sequential([]))
    with pytest.raises(
        Exception, match=r"would block the event loop; write `await apass\.from_tvm\(pipeline\)\(mod\)`"
    ):
        pipeline(shared())


@pytest.mark.anyio
@pytest.mark.parametrize("instruments", [[], [apass.PassInstrument()]])
async def test_error_of_a_nested_pass_is_its_own(instruments: list[Any]) -> None:
    @apass.module_pass(opt_level=0)
    async def Boom(mod: Any, ctx: apass.PassContext) -> Any:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        async with apass.PassContext(instruments=instruments):
            await apass.from_tvm(nested(apass.to_tvm(Boom)))(shared())


@pytest.mark.anyio
async def test_exclusive_passes_may_nest() -> None:
    inner = apass.from_tvm(relax.transform.LegalizeOps())
    with anyio.fail_after(60):
        async with apass.PassContext(instruments=[Record()]):
            result = await apass.from_tvm(nested(apass.to_tvm(inner)))(shared())
    assert ADAPTER.equal(result, relax.transform.LegalizeOps()(shared()))


@pytest.mark.anyio
@pytest.mark.parametrize("instruments", [list, lambda: [Record()]])
@pytest.mark.both_loops
async def test_cancelled_call_waits_for_its_thread(instruments: Callable[[], list[Any]]) -> None:
    pausing = Pausing()
    pass_ = apass.from_tvm(nested(pausing.wait, apass.to_tvm(apass.from_tvm(pausing.later))))
    async with anyio.create_task_group() as group:

        async def work() -> None:
            async with apass.PassContext(instruments=instruments()):
                await pass_(shared())
            pausing.ran.append("result")

        group.start_soon(work)
        await pausing.started.wait()
        group.cancel_scope.cancel()
        pausing.release.set()
    assert pausing.ran == ["wait"]


@pytest.mark.anyio
@pytest.mark.parametrize("instruments", [list, lambda: [Record()]])
@pytest.mark.both_loops
async def test_cancelled_call_starts_no_pass_of_tvm(instruments: Callable[[], list[Any]]) -> None:
    pausing = Pausing()
    async with apass.PassContext(instruments=instruments()), anyio.create_task_group() as group:
        group.start_soon(apass.from_tvm(nested(pausing.wait, pausing.later)), shared())
        await pausing.started.wait()
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await anyio.wait_all_tasks_blocked()
        pausing.release.set()
    assert pausing.ran == ["wait"]


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_cancelled_nested_pass_ends_the_call() -> None:
    started = anyio.Event()

    @apass.module_pass(opt_level=0)
    async def Forever(mod: Any, ctx: apass.PassContext) -> Any:
        started.set()
        await anyio.sleep_forever()
        return mod

    async with anyio.create_task_group() as group:
        group.start_soon(apass.from_tvm(nested(apass.to_tvm(Forever))), shared())
        await started.wait()
        group.cancel_scope.cancel()


@pytest.mark.anyio
async def test_many_modules_run_at_once_and_equal_tvm() -> None:
    passes = [relax.transform.LegalizeOps, relax.transform.FuseOps, relax.transform.FuseTIR]
    modules = {str(index): (shared if index % 2 else mixed)() for index in range(16)}
    pipeline = apass.Sequential([apass.from_tvm(make()) for make in passes])
    results = await apass.optimize_all(modules, pipeline)
    for name, mod in modules.items():
        expected = mod
        for make in passes:
            expected = make()(expected)
        assert ADAPTER.equal(results[name], expected), name


@pytest.mark.anyio
@pytest.mark.parametrize("instruments", [list, lambda: [Record()]])
async def test_change_log_has_the_outer_passes(instruments: Callable[[], list[Any]]) -> None:
    passes = [nested(relax.transform.EliminateCommonSubexpr()), relax.transform.DeadCodeElimination()]
    token = CHANGES.set(ChangeLog())
    try:
        async with apass.PassContext(instruments=instruments()):
            await apass.from_tvm(tvm.transform.Sequential(passes))(shared())
        log = CHANGES.get()
    finally:
        CHANGES.reset(token)
    assert log is not None
    assert log.changed == {"outer": 1, "DeadCodeElimination": 1}


def test_pass_that_changes_in_place_changes_a_copy() -> None:
    def remove(mod: Any, _ctx: Any) -> Any:
        del mod[mod.get_global_var("second")]
        return mod

    mod = shared()
    result = apass.run(apass.from_tvm(tvm.transform.module_pass(remove, opt_level=0)), mod)
    assert [sorted(name for name, _ in ADAPTER.functions(one)) for one in (mod, result)] == [
        ["first", "second"],
        ["first"],
    ]


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:.*held the loop")  # a first import
async def test_debug_mode_accepts_inner_passes() -> None:
    mod = shared()
    async with apass.PassContext(instruments=[DebugInstrument()]):
        assert ADAPTER.equal(await apass.from_tvm(relax.transform.CanonicalizeBindings())(mod), mod)


@pytest.mark.parametrize("name", ["FuseOps", "tvm.relax.FuseOps"])
def test_disabled_name_is_that_of_either_compiler(name: str) -> None:
    record = Record()
    with_names = apass.PassContext(disabled_pass={name}, instruments=[record])
    apass.run(apass.from_tvm(nested(relax.transform.FuseOps())), shared(), context=with_names)
    assert record.events == around("outer", *around("outer.inner"))


@pytest.mark.parametrize("name", ["DeadCodeElimination", "tvm.relax.DeadCodeElimination"])
def test_registered_pass_has_both_names(name: str) -> None:
    mod = shared()
    disabled = apass.PassContext(disabled_pass=[name])
    assert apass.run("tvm.relax.DeadCodeElimination", mod) is not mod
    assert apass.run("Sequential(tvm.relax.DeadCodeElimination)", mod, context=disabled) is mod


def test_config_of_tvm_reaches_a_pass_of_apass() -> None:
    seen: list[dict[str, Any]] = []

    @apass.module_pass(opt_level=0)
    def Mine(mod: Any, ctx: apass.PassContext) -> Any:
        seen.append(dict(ctx.config))
        return mod

    with tvm.transform.PassContext(config={"relax.FuseOps.max_depth": 4}):
        apass.to_tvm(Mine)(shared())
    assert seen == [{"tvm.relax.FuseOps.max_depth": 4}]


def test_errors_of_apass_pass_through_tvm() -> None:
    @apass.module_pass(opt_level=0)
    def Wrong(mod: Any, ctx: apass.PassContext) -> Any:
        return {"f": 1}

    @apass.module_pass(opt_level=0)
    def Refuses(mod: Any, ctx: apass.PassContext) -> Any:
        raise apass.errors.VerifyError("mine")

    with pytest.raises(apass.errors.PassResultError, match=r"pass 'Wrong' returned .*, expected a tvm\.IRModule"):
        apass.to_tvm(Wrong)(shared())
    with pytest.raises(apass.errors.VerifyError, match="mine"):
        apass.to_tvm(Refuses)(shared())


@pytest.mark.anyio
async def test_unregistered_pass_cannot_go_to_a_process() -> None:
    one = apass.Sequential([apass.from_tvm(relax.transform.FuseOps())])
    expected = r"TVM cannot write its pass 'FuseOps'; use .* apass\.get_pass\('tvm\.relax\.FuseOps'\)"
    with pytest.raises(apass.errors.ExecutorError, match=expected):
        await apass.optimize_all({"m": shared()}, one, executor="process")


def test_reproducer_is_that_of_the_pass_around(tmp_path: Path) -> None:
    fail = Record(fail="after ExpandTupleArgumentsInner")
    pass_ = apass.get_pass("tvm.relax.FuseTIR")
    context = apass.PassContext(instruments=[fail, ReproducerInstrument(tmp_path)])
    with pytest.raises(KeyError):
        apass.run(pass_, relax.transform.LegalizeOps()(shared()), context=context)
    (folder,) = tmp_path.glob("*/*")
    assert json.loads((folder / "reproducer.json").read_text())["pipeline"] == "tvm.relax.FuseTIR"


def test_error_about_pass_of_tvm_names_from_tvm() -> None:
    pass_ = relax.transform.FoldConstant()
    wrong: Any = pass_
    for call in (lambda: apass.run(wrong, mixed()), lambda: apass.Sequential([wrong])):
        with pytest.raises(TypeError, match=r"it is a pass of TVM, write apass.from_tvm\(pass_\)"):
            call()
