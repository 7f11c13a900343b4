"""Search for the best pipeline of a space, measured."""

from typing import TYPE_CHECKING

from apass.util.lazy_names import lazy_names

if TYPE_CHECKING:
    from apass.search.builders import one_of, steps, with_choices
    from apass.search.learning import learn_pipelines
    from apass.search.objective import Attempt, Candidate
    from apass.search.options import Budget
    from apass.search.result import ModuleResult, SearchResult
    from apass.search.session import Search, search
    from apass.search.space import Space
    from apass.search.strategies.strategy import Strategy, StrategySetup
    from apass.search.trial import Trial
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "apass.search.builders": ["one_of", "steps", "with_choices"],
            "apass.search.learning": ["learn_pipelines"],
            "apass.search.objective": ["Attempt", "Candidate"],
            "apass.search.result": ["ModuleResult", "SearchResult"],
            "apass.search.options": ["Budget"],
            "apass.search.session": ["Search", "search"],
            "apass.search.space": ["Space"],
            "apass.search.strategies.strategy": ["Strategy", "StrategySetup"],
            "apass.search.trial": ["Trial"],
        },
    )

__all__ = [
    "Attempt",
    "Budget",
    "Candidate",
    "ModuleResult",
    "Search",
    "SearchResult",
    "Space",
    "Strategy",
    "StrategySetup",
    "Trial",
    "learn_pipelines",
    "one_of",
    "search",
    "steps",
    "with_choices",
]
