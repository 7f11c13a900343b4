"""Executors: run bodies, functions and passes outside the event loop's thread."""

from typing import TYPE_CHECKING

from apass.util.lazy_names import lazy_names

if TYPE_CHECKING:
    from apass.core.executor import Executor, check_cancelled, send_message
    from apass.executors.processes import ProcessExecutor
    from apass.executors.threads import ThreadExecutor
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "apass.core.executor": ["Executor", "check_cancelled", "send_message"],
            "apass.executors.processes": ["ProcessExecutor"],
            "apass.executors.threads": ["ThreadExecutor"],
        },
    )

__all__ = ["Executor", "ProcessExecutor", "ThreadExecutor", "check_cancelled", "send_message"]
