"""`ModuleDiff`: a diff of two modules that shows only the functions that changed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from apass.core.adapter import adapter_for, text_parts
from apass.util.text_diff import diff_texts, limit_lines

__all__ = ["ModuleDiff", "changes_text"]

_MOST_LINES: Final = 60
"""Maximum number of lines of a diff in a message."""


@dataclass(frozen=True, slots=True)
class ModuleDiff:
    """The texts of the parts of two modules that may differ.

    A text of a whole module may number values over all functions. Every function after a changed one would then seem
    to have changed. So each function is compared by itself. For example, `%7` of MLIR's text becomes `%6` in every
    function after the one that lost an operation.
    """

    pairs: Mapping[str | None, tuple[str, str]]
    """The texts before and after, by the name of the function. The key None is the text outside of functions."""

    @classmethod
    def of(cls, before: Any, after: Any, selects: Callable[[str], bool] | None = None) -> "ModuleDiff":
        """Return the texts of two modules.

        If `selects` is given, only the functions whose names it accepts are compared.
        """
        old, new = _functions(before), _functions(after)
        names = [name for name in {**old, **new} if selects is None or selects(name)]
        # A pass creates a new object for each function that it changes, so the same object has the same text.
        changed = [name for name in names if name not in old or name not in new or old[name] is not new[name]]
        old_outside, old_texts = text_parts(adapter_for(before), before, [name for name in changed if name in old])
        new_outside, new_texts = text_parts(adapter_for(after), after, [name for name in changed if name in new])
        pairs: dict[str | None, tuple[str, str]] = {} if selects else {None: (old_outside, new_outside)}
        return cls(pairs | {name: (old_texts.get(name, ""), new_texts.get(name, "")) for name in changed})

    @property
    def size(self) -> int:
        """The number of characters to compare."""
        return sum(len(before) + len(after) for before, after in self.pairs.values())

    def text(self, *, context: int = 3, limit: int | None = None) -> str:
        """Return a unified diff, or "" if the texts are equal.

        The line numbers of a function count from its first line, and its name follows them.

        Parameters:
            context: the number of unchanged lines around each change.
            limit: the maximum number of lines. If the diff is longer, a last line gives the number left out.

        """
        hunks = (diff_texts(*pair, context=context, heading=name or "") for name, pair in self.pairs.items())
        return limit_lines("\n".join(filter(None, hunks)), limit)


def _functions(mod: Any) -> dict[str, Any]:
    return dict(adapter_for(mod).functions(mod))


def changes_text(before: Any, after: Any) -> str:
    """Return the changes as the end of a message, or nothing if the texts are equal."""
    try:
        diff = ModuleDiff.of(before, after).text(limit=_MOST_LINES)
    except Exception as error:
        # The text is the end of an error message: a fault of an adapter must not replace that error.
        return f"\nthe changes cannot be shown: {type(error).__name__}: {error}"
    return f"\nchanges:\n{diff}" if diff else ""
