"""Metrics of an optimizer, read with the parser of Prometheus."""

import pytest
from anyio.lowlevel import checkpoint
from prometheus_client.parser import text_string_to_metric_families

import apass
from apass.service import JobFailedError, Limits, Optimizer, ServiceMetrics
from apass.service.jobs import JobEvent
from apass.service.metrics import MOST_PASSES
from apass.stores import MemoryStore
from tests.service.loop_passes import PLAIN, Gate, fail, reached
from tests.service.stored_jobs import new_job

pytestmark = pytest.mark.anyio


def read(metrics: ServiceMetrics) -> dict[str, float]:
    """Return the value of each sample, by its name and labels."""
    return {
        sample.name + ",".join(f" {key}={value}" for key, value in sample.labels.items()): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


@apass.register_pass("metrics.Double")
@apass.function_pass(opt_level=0, cacheable=True, name="metrics.Double")
async def double(func: int, mod: dict[str, int], ctx: apass.PassContext) -> int:
    await checkpoint()
    return 2 * func


async def test_jobs_and_passes_are_counted() -> None:
    metrics = ServiceMetrics()
    pipelines = {"double": double, "fail": fail()}
    async with Optimizer(pipelines, cache=MemoryStore(), observers=[metrics]) as optimizer:
        assert await (await optimizer.submit({"f": 1}, pipeline="double", options=PLAIN)).result() == {"f": 2}
        # It has the functions of the first one, and further ones.
        await (await optimizer.submit({"f": 1, "g": 5}, pipeline="double", options=PLAIN)).result()
        assert (await optimizer.submit({"f": 1}, pipeline="double", options=PLAIN)).record.reused
        with pytest.raises(JobFailedError):
            await (await optimizer.submit({"f": 1}, pipeline="fail", options=PLAIN)).result()
        values = read(metrics)
    assert values["apass_jobs_accepted_total"] == 4
    assert values["apass_jobs_ended_total state=done"] == 3
    assert values["apass_jobs_ended_total state=failed"] == 1
    assert values["apass_jobs_reused_total"] == 1
    assert values["apass_jobs_restarted_total"] == 0
    assert values["apass_job_seconds_count"] == 4
    assert values["apass_job_wait_seconds_count"] == 3
    assert values["apass_pass_seconds_count pass=metrics.Double"] == 2
    assert values["apass_pass_failures_total pass=Fail"] == 1
    assert values["apass_cache_hits_total pass=metrics.Double"] == 1
    assert values["apass_accepts_jobs"] == values["apass_store_up"] == 1
    assert values["process_resident_memory_bytes"] > 0


async def test_status_is_read_at_each_scrape() -> None:
    metrics, gate = ServiceMetrics(), Gate()
    async with Optimizer({"gate": gate.wait}, limits=Limits(running=1), observers=[metrics]) as optimizer:
        jobs = [await optimizer.submit({"f": index}, pipeline="gate", options=PLAIN) for index in range(3)]
        await reached(jobs[0], "started")
        values = read(metrics)
        assert (values["apass_running"], values["apass_queue_length"], values["apass_workers"]) == (1, 2, 1)
        gate.opened.set()
        for job in jobs:
            await job.wait()
        values = read(metrics)
        assert (values["apass_running"], values["apass_queue_length"]) == (0, 0)
    # The optimizer has ended, and its status with it.
    assert "apass_running" not in read(metrics)


async def test_names_of_passes_are_bounded() -> None:
    metrics = ServiceMetrics()
    for index in range(MOST_PASSES + 5):
        metrics.on_event(new_job(), JobEvent(index + 1, "finished", 0.0, {"pass": f"P{index}", "seconds": 1.0}))
    assert read(metrics)["apass_pass_seconds_count pass=other"] == 5
