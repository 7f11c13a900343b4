"""Executors: where plain bodies, functions and whole passes run when not in the event loop's thread."""

from apass.core.executor import Executor, check_cancelled
from apass.executors.processes import ProcessExecutor
from apass.executors.threads import ThreadExecutor

__all__ = ["Executor", "ProcessExecutor", "ThreadExecutor", "check_cancelled"]
