"""Executors: run bodies, functions and passes outside the event loop's thread."""

from apass.core.executor import Executor, check_cancelled
from apass.executors.processes import ProcessExecutor
from apass.executors.threads import ThreadExecutor

__all__ = ["Executor", "ProcessExecutor", "ThreadExecutor", "check_cancelled"]
