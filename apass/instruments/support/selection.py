"""`Selection`: which passes, modules and functions an instrument is to show."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Self

from apass.core.adapter import adapter_for
from apass.core.info import PassInfo
from apass.core.run import current_module_name

__all__ = ["Selection"]

Patterns = frozenset[str] | None
"""Names, in which `*`, `?` and `[...]` stand for others; None is all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What to show."""

    passes: Patterns = None
    """Names of passes."""
    modules: Patterns = None
    """Names of modules, as `optimize_all` and its like give them."""
    functions: Patterns = None
    """Names of functions: of a module only these are shown."""

    @classmethod
    def of(
        cls,
        passes: Iterable[str] | None,
        modules: Iterable[str] | None,
        functions: Iterable[str] | None,
        *,
        parameter: str = "names",
    ) -> Self:
        """Check what a user gave.

        Raises:
            TypeError: if one is a string or holds something else than strings; `parameter` names the first one.

        """
        return cls(
            passes=_patterns(parameter, "pass", passes),
            modules=_patterns("modules", "module", modules),
            functions=_patterns("functions", "function", functions),
        )

    def covers(self, info: PassInfo) -> bool:
        """Tell whether a pass is to be shown for the module at work."""
        return _matches(self.passes, info.name) and (
            self.modules is None or _matches(self.modules, current_module_name() or "")
        )

    def text(self, mod: Any) -> str:
        """Return the text of a module, or of the functions in it that are to be shown."""
        adapter = adapter_for(mod)
        if self.functions is None:
            return adapter.to_text(mod)
        chosen = [(name, func) for name, func in adapter.functions(mod) if _matches(self.functions, name)]
        return "\n\n".join(f"{name}:\n{adapter.to_text(func)}" for name, func in chosen)


def _matches(patterns: Patterns, name: str) -> bool:
    return patterns is None or name in patterns or any(fnmatchcase(name, one) for one in patterns)


def _patterns(parameter: str, kind: str, names: Iterable[str] | None) -> Patterns:
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"{parameter} must be a list or set of {kind} names, not {names!r}")
    given = frozenset(names)
    for name in given:
        if not isinstance(name, str):
            article = "passes" if kind == "pass" else f"{kind}s"
            raise TypeError(f"{parameter} must hold names of {article}, not {name!r}")
    return given
