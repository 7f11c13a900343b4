"""`Combinator`, the base class of passes that contain passes."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from apass.core.adapter import ModT
from apass.core.pass_info import PassInfo
from apass.errors import PassDefinitionError
from apass.passes.base import Pass, not_a_pass
from apass.passes.order import check_order

__all__ = ["Combinator", "check_passes"]


class Combinator(Pass[ModT]):
    """A pass that contains passes and runs them by the rules of a Sequential.

    The rules concern levels, `disabled_pass` and requirements.
    """

    def __init__(
        self,
        passes: Sequence[Pass[ModT]],
        options: Mapping[str, object],
        opt_level: int,
        name: str,
        required: Sequence[str] | None,
    ) -> None:
        kind = type(self).__name__
        self.passes: tuple[Pass[ModT], ...] = check_passes(kind, passes)
        """The passes, in order."""
        if not self.passes:
            raise PassDefinitionError(f"{kind} takes at least one pass")
        self.info: PassInfo = PassInfo(opt_level, name, required)
        self.has_setup: bool = any(pass_.has_setup for branch in self.branches() for pass_ in branch)
        check_order(self)
        values = {**options, "opt_level": opt_level, "name": name, "required": list(self.info.required)}
        defaults: dict[str, object] = {"opt_level": 0, "name": kind, "required": []}
        # Without default values, so that an explicit default makes no difference to `==`, and `str()` is short.
        non_default = {key: value for key, value in values.items() if key not in defaults or value != defaults[key]}
        self.spec: tuple[str, Mapping[str, object]] | None = (kind, non_default)

    def children(self) -> tuple[Pass[ModT], ...]:
        """Return the passes."""
        return self.passes

    def __block__(self) -> object:
        # The blocks take long to import, and most programs show no pass.
        from apass.passes.tree import pass_tree

        return pass_tree(self, combines=True)

    def branches(self) -> Sequence[Sequence[Pass[ModT]]]:
        """Return the passes as the only branch."""
        return (self.passes,)


def check_passes(owner: str, passes: object) -> tuple[Pass[Any], ...]:
    """Return `passes` as a tuple.

    Parameters:
        owner: the name of the caller, for messages.
        passes: a list or tuple of passes.

    Raises:
        TypeError: if `passes` is anything else.

    """
    if not isinstance(passes, list | tuple):
        raise not_a_pass(f"{owner} takes a list of passes", passes)
    for pass_ in cast("Sequence[object]", passes):
        if not isinstance(pass_, Pass):
            raise not_a_pass(f"{owner} takes passes", pass_)
    return tuple(cast("Sequence[Pass[Any]]", passes))
