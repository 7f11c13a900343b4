"""Concurrent optimization of many modules, with journals to resume a run."""

from typing import TYPE_CHECKING

from apass.util.lazy_names import lazy_names

if TYPE_CHECKING:
    from apass.batch.journal import Journal
    from apass.batch.stream import Outcome, OutcomeStream
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "apass.batch.journal": ["Journal"],
            "apass.batch.stream": ["Outcome", "OutcomeStream"],
        },
    )

__all__ = [
    "Journal",
    "Outcome",
    "OutcomeStream",
]
