"""`PassInfo`, the metadata of a pass; and `AnyPass`, the interface of a pass."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from apass.errors import PassDefinitionError

__all__ = ["AnyPass", "PassInfo"]


@dataclass(frozen=True, slots=True)
class PassInfo:
    """The metadata of a pass. Source: TVM's `transform::PassInfo`.

    >>> PassInfo(opt_level=2, name="FoldConstant", required=["InferType"])
    PassInfo(opt_level=2, name='FoldConstant', required=('InferType',))
    """

    opt_level: int
    """The lowest `PassContext.opt_level` at which a Sequential runs the pass."""

    name: str
    """The name that instruments, pipelines and `disabled_pass` use; CamelCase by convention."""

    required: tuple[str, ...] = ()
    """Names of registered passes that a Sequential runs before this one, in order."""

    def __init__(self, opt_level: int, name: str, required: Iterable[str] | None = ()) -> None:
        """Check and set the fields.

        Raises:
            PassDefinitionError: if a field has the wrong type.

        """
        # A string is iterable: `required="Fold"` would require passes named F, o, l and d.
        if isinstance(required, str):
            raise PassDefinitionError(f"required of pass {name!r} is the string {required!r}; give a list of names")
        _check(required is None or isinstance(required, Iterable), f"required of pass {name!r}", required, "a list")
        names = tuple(required or ())
        _check(isinstance(opt_level, int), f"opt_level of pass {name!r}", opt_level, "an int")
        _check(isinstance(name, str) and bool(name), "the name of a pass", name, "a string that is not empty")
        _check(all(isinstance(item, str) for item in names), f"required of pass {name!r}", names, "a list of names")
        # The dataclass is frozen, so `__init__` cannot assign. `int` turns True into 1.
        object.__setattr__(self, "opt_level", int(opt_level))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "required", names)


class AnyPass(Protocol):
    """A pass, as contexts and runs know it.

    It is a Protocol, because they lie below the class `Pass`.
    """

    info: PassInfo
    """The metadata."""

    @property
    def all_names(self) -> tuple[str, ...]:
        """The names by which a context and instruments select the pass."""
        ...

    def open(self, ctx: Any) -> Any:
        """Return the async context manager of what the pass needs during a run."""
        ...


def _check(condition: bool, subject: str, value: object, expected: str) -> None:
    if not condition:
        raise PassDefinitionError(f"{subject} must be {expected}, got {value!r}")
