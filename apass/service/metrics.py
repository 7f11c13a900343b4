"""`ServiceMetrics`: what an optimizer does, as Prometheus metrics."""

from collections.abc import Iterator
from time import perf_counter
from typing import Final

import anyio

from apass.errors import MissingExtraError
from apass.service.jobs import ENDED, JobEvent, JobRecord, JobState
from apass.service.optimizer import Optimizer

try:
    from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
    from prometheus_client.core import GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError as _error:
    raise MissingExtraError(f"the metrics need prometheus-client ({_error}): pip install 'apass[serve]'") from _error

__all__ = ["ServiceMetrics"]

JOB_BUCKETS: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1800, 7200)
"""Boundaries of the durations of jobs, in seconds."""
PASS_BUCKETS: Final = (0.0001, 0.001, 0.01, 0.1, 1, 10, 100, 1000)
"""Boundaries of the durations of passes, in seconds."""
LAG_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5)
"""Boundaries of the delays of the event loop, in seconds."""
LAG_SECONDS: Final = 0.1
"""Seconds between two measurements of the delay."""
MOST_PASSES: Final = 500
"""Names of passes with metrics of their own. Texts of pipelines may name more; these share the name `other`."""


class ServiceMetrics:
    """Counts the jobs of one optimizer, for Prometheus.

    Use it as an observer: `Optimizer(..., observers=[ServiceMetrics()])`. `create_app` then serves it at `/metrics`.
    The metrics are:

    - `apass_jobs_accepted_total`, and `apass_jobs_ended_total` by `state`; `apass_jobs_reused_total` and
      `apass_jobs_restarted_total` for attempts after the first;
    - `apass_job_seconds` from acceptance to end, and `apass_job_wait_seconds` from acceptance to the first attempt;
    - `apass_pass_seconds` and `apass_pass_failures_total` by `pass`; `apass_cache_hits_total` by `pass`;
    - `apass_queue_length`, `apass_queue_age_seconds`, `apass_running`, `apass_workers`, `apass_accepts_jobs` and
      `apass_store_up`, read at each scrape;
    - `apass_loop_lag_seconds`, how late the event loop resumes a task;
    - the memory, the CPU time and the open files of the process, named by prometheus-client.
    """

    def __init__(self) -> None:
        self.registry: Final = CollectorRegistry()
        """The registry, to which an application may add metrics of its own."""
        registry = self.registry
        ProcessCollector(registry=registry)
        self._accepted = Counter("apass_jobs_accepted", "Jobs that were accepted.", registry=registry)
        self._ended = Counter("apass_jobs_ended", "Jobs that have ended.", ["state"], registry=registry)
        self._reused = Counter("apass_jobs_reused", "Jobs that got an earlier result.", registry=registry)
        self._restarted = Counter("apass_jobs_restarted", "Attempts after the first one.", registry=registry)
        self._seconds = Histogram(
            "apass_job_seconds", "From acceptance to end.", buckets=JOB_BUCKETS, registry=registry
        )
        self._waits = Histogram(
            "apass_job_wait_seconds", "From acceptance to the first attempt.", buckets=JOB_BUCKETS, registry=registry
        )
        self._passes = Histogram(
            "apass_pass_seconds", "Wall time of passes.", ["pass"], buckets=PASS_BUCKETS, registry=registry
        )
        self._failures = Counter("apass_pass_failures", "Passes that raised an error.", ["pass"], registry=registry)
        self._hits = Counter("apass_cache_hits", "Results of passes from the cache.", ["pass"], registry=registry)
        self._lag = Histogram(
            "apass_loop_lag_seconds", "Delay of the event loop.", buckets=LAG_BUCKETS, registry=registry
        )
        self._names: set[str] = set()

    def render(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)

    def on_event(self, record: JobRecord, event: JobEvent) -> None:
        """Count an event."""
        if event.kind == "state":
            self._count_state(record, event)
        elif event.kind == "finished" and not event.data.get("body"):
            self._passes.labels(self._name(event)).observe(event.data.get("seconds", 0.0))
        elif event.kind == "failed" and not event.data.get("body"):
            self._failures.labels(self._name(event)).inc()

    async def run(self, optimizer: Optimizer) -> None:
        """Measure the delay of the event loop, while the optimizer is open."""
        status = _Status(optimizer)
        self.registry.register(status)
        try:
            while True:
                due = perf_counter() + LAG_SECONDS
                await anyio.sleep(LAG_SECONDS)
                self._lag.observe(max(0.0, perf_counter() - due))
        finally:
            self.registry.unregister(status)

    def _count_state(self, record: JobRecord, event: JobEvent) -> None:
        if record.state is JobState.QUEUED and not record.attempts:
            self._accepted.inc()
        elif record.state is JobState.RUNNING:
            if record.attempts > 1:
                self._restarted.inc()
            else:
                self._waits.observe(max(0.0, event.time - record.created))
        elif record.state in ENDED:
            self._ended.labels(str(record.state)).inc()
            self._seconds.observe(max(0.0, event.time - record.created))
            self._reused.inc(record.reused)
            for name, count in () if record.summary is None or record.reused else record.summary.cached.items():
                self._hits.labels(self._bounded(name)).inc(count)

    def _name(self, event: JobEvent) -> str:
        return self._bounded(str(event.data.get("pass", "")))

    def _bounded(self, name: str) -> str:
        """Return the name of a pass, or `other` if there are too many."""
        if name not in self._names:
            if len(self._names) >= MOST_PASSES:
                return "other"
            self._names.add(name)
        return name


class _Status(Collector):
    """Reads the status of an optimizer at each scrape."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer

    def collect(self) -> Iterator[Metric]:
        """Iterate over the metrics."""
        status = self._optimizer.status()
        yield GaugeMetricFamily("apass_queue_length", "Computations that wait.", status.queued)
        yield GaugeMetricFamily("apass_queue_age_seconds", "Age of the oldest job that waits.", status.oldest)
        yield GaugeMetricFamily("apass_running", "Computations that run.", status.running)
        yield GaugeMetricFamily("apass_workers", "Computations that can run at once.", status.workers)
        yield GaugeMetricFamily("apass_accepts_jobs", "Whether jobs are accepted.", status.accepts)
        yield GaugeMetricFamily("apass_store_up", "Whether the store can be used.", status.error is None)
