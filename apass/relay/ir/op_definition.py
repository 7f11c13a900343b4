"""`OpDefinition`: what an operator that was registered by its name is told afterwards, and `OP_ATTRS`."""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from apass.errors import did_you_mean
from apass.relay.ir.attrs import Attrs, DictAttrs
from apass.relay.ir.ndarray import Array
from apass.relay.ty import IncompleteType, Type

__all__ = ["NAMED_RELATIONS", "OP_ATTRS", "Compute", "OpDefinition", "Relation", "TypeRule"]

TypeRule: TypeAlias = Callable[[list[Type], Attrs | None], Type | None]
"""Returns the type of a call from those of its arguments and its attributes; None if it cannot be told yet."""
Relation: TypeAlias = Callable[..., Sequence[Type | None] | None]
"""A type relation: `relation(types, attrs)`; see `Op.relation`."""
Compute: TypeAlias = Callable[..., Array | tuple[Array, ...]]
"""A kernel on numpy; see `Op.compute`."""

NAMED_RELATIONS: Final[dict[str, Callable[[str], Relation]]] = {}
"""What makes a relation of an operator's name, by the name of the relation; `apass.relay.op` fills it."""

OP_ATTRS: Final[dict[str, dict[str, tuple[int, object]]]] = {}
"""The attributes of operators by attribute name, then operator name: the level they were set at, and the value."""


class OpDefinition:
    """The base of operators: each method sets what `register_op` takes as an argument."""

    __slots__ = ()
    name: str
    arguments: tuple[str, ...]

    def add_type_rel(self, rel_name: str, type_rel_func: TypeRule | None = None) -> None:
        """Set what tells the type of a call: a rule, or by name `Identity`, `Broadcast` or `BroadcastComp`.

        Raises:
            ValueError: if there is no rule, and no relation of the name.

        """
        if type_rel_func is not None:
            object.__setattr__(self, "relation", _of_rule(type_rel_func))
            return
        if rel_name not in NAMED_RELATIONS:
            hint = did_you_mean(rel_name, NAMED_RELATIONS, listing="there are: ")
            raise ValueError(f"there is no type relation named {rel_name!r}{hint}")
        object.__setattr__(self, "relation", NAMED_RELATIONS[rel_name](self.name))

    def add_argument(self, name: str, type: str, description: str) -> None:  # noqa: A002 - TVM's name
        """Add an argument; only its name is kept."""
        object.__setattr__(self, "arguments", (*self.arguments, name))

    def set_num_inputs(self, n: int) -> None:
        """Set how many arguments a call has."""
        object.__setattr__(self, "num_inputs", n)

    def set_support_level(self, level: int) -> None:
        """Set how central the operator is, 1 the most."""
        object.__setattr__(self, "support_level", level)

    def set_attrs_type_key(self, key: str) -> None:
        """Set the class of the attributes of calls: only `DictAttrs` can be named here; `register_op` takes any.

        Raises:
            ValueError: if it is another one.

        """
        if key != "DictAttrs":
            raise ValueError(f"only DictAttrs can be set by its key, not {key!r}; give the class to register_op")
        object.__setattr__(self, "attrs_type", DictAttrs)

    def get_attr(self, attr_name: str, default: object = None) -> object:
        """Return what `set_attr` set, `default` if nothing was."""
        return OP_ATTRS.get(attr_name, {}).get(self.name, (0, default))[1]

    def has_attr(self, attr_name: str) -> bool:
        """Tell whether `set_attr` set it."""
        return self.name in OP_ATTRS.get(attr_name, {})

    def set_attr(self, attr_name: str, value: object, plevel: int = 10) -> None:
        """Set something that passes go by, such as `TOpPattern`; unless it was set at a higher level."""
        known = OP_ATTRS.setdefault(attr_name, {})
        if self.name not in known or plevel >= known[self.name][0]:
            known[self.name] = (plevel, value)

    def reset_attr(self, attr_name: str) -> None:
        """Forget what `set_attr` set."""
        OP_ATTRS.get(attr_name, {}).pop(self.name, None)


def _of_rule(rule: TypeRule) -> Relation:
    def relation(types: Sequence[Type], attrs: Attrs | None) -> Sequence[Type | None] | None:
        *args, _ = types
        if any(isinstance(one, IncompleteType) for one in args):
            return None
        result = rule(args, attrs)
        return None if result is None else [*(None for _ in args), result]

    return relation
