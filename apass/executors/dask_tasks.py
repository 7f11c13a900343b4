"""What `DaskExecutor` runs in the workers and the scheduler of a Dask cluster."""

import sys
from contextlib import suppress
from typing import Any, Final

from apass.errors import ExecutorError, MissingExtraError
from apass.executors.watchdog import ItemReports, send_tagged
from apass.executors.worker import handle, stop
from apass.util.version import __version__

try:
    import distributed
    from distributed.diagnostics.plugin import SchedulerPlugin
except ImportError as _error:
    raise MissingExtraError(f"a Dask cluster needs distributed ({_error}): pip install 'apass[dask]'") from _error

__all__ = ["TASK_BEGUN", "VERSIONS", "LossPlugin", "check_versions", "run_task", "stop_run"]

_dask: Any = distributed

TASK_BEGUN: Final = b"task begun"
"""Message of a worker: a task begins."""

REPORT_SECONDS: Final = 5.0
"""Seconds to wait until the scheduler has a worker's report."""

PROFILER_HANGS: Final = sys.version_info < (3, 11, 9)
"""Whether Dask's profiler may stop a process forever.

It calls `sys._current_frames` a hundred times a second, which may deadlock with a thread that starts (CPython's issue
106883). The work of `apass serve` starts threads.
"""

VERSIONS: Final = {"apass": __version__, "Python": f"{sys.version_info.major}.{sys.version_info.minor}"}
"""The versions that the program, the scheduler and the workers must have in common: they exchange pickles."""


def run_task(request: bytes, message: bytes, topic: str, key: str, versions: dict[str, str]) -> bytes:
    """Handle a request in a worker, and report its beginning and its items.

    Parameters:
        request: the request.
        message: the serialized work.
        topic: the topic of the reports.
        key: the key of the task.
        versions: the `VERSIONS` of the program.

    Raises:
        ExecutorError: if the versions of the worker are others.

    """
    worker = _dask.get_worker()
    check_versions(versions, f"the Dask worker {worker.address}", VERSIONS)
    if PROFILER_HANGS and "profile" in worker.periodic_callbacks:
        worker.loop.add_callback(worker.periodic_callbacks["profile"].stop)

    def send(report: bytes, seconds: float | None = REPORT_SECONDS) -> None:
        # `worker.log_event` sends later, and a body that stops the process at once would not be reported as begun.
        _dask.utils.sync(
            worker.loop, worker.scheduler.log_event, topic=topic, msg=(key, report), callback_timeout=seconds
        )

    def report(data: bytes) -> None:
        # Without the report, the item has no limit, which is better than its failure.
        with suppress(OSError, TimeoutError):
            send(data)

    # Without this one, the scheduler would not know whose fault the death of the worker is.
    send(TASK_BEGUN, None)
    return handle(request, message, lambda decoded: ItemReports(decoded, report).item, send_tagged(report))


async def stop_run(key: str) -> None:
    """Call `stop` in the event loop of a worker.

    `Client.run` supports `wait=False` for async functions only.
    """
    stop(key)


def check_versions(wanted: dict[str, str], where: str, found: dict[str, str]) -> None:
    """Raise ExecutorError unless versions are those of the program.

    Parameters:
        wanted: the `VERSIONS` of the program.
        where: the process that has the others, for the message.
        found: its versions.

    """
    for name, version in wanted.items():
        other = found.get(name)
        if other != version:
            has = f"has no {name}" if other is None else f"has {name} {other}"
            raise ExecutorError(
                f"{where} {has}, and this program has {name} {version}; install the same versions of apass and Python "
                "in the program, the scheduler and the workers"
            )


class LossPlugin(SchedulerPlugin):
    """A plugin of the scheduler: a task of apass that has begun ends with its worker.

    Dask would run it in `allowed-failures` other workers, each of which it may end, below the attempts that apass
    counts. A task that has not begun goes to another worker, as usual. Tasks of other programs are not affected.
    """

    name: str = "apass"
    idempotent: bool = True

    async def start(self, scheduler: Any) -> None:
        """Keep the scheduler."""
        self._scheduler = scheduler

    def log_event(self, topic: str, msg: Any) -> None:
        """Note that a task has begun."""
        if topic.startswith("Client-") and list(msg)[1:] == [TASK_BEGUN]:
            task = self._scheduler.tasks.get(msg[0])
            if task is not None:
                # The next loss exceeds `allowed-failures`.
                task.suspicious = self._scheduler.allowed_failures
