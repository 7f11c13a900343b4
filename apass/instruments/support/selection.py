"""`Selection`: the passes, modules and functions that an instrument shows."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Self

from apass.core.adapter import adapter_for
from apass.core.pass_info import PassInfo
from apass.core.run import current_module_name, current_run

__all__ = ["Selection"]

Patterns = frozenset[str] | None
"""Names or patterns with `*`, `?` and `[...]`; None selects everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The passes, modules and functions to show."""

    passes: Patterns = None
    """Names of passes."""
    modules: Patterns = None
    """Names of modules, as passed to `optimize_all` and similar functions."""
    functions: Patterns = None
    """Names of functions. If given, only these functions of a module are shown."""

    @classmethod
    def of(
        cls,
        passes: Iterable[str] | None,
        modules: Iterable[str] | None,
        functions: Iterable[str] | None,
        *,
        parameter: str = "names",
    ) -> Self:
        """Return a selection after validating the arguments.

        Raises:
            TypeError: if an argument is a string, or contains an item that is no string. The message refers to
                `passes` by the name in `parameter`.

        """
        return cls(
            passes=_patterns(parameter, "pass", passes),
            modules=_patterns("modules", "module", modules),
            functions=_patterns("functions", "function", functions),
        )

    def covers(self, info: PassInfo) -> bool:
        """Return whether a pass is to be shown for the current module."""
        run = current_run()
        pass_ = None if run is None or run.info is not info else run.pass_
        names = (info.name,) if pass_ is None else pass_.all_names
        return any(_matches(self.passes, name) for name in names) and (
            self.modules is None or _matches(self.modules, current_module_name() or "")
        )

    def includes(self, name: str) -> bool:
        """Return whether a function is to be shown."""
        return _matches(self.functions, name)

    def text(self, mod: Any) -> str:
        """Return the text of a module, or of the selected functions in it."""
        adapter = adapter_for(mod)
        if self.functions is None:
            return adapter.to_text(mod)
        selected = [(name, func) for name, func in adapter.functions(mod) if self.includes(name)]
        return "\n\n".join(f"{name}:\n{adapter.to_text(func)}" for name, func in selected)


def _matches(patterns: Patterns, name: str) -> bool:
    return patterns is None or name in patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _patterns(parameter: str, kind: str, names: Iterable[str] | None) -> Patterns:
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"{parameter} must be a list or set of {kind} names, got {names!r}")
    patterns = frozenset(names)
    for name in patterns:
        if not isinstance(name, str):
            kinds = "passes" if kind == "pass" else f"{kind}s"
            raise TypeError(f"{parameter} must contain names of {kinds}, got {name!r}")
    return patterns
