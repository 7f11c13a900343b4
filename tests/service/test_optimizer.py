"""Models, pipelines and options of jobs; lists, and equal jobs."""

import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.from_thread
import anyio.to_thread
import onnx_ir as ir
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass.adapters.onnx import model_from_bytes, model_to_bytes
from apass.service import (
    IdempotencyError,
    InvalidJobError,
    Job,
    JobFailedError,
    JobOptions,
    JobQuery,
    JobState,
    Limits,
    ModelTooLargeError,
    NoResultError,
    Optimizer,
    OptimizerClosedError,
    UnknownJobError,
)
from tests.helpers.onnx_models import with_functions
from tests.helpers.rows import row
from tests.helpers.xdsl_modules import SIMPLE, SUMS
from tests.service.job_stores import DurableStore
from tests.service.loop_passes import PLAIN, Gate, Module, Unhashed, add, fail, reached

pytestmark = pytest.mark.anyio


async def test_result_of_module_is_module() -> None:
    async with Optimizer({"add": add(1)}) as optimizer:
        job = await optimizer.submit({"f": 1, "g": 2}, pipeline="add", name="numbers")
        assert await job.result() == {"f": 2, "g": 3}
        record = job.record
        assert (record.state, record.name, record.attempts) == (JobState.DONE, "numbers", 1)
        assert record.summary is not None
        assert (record.summary.changed, record.summary.changed_by) == (True, {"Add": 1})
        assert record.created <= (record.started or 0) <= (record.finished or 0)


async def test_result_of_bytes_and_paths_is_bytes(tmp_path: Path) -> None:
    data = model_to_bytes(with_functions())
    path = tmp_path / "model.ONNX"
    path.write_bytes(data)
    async with Optimizer({"inline": "onnx.Inline"}, reuse=False) as optimizer:
        of_path = await optimizer.submit(path, pipeline="inline", options=PLAIN)
        assert (of_path.record.name, of_path.record.kind) == ("model.ONNX", ".onnx")
        result = await of_path.result()
        assert not model_from_bytes(result).functions
        for kind in (bytes, bytearray, memoryview):
            job = await optimizer.submit(kind(data), kind=".onnx", pipeline="inline", options=PLAIN)
            assert await job.result() == result


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observers": [5]}, "must be a JobObserver with the methods on_event and run, got 5"),
        ({"observers": 5}, "observers must be"),
        ({"cache": "results.db"}, "cache must be"),
        ({"reuse": None}, "reuse must be"),
        ({"store": 5}, "store must be"),
        ({"pipelines": [add(1)]}, "pipelines must be a mapping"),
        ({"pipelines": add(1)}, "pipelines must be a mapping"),
        ({"pipelines": {1: add(1)}}, "name of a pipeline must be"),
        ({"pipelines": {"": add(1)}}, "name of a pipeline must be"),
        ({"pipelines": {"a\n": add(1)}}, "name of a pipeline must be"),
        ({"pipelines": {"bad": 3}}, "pipeline 'bad'"),
        ({"allow": "onnx.Inline"}, "allow must be a list"),
        ({"allow": [1]}, "allow must be a list of names or patterns, but contains 1"),
    ],
)
async def test_invalid_argument_of_optimizer_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        Optimizer(**options)


async def test_news_end_when_the_optimizer_has_drained() -> None:
    async with Optimizer({"add": add(1)}) as optimizer:
        with optimizer.listen() as news:
            job = await optimizer.submit({"f": 1}, pipeline="add")
            await job.result()
            await optimizer.drain()
            assert [event.data["state"] async for _, event in news] == ["queued", "running", "done"]
        with optimizer.listen() as late:
            assert [event async for event in late] == []


async def test_invalid_arguments_of_methods_are_refused() -> None:
    wrong: Any = 5
    rows: list[dict[str, Any]] = [{"limit": 0}, {"limit": "x"}, {"states": ["bogus"]}, {"states": "done"}, {"text": 5}]
    for values in rows:
        with pytest.raises((TypeError, ValueError), match=f"{next(iter(values))} must be"):
            JobQuery(tenant=None, **values)
    async with Optimizer({"add": add(1)}) as optimizer:
        job = await optimizer.submit({"f": 1}, pipeline="add")
        with pytest.raises(TypeError, match="query must be"):
            await optimizer.list(wrong)
        with pytest.raises(TypeError, match="job_id must be"):
            await optimizer.find(wrong)
        with pytest.raises(TypeError, match="kinds must be a list"):
            optimizer.listen("state")
        for after in ("1", -1):
            with pytest.raises(ValueError, match="after must be the id of an event"):
                job.events(cast("int", after))


async def test_default_pipeline_is_that_of_ir() -> None:
    model = with_functions()
    async with Optimizer() as optimizer:
        job = await optimizer.submit(model_to_bytes(model), kind=".onnx", options=PLAIN)
        assert not model_from_bytes(await job.result()).functions
        of_module = await optimizer.submit(model, options=PLAIN)
        result = await of_module.result()
        assert isinstance(result, ir.Model)
        assert not result.functions
        converted = await optimizer.submit(model_to_bytes(model), kind=".onnx", result_kind=".relay", options=PLAIN)
        assert b"nn.relu" in await converted.result()
        assert converted.record.result_kind == ".relay"


async def test_texts_of_other_irs_are_optimized() -> None:
    texts = {"xdsl.Default": (".mlir", SUMS), "llvm.O2": (".ll", "define i32 @f() { ret i32 1 }")}
    async with Optimizer({name: name for name in texts}) as optimizer:
        for name, (kind, text) in texts.items():
            job = await optimizer.submit(text.encode(), kind=kind, pipeline=name)
            result = (await job.result()).decode()
            assert result == SIMPLE if kind == ".mlir" else "ret i32 1" in result


async def test_invalid_job_is_refused() -> None:
    rows: list[tuple[Any, dict[str, Any], str]] = [
        (b"", {"kind": ".xyz"}, "no format of models for the suffix '.xyz'"),
        (b"", {"kind": ".onx"}, "did you mean '.onnx'"),
        (b"", {}, "no format of models for the suffix ''"),
        (b"", {"kind": 5}, "kind must be"),
        (b"", {"kind": ".onnx", "result_kind": ".xyz"}, "'.xyz'"),
        (Path("missing.onnx"), {}, "cannot read 'missing.onnx'"),
        ({}, {"kind": ".onnx"}, "a module has its own"),
        (object(), {}, "cannot be a job"),
        (object(), {}, "submit the bytes of a model's file"),
        ("model.onnx", {}, "write Path(...) for the name of a file"),
        ("model.onnx", {"kind": ".onnx"}, "write Path(...) for the name of a file"),
        ({}, {"wait": "no"}, "wait must be"),
        ({}, {"options": {}}, "options must be"),
        ({}, {"pipeline": "defualt"}, "did you mean 'default'"),
        ({}, {"pipeline": "onnx.Inline"}, "there is no pipeline 'onnx.Inline'"),
        ({}, {"pipeline": add(1)}, "give a pass to Optimizer(pipelines=...), and its name to jobs"),
        ({}, {"priority": 1001}, "priority"),
        ({}, {"priority": True}, "priority"),
        ({}, {"deadline": 0}, "deadline"),
        ({}, {"deadline": 11}, "deadline must be at most 10 s here"),
        ({}, {"name": "x" * 301}, "name must have at most 300 characters"),
        ({}, {"name": 3}, "name must be"),
        ({}, {"tenant": "a\0"}, "tenant must not contain a null character"),
        ({}, {"idempotency_key": "\ud800"}, "surrogate"),
        ({}, {"trace": "x" * 301}, "trace must have"),
        ({}, {"options": JobOptions(config={"relay.FoldConstant.large": 1})}, "is not allowed here"),
        ({}, {"options": JobOptions(config={"jobs.level": "much"})}, "jobs.level"),
    ]
    async with Optimizer(limits=Limits(max_deadline=10, config=frozenset({"jobs.level"}))) as optimizer:
        for model, options, message in rows:
            with row(message):
                with pytest.raises(InvalidJobError) as caught:
                    await optimizer.submit(model, **options)
                assert message in str(caught.value)
                assert await optimizer.store.count() == {}
                assert optimizer.status().jobs == 0


async def test_text_of_pipeline_needs_allowed_passes() -> None:
    data = model_to_bytes(with_functions())
    async with Optimizer(allow=["onnx.Inline"], limits=Limits(pipeline_length=50)) as optimizer:
        job = await optimizer.submit(data, kind=".onnx", pipeline="onnx.Inline,onnx.Inline", options=PLAIN)
        assert not model_from_bytes(await job.result()).functions
        for text, message in [
            ("onnx.Default", "onnx.Default"),
            ("onnx.Inline(", "expected"),
            ("onnx.Inline," * 10, "the limit is 50"),
            ("(" * 50, "expected"),
            ("onnx.Inline{a=1}", "option"),
        ]:
            with pytest.raises(InvalidJobError) as caught:
                await optimizer.submit(data, kind=".onnx", pipeline=text)
            assert message in str(caught.value)


@pytest.mark.parametrize("pipeline", ["named", "text", "default"])
async def test_misspelt_pass_in_options_is_refused(pipeline: str) -> None:
    data = model_to_bytes(with_functions())
    text = {"named": "named", "text": "Repeat(onnx.Inline)", "default": "default"}[pipeline]
    async with Optimizer({"named": "Repeat(onnx.Inline)", "default": ""}, allow=["onnx.*", "Repeat"]) as optimizer:
        misspelt = ("onnx.Inlin",)
        for options in (JobOptions(required_pass=misspelt), JobOptions(disabled_pass=misspelt)):
            with pytest.raises(InvalidJobError, match=r"_pass names 'onnx.Inlin', .*; did you mean 'onnx.Inline'"):
                await optimizer.submit(data, kind=".onnx", pipeline=text, options=options)
        # The second one is no pass of the pipeline, but registered.
        options = JobOptions(report=False, disabled_pass=("onnx.Inline", "PrintIR"))
        job = await optimizer.submit(data, kind=".onnx", pipeline=text, options=options)
        assert model_from_bytes(await job.result()).functions


async def test_misspelt_pipeline_suggests_names_and_passes() -> None:
    async with Optimizer({"nightly": "onnx.Inline"}, allow=["onnx.*"]) as optimizer:
        for text, hint in (
            ("nigthly", "did you mean 'nightly'"),
            ("onnx.inlne", "did you mean 'onnx.Inline'"),
            ("zzz", "pipelines are: nightly; allowed passes are: onnx.*"),
        ):
            with pytest.raises(InvalidJobError, match=f"there is no pipeline '{text}', .*{re.escape(hint)}"):
                await optimizer.submit(b"", kind=".onnx", pipeline=text)
        with pytest.raises(InvalidJobError, match=r"'onnx.Inlin'; did you mean 'onnx.Inline'"):
            await optimizer.submit(b"", kind=".onnx", pipeline="onnx.Inline,onnx.Inlin")


@pytest.mark.process
@pytest.mark.slow
def test_unknown_names_import_no_plug_ins() -> None:
    program = """
import sys
import anyio
from apass.service import InvalidJobError, JobOptions, Optimizer
from tests.service.loop_passes import add

async def main():
    async with Optimizer({"add": add(1)}, allow=["If", "onnx.*"]) as optimizer:
        for pipeline, disabled in (("onnx.Nothing", ()), ("Nothing", ()), ("add", ("Nothing",))):
            try:
                await optimizer.submit({"f": 1}, pipeline=pipeline, options=JobOptions(disabled_pass=disabled))
            except InvalidJobError:
                continue
            print("accepted", pipeline)
        await (await optimizer.submit({"f": 1}, pipeline="add", options=JobOptions(disabled_pass=["Add"]))).wait()
    print(sorted(name for name in sys.modules if name in ("tvm", "xdsl", "llvmlite")))

anyio.run(main)
"""
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_large_model_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"x" * 101)
    async with Optimizer(limits=Limits(model_bytes=100)) as optimizer:
        for model in (b"x" * 101, path):
            with pytest.raises(ModelTooLargeError, match="101 bytes; the limit is 100"):
                await optimizer.submit(model, kind=".onnx")
        with pytest.raises(ModelTooLargeError):
            await optimizer.submit({"f": "x" * 101})


async def test_closed_optimizer_accepts_no_jobs() -> None:
    optimizer = Optimizer({"add": add(1)})
    with pytest.raises(OptimizerClosedError, match="not open"):
        await optimizer.submit({"f": 1}, pipeline="add")
    async with optimizer:
        with pytest.raises(OptimizerClosedError, match="is open"):
            await optimizer.__aenter__()
        await optimizer.drain()
        with pytest.raises(OptimizerClosedError, match="ends"):
            await optimizer.submit({"f": 1}, pipeline="add")
    with pytest.raises(OptimizerClosedError):
        await optimizer.submit({"f": 1}, pipeline="add")
    with pytest.raises(apass.errors.PipelineSyntaxError):
        await Optimizer({"bad": "no such pass("}).__aenter__()
    async with optimizer:
        assert await (await optimizer.submit({"f": 1}, pipeline="add")).result() == {"f": 2}


async def test_other_event_loop_is_refused(anyio_backend_name: str) -> None:
    gate = Gate()

    async def use(optimizer: Optimizer, job: Job[Module]) -> int:
        uses: list[Callable[[], Awaitable[object]]] = [
            lambda: optimizer.submit({"f": 1}, pipeline="gate"),
            lambda: optimizer.find(job.id),
            lambda: optimizer.list(JobQuery(tenant=None)),
            lambda: optimizer.remove(job.id),
            job.wait,
            job.result,
            job.report,
            job.cancel,
            lambda: anext(aiter(job.events())),
        ]
        for call in uses:
            with pytest.raises(OptimizerClosedError, match=r"another event loop; .* from a thread with"):
                await call()
        return len(uses)

    async with Optimizer({"gate": gate.wait}) as optimizer:
        job = await optimizer.submit({"f": 1}, pipeline="gate")
        elsewhere = partial(anyio.run, partial(use, optimizer, job), backend=anyio_backend_name)
        assert await anyio.to_thread.run_sync(elsewhere) == 9
        gate.opened.set()
        again = await anyio.to_thread.run_sync(anyio.from_thread.run, partial(optimizer.find, job.id))
        assert await again.result() == {"f": 1, "passed": 1}


async def test_equal_jobs_are_computed_once() -> None:
    gate = Gate()
    async with Optimizer({"gate": gate.wait}) as optimizer:
        jobs = [await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN) for _ in range(5)]
        other = await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN, tenant="other")
        gate.opened.set()
        assert [await job.result() for job in jobs] == 5 * [{"f": 1, "passed": 1}]
        await other.result()
        kinds = [[event.kind async for event in job.events()] for job in jobs]
    # A tenant must not learn from the time of a job which ones others have submitted.
    assert len(gate.started) == 2
    assert kinds == 5 * [["state", "state", "started", "finished", "state"]]


async def test_equal_job_runs_in_lists_and_counts(tmp_path: Path) -> None:
    gate = Gate()
    async with Optimizer({"gate": gate.wait}, store=tmp_path / "jobs.db") as optimizer:
        jobs = [await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN)]
        await reached(jobs[0], "started")
        jobs.append(await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN))
        with anyio.fail_after(60):
            while (await optimizer.store.count()).get(JobState.RUNNING) != 2:
                await checkpoint()
        assert len((await optimizer.list(JobQuery(tenant=None, states=[JobState.RUNNING]))).jobs) == 2
        gate.opened.set()
        assert [(await job.wait()).state for job in jobs] == [JobState.DONE, JobState.DONE]
        assert await optimizer.store.count() == {JobState.DONE: 2}


async def test_equal_jobs_share_error() -> None:
    gate = Gate()
    async with Optimizer({"fail": apass.Sequential([gate.wait, fail()])}) as optimizer:
        jobs = [await optimizer.submit({"f": 1}, pipeline="fail") for _ in range(3)]
        gate.opened.set()
        for job in jobs:
            with pytest.raises(JobFailedError, match="ValueError: no"):
                await job.result()
        assert len(gate.started) == 1
        # Only results are kept.
        with pytest.raises(JobFailedError):
            await (await optimizer.submit({"f": 1}, pipeline="fail")).result()
    assert len(gate.started) == 2


@pytest.mark.parametrize("reuse", [True, False])
async def test_result_of_equal_job_is_reused(reuse: bool) -> None:
    gate = Gate()
    gate.opened.set()
    async with Optimizer({"gate": gate.wait}, reuse=reuse) as optimizer:
        first = await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN)
        result = await first.result()
        job = await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN)
        assert await job.result() == result == {"f": 1, "passed": 1}
        assert job.record.reused == reuse
        assert len(gate.started) == 2 - reuse
        if reuse:
            assert [event.kind async for event in job.events()] == ["state"]
        # Other options are another job.
        assert not (await optimizer.submit({"f": 1}, pipeline="gate")).record.reused


async def test_result_of_changed_pass_is_computed_again() -> None:
    store = DurableStore()
    for amount, is_reused in ((1, False), (1, True), (2, False)):
        async with Optimizer({"add": add(amount)}, store=store) as optimizer:
            job = await optimizer.submit({"f": 1}, pipeline="add", options=PLAIN)
            assert await job.result() == {"f": 1 + amount}
            assert job.record.reused == is_reused


async def test_pass_without_fingerprint_is_not_reused_elsewhere() -> None:
    store = DurableStore()

    def with_object() -> apass.Pass[Module]:
        value = Unhashed()

        @apass.module_pass(opt_level=0, name="Object")
        def body(mod: Module, ctx: apass.PassContext) -> Module:
            return {**mod, "value": type(value).__name__}

        return body

    for _ in range(2):
        async with Optimizer({"object": with_object()}, store=store) as optimizer:
            for is_reused in (False, True):
                job = await optimizer.submit({"f": 1}, pipeline="object", options=PLAIN)
                await job.wait()
                assert job.record.reused == is_reused


async def test_idempotency_key_returns_earlier_job() -> None:
    gate = Gate()
    async with Optimizer({"gate": gate.wait, "fail": fail()}) as optimizer:
        ids: list[str] = []
        async with anyio.create_task_group() as group:

            async def submit() -> None:
                job = await optimizer.submit({"f": 1}, pipeline="gate", idempotency_key="k", options=PLAIN)
                ids.append(job.id)
                await job.result()

            for _ in range(5):
                group.start_soon(submit)
            while len(ids) < 5:
                await checkpoint()
            gate.opened.set()
        assert len(set(ids)) == len(gate.started) == 1
        other = await optimizer.submit({"f": 1}, pipeline="gate", idempotency_key="k", options=PLAIN, tenant="t")
        assert other.id not in ids
        with pytest.raises(IdempotencyError, match="used for another job"):
            await optimizer.submit({"f": 2}, pipeline="gate", idempotency_key="k", options=PLAIN)
        # A failed job is returned as well: a new attempt needs a new key.
        failed = [await optimizer.submit({"f": 1}, pipeline="fail", idempotency_key="f") for _ in range(2)]
        assert failed[0].id == failed[1].id
        await failed[0].wait()
        again = await optimizer.submit({"f": 1}, pipeline="fail", idempotency_key="f")
        assert again.id == failed[0].id
        assert again.record.state is JobState.FAILED


async def test_jobs_are_found_listed_and_removed() -> None:
    gate = Gate()
    async with Optimizer({"gate": gate.wait}) as optimizer:
        jobs = [await optimizer.submit({"f": index}, pipeline="gate", tenant="ab"[index % 2]) for index in range(4)]
        assert (await optimizer.find(jobs[0].id, tenant="a")).id == jobs[0].id
        for unknown, tenant in ((jobs[0].id, "b"), ("nothing", None)):
            with pytest.raises(UnknownJobError, match="there is no job"):
                await optimizer.find(unknown, tenant=tenant)
        page = await optimizer.list(JobQuery(tenant="a", limit=1))
        assert [job.id for job in page.jobs] == [jobs[2].id]
        page = await optimizer.list(JobQuery(tenant="a", limit=1, before=page.next))
        assert [job.id for job in page.jobs] == [jobs[0].id]
        assert page.next is None
        with pytest.raises(NoResultError, match="has not ended"):
            await optimizer.remove(jobs[0].id)
        gate.opened.set()
        found = await optimizer.find(jobs[0].id)
        assert await found.result() == {"f": 0, "passed": 1}
        await optimizer.remove(jobs[0].id, tenant="a")
        for use in (optimizer.find, optimizer.remove):
            with pytest.raises(UnknownJobError):
                await use(jobs[0].id)
        with pytest.raises(NoResultError, match="expired"):
            await jobs[0].result()
        again = await optimizer.submit({"f": 0}, pipeline="gate", tenant="a")
        await again.wait()
        assert not again.record.reused


async def test_executor_of_threads_runs_bodies() -> None:
    async with Optimizer({"add": add(1)}, executor="thread") as optimizer:
        jobs = [await optimizer.submit({"f": index}, pipeline="add", options=PLAIN) for index in range(20)]
        assert [await job.result() for job in jobs] == [{"f": index + 1} for index in range(20)]
