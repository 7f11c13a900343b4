"""`OpDefinition`: setters of registered operators, and `OP_ATTRS`."""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from apass.errors import did_you_mean
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import IncompleteType, Type
from apass.relay.ir.type_keys import attrs_type_of

__all__ = ["NAMED_RELATIONS", "OP_ATTRS", "Compute", "OpDefinition", "Relation", "TypeRule"]

TypeRule: TypeAlias = Callable[[list[Type], Attrs | None], Type | None]
"""Returns the type of a call for argument types and attributes, or None if it is not known yet."""
Relation: TypeAlias = Callable[..., Sequence[Type | None] | None]
"""A type relation: `relation(types, attrs)`; see `Op.relation`."""
Compute: TypeAlias = Callable[..., Array | tuple[Array, ...]]
"""A kernel on numpy; see `Op.compute`."""

NAMED_RELATIONS: Final[dict[str, Callable[[str], Relation]]] = {}
"""Factories of type relations by relation name. Each takes an operator name. `apass.relay.op` adds them."""

OP_ATTRS: Final[dict[str, dict[str, tuple[int, object]]]] = {}
"""Attributes of operators by attribute name, then operator name. Each entry is a priority level and a value."""


class OpDefinition:
    """Base of operators. Each setter corresponds to an argument of `register_op`."""

    __slots__ = ()
    name: str
    arguments: tuple[str, ...]

    def add_type_rel(self, rel_name: str, type_rel_func: TypeRule | None = None) -> None:
        """Set the type relation.

        Parameters:
            rel_name: the name of a relation: `Identity`, `Broadcast` or `BroadcastComp`. Ignored with `type_rel_func`.
            type_rel_func: a rule that returns the type of a call.

        Raises:
            ValueError: if `type_rel_func` is None and no relation has the name.

        """
        if type_rel_func is not None:
            object.__setattr__(self, "relation", _relation_of(type_rel_func))
            return
        if rel_name not in NAMED_RELATIONS:
            hint = did_you_mean(rel_name, NAMED_RELATIONS, listing="there are: ")
            raise ValueError(f"unknown type relation {rel_name!r}{hint}")
        object.__setattr__(self, "relation", NAMED_RELATIONS[rel_name](self.name))

    def add_argument(self, name: str, type: str, description: str) -> None:  # noqa: A002 - TVM's name
        """Add an argument. `type` and `description` are ignored."""
        object.__setattr__(self, "arguments", (*self.arguments, name))

    def set_num_inputs(self, n: int) -> None:
        """Set the number of arguments of a call."""
        object.__setattr__(self, "num_inputs", n)

    def set_support_level(self, level: int) -> None:
        """Set the support level, from 1 (core operator) upwards."""
        object.__setattr__(self, "support_level", level)

    def set_attrs_type_key(self, key: str) -> None:
        """Set the class of the attributes of calls by its type key.

        `register_object` registers a class of one's own.

        Raises:
            UnknownTypeKeyError: if no class of attributes has this key. The message suggests a similar key.

        """
        object.__setattr__(self, "attrs_type", attrs_type_of(key))

    def get_attr(self, attr_name: str, default: object = None) -> object:
        """Return the value set by `set_attr`, or `default` if it was not set."""
        return OP_ATTRS.get(attr_name, {}).get(self.name, (0, default))[1]

    def has_attr(self, attr_name: str) -> bool:
        """Return whether `set_attr` set the attribute."""
        return self.name in OP_ATTRS.get(attr_name, {})

    def set_attr(self, attr_name: str, value: object, plevel: int = 10) -> None:
        """Set an attribute that passes read, such as `TOpPattern`.

        If the attribute was set at a higher priority level `plevel`, it does not change.
        """
        values = OP_ATTRS.setdefault(attr_name, {})
        if self.name not in values or plevel >= values[self.name][0]:
            values[self.name] = (plevel, value)

    def reset_attr(self, attr_name: str) -> None:
        """Remove an attribute set by `set_attr`."""
        OP_ATTRS.get(attr_name, {}).pop(self.name, None)


def _relation_of(rule: TypeRule) -> Relation:
    def relation(types: Sequence[Type], attrs: Attrs | None) -> Sequence[Type | None] | None:
        *args, _ = types
        if any(isinstance(arg, IncompleteType) for arg in args):
            return None
        result = rule(args, attrs)
        return None if result is None else [*(None for _ in args), result]

    return relation
