"""`TypeBuilder`: grammar actions for types, and base of the other builders."""

from collections.abc import Callable, Mapping
from typing import Final
from typing import TypeVar as PythonTypeVar

from apass.errors import did_you_mean
from apass.relay.ir.ty import (
    Any,
    Dim,
    DimExpr,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    ShapeVar,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)
from apass.relay.ir.type_keys import frozen
from apass.relay.text.limits import TextLimits
from apass.relay.text.literals import DTYPES, LiteralError, integer_of, whole_of
from apass.relay.text.metadata import MetaTable
from apass.relay.text.parsing.source import Source, TextError

__all__ = ["TypeBuilder"]

T = PythonTypeVar("T")

_ANY: Final = Any()


class TypeBuilder:
    """Builder of types. A public method is the action of the rule of its name.

    Parameters of an action:

    - `picked`: the value of the only meaningful symbol of the rule, or a tuple of the values of several;
    - `start` and `end`: the offsets of the text that matches the rule.

    An action raises TextError if the text has no meaning.
    """

    def __init__(self, source: Source, meta: MetaTable, types: Mapping[str, GlobalTypeVar], limits: TextLimits) -> None:
        self._source = source
        self._limits = limits
        self._meta = meta
        self._global_types = dict(types)
        self._mentions: dict[str, tuple[int, int]] = {}  # the first use of each data type without a definition
        self._type_vars: dict[str, TypeVar] = {}
        self._hidden_type_vars: list[TypeVar | None] = []
        self._tensor_types: dict[str, TensorType] = {}  # by the text

    # Sequences, and rules with one meaningful symbol.

    def first(self, picked: object, start: int, end: int) -> list[object]:
        """Start a list."""
        return [picked]

    def next(self, picked: tuple[list[object], object], start: int, end: int) -> list[object]:
        """Append to a list."""
        items, item = picked
        items.append(item)
        return items

    def empty(self, picked: object, start: int, end: int) -> list[object]:
        """Return an empty list."""
        return []

    def same(self, picked: object, start: int, end: int) -> object:
        """Return the value of the only symbol."""
        return picked

    def nothing(self, picked: object, start: int, end: int) -> None:
        """Return None."""

    # References to the metadata.

    def meta_object(self, picked: str, start: int, end: int) -> object:
        """Look up the object of `meta[type_key][index]`."""
        key, _, index = picked.removeprefix("meta").replace(" ", "").strip("[]").partition("][")
        if key not in self._meta:
            hint = did_you_mean(key, self._meta, listing="it has: ") or "; it is empty"
            raise TextError(f"the metadata has no entry `{key}`{hint}", start, end)
        number = self._literal(whole_of, index, start, end)
        if number >= len(self._meta[key]):
            message = f"index {index} of `{key}` is out of range; the metadata has {len(self._meta[key])}"
            raise TextError(message, start, end)
        return frozen(self._meta[key][number])

    def meta_type(self, picked: str, start: int, end: int) -> Type:
        """Look up a type in the metadata."""
        value = self.meta_object(picked, start, end)
        if not isinstance(value, Type):
            raise TextError(f"`{picked}` must be a type, got {value!r}", start, end)
        return value

    def meta_dim(self, picked: str, start: int, end: int) -> Dim:
        """Look up a dimension in the metadata."""
        value = self.meta_object(picked, start, end)
        if not isinstance(value, int | Any | ShapeVar | DimExpr):
            raise TextError(f"`{picked}` must be a dimension, got {value!r}", start, end)
        return value

    # Type parameters.

    def type_param(self, picked: str, start: int, end: int) -> TypeVar:
        """Bind a type parameter until `_release` is called."""
        if len(self._hidden_type_vars) >= self._limits.type_params:
            message = f"there are more than {self._limits.type_params} type parameters in scope"
            raise TextError(message, start, end, "the limit is TextLimits.type_params")
        var = TypeVar(picked)
        self._hidden_type_vars.append(self._type_vars.get(picked))
        self._type_vars[picked] = var
        return var

    def _release(self, params: list[TypeVar]) -> None:
        """Close the scope of the type parameters that were bound last."""
        for param in reversed(params):
            hidden = self._hidden_type_vars.pop()
            if hidden is None:
                self._type_vars.pop(param.name_hint, None)
            else:
                self._type_vars[param.name_hint] = hidden

    def _check_params(self, params: list[TypeVar], start: int, end: int) -> None:
        names = set[str]()
        for param in params:
            if param.name_hint in names:
                raise TextError(f"duplicate type parameter `{param.name_hint}`", start, end)
            names.add(param.name_hint)

    # Types.

    def named_type(self, picked: str, start: int, end: int) -> Type:
        """Return a type parameter, a scalar type, or a data type without arguments."""
        if picked in self._type_vars:
            return self._type_vars[picked]
        if picked not in self._tensor_types:
            if not DTYPES.fullmatch(picked):
                return TypeCall(self._data_type(picked, start, start + len(picked)), ())
            self._tensor_types[picked] = TensorType((), picked)
        return self._tensor_types[picked]

    def type_call(self, picked: tuple[str, list[Type]], start: int, end: int) -> TypeCall:
        """Return a data type applied to arguments."""
        name, args = picked
        head = self._type_vars.get(name) or self._data_type(name, start, start + len(name))
        return TypeCall(head, args)

    def _data_type(self, name: str, start: int, end: int) -> GlobalTypeVar:
        if name not in self._global_types:
            self._mentions.setdefault(name, (start, end))
            self._global_types[name] = GlobalTypeVar(name)
        return self._global_types[name]

    def known_tensor_type(self, picked: str, start: int, end: int) -> TensorType:
        """Return a tensor type with constant dimensions, in the printer's spacing."""
        if picked not in self._tensor_types:
            dims, _, dtype = picked.removeprefix("Tensor[(").removesuffix("]").partition("), ")
            shape: list[Dim] = [self.dim(dim, start, end) for dim in dims.split(", ")]
            self._tensor_types[picked] = self.tensor_type((shape, dtype), start, end)
        return self._tensor_types[picked]

    def tensor_type(self, picked: tuple[list[Dim], str], start: int, end: int) -> TensorType:
        """Return a tensor type."""
        shape, dtype = picked
        if not DTYPES.fullmatch(dtype):
            dtypes = ("bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8")
            offset = self._source.text.rindex(dtype, start, end)
            raise TextError(
                f"`{dtype}` is not an element type{did_you_mean(dtype, dtypes)}", offset, offset + len(dtype)
            )
        return TensorType(shape, dtype)

    def dim(self, picked: str, start: int, end: int) -> int:
        """Return a constant dimension."""
        size = self._literal(integer_of, picked, start, end)
        if not 0 <= size < 2**63:
            raise TextError(
                f"`{picked}` is not a dimension", start, end, "a dimension is an integer from 0 to 2**63 - 1"
            )
        return size

    def _literal(self, read: Callable[[str], T], text: str, start: int, end: int) -> T:
        """Return the value of a literal. Raise TextError if it has none."""
        try:
            return read(text)
        except LiteralError as error:
            raise TextError(str(error), start, end) from None

    def unknown_dim(self, picked: object, start: int, end: int) -> Any:
        """Return the unknown dimension."""
        return _ANY

    def unit_type(self, picked: object, start: int, end: int) -> TupleType:
        """Return the type of the empty tuple."""
        return TupleType(())

    def tuple_type_of_one(self, picked: Type, start: int, end: int) -> TupleType:
        """Return the type of a tuple with one field."""
        return TupleType((picked,))

    def tuple_type(self, picked: tuple[Type, list[Type]], start: int, end: int) -> TupleType:
        """Return the type of a tuple with two or more fields."""
        first, others = picked
        return TupleType((first, *others))

    def function_type_of_none(self, picked: Type, start: int, end: int) -> FuncType:
        """Return the type of a function without parameters."""
        return FuncType((), picked)

    def function_type(self, picked: tuple[list[Type], Type], start: int, end: int) -> FuncType:
        """Return the type of a function."""
        args, result = picked
        return FuncType(args, result)

    def generic_function_type_of_none(self, picked: tuple[list[TypeVar], Type], start: int, end: int) -> FuncType:
        """Return the type of a function with type parameters and without parameters."""
        params, result = picked
        return self.generic_function_type((params, [], result), start, end)

    def generic_function_type(self, picked: tuple[list[TypeVar], list[Type], Type], start: int, end: int) -> FuncType:
        """Return the type of a function with type parameters."""
        params, args, result = picked
        self._check_params(params, start, end)
        self._release(params)
        return FuncType(args, result, params)

    def ref_type(self, picked: Type, start: int, end: int) -> RefType:
        """Return the type of a reference."""
        return RefType(picked)

    def incomplete_type(self, picked: object, start: int, end: int) -> IncompleteType:
        """Return an unknown type, to be inferred."""
        return IncompleteType()
