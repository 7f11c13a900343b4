"""Tools that find the cause of a failure: `bisect`, `reduce` and `replay`."""

from typing import TYPE_CHECKING

from apass.util.lazy_names import lazy_names

if TYPE_CHECKING:
    from apass.concurrency.interleaving import Schedule
    from apass.debugging.bisect import Bisected
    from apass.debugging.reduction import Reduced
    from apass.debugging.replay import Replay, Verdict
    from apass.debugging.run_diff.diff import RunDiff
    from apass.debugging.run_diff.reading import read_run
    from apass.debugging.run_diff.recorded_run import RecordedRun
    from apass.debugging.stress import Stressed
    from apass.instruments.reproducer.folder import ContextSettings, Failure, Reproducer
    from apass.pipelines.cache_explanation import CacheExplanation, CacheState
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "apass.concurrency.interleaving": ["Schedule"],
            "apass.debugging.bisect": ["Bisected"],
            "apass.debugging.reduction": ["Reduced"],
            "apass.debugging.replay": ["Replay", "Verdict"],
            "apass.debugging.run_diff.diff": ["RunDiff"],
            "apass.debugging.run_diff.reading": ["read_run"],
            "apass.debugging.run_diff.recorded_run": ["RecordedRun"],
            "apass.debugging.stress": ["Stressed"],
            "apass.instruments.reproducer.folder": ["ContextSettings", "Failure", "Reproducer"],
            "apass.pipelines.cache_explanation": ["CacheExplanation", "CacheState"],
        },
    )

__all__ = [
    "Bisected",
    "CacheExplanation",
    "CacheState",
    "ContextSettings",
    "Failure",
    "RecordedRun",
    "Reduced",
    "Replay",
    "Reproducer",
    "RunDiff",
    "Schedule",
    "Stressed",
    "Verdict",
    "read_run",
]
