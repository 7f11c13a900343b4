"""The schemas of attributes of operators.

The form of a field follows from its annotation, which corresponds to a type of C++: `int`, `bool`, `float` and `str` to
the types of the same names, `Integer` and everything else to a node. The tables below contain the exceptions.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from dataclasses import Field as DataclassField
from functools import partial
from operator import attrgetter
from typing import Any as Anything
from typing import Final, cast, get_origin, get_type_hints

import numpy as np

from apass.relay.errors import SerializationError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Constant, Expr
from apass.relay.ir.field_types import check_of, title_of
from apass.relay.ir.immediates import Integer
from apass.relay.ir.type_keys import attrs_key, attrs_type_of
from apass.relay.text.serialization.schemas import Field, Form, Schema

__all__ = ["schema_of_attrs", "schema_of_attrs_key"]

_FLAG_NODES: Final = ("ScanopAttrs.exclusive",)
"""Fields with the type `Bool` of C++, which is a node."""

_STRING_NODES: Final[Mapping[str, str]] = {
    **{f"{kind}Pool{rank}DAttrs": "out_layout" for kind in ("Max", "Avg", "Adaptive") for rank in (1, 2, 3)},
    "AvgPool2DAttrs": "layout out_layout",
    "Conv2DAttrs": "data_layout kernel_layout out_layout",
    "DensePackAttrs": "weight_layout",
    "DynStridedSliceAttrs": "slice_mode",
    "EinsumAttrs": "equation",
    "GlobalPool2DAttrs": "layout out_layout",
    "MaxPool2DAttrs": "layout out_layout",
    "PadAttrs": "pad_mode",
    "ScatterNDAttrs": "mode",
    "StridedSliceAttrs": "slice_mode",
    "TakeAttrs": "mode",
    "UpSamplingAttrs": "layout method",
}
"""Fields with the type `String` of C++, which is a node, and not `std::string`."""

_REWRITTEN: Final[Mapping[str, object]] = {"auto_scheduler_rewritten_layout": ""}
_CONSTANTS: Final[Mapping[str, Mapping[str, object]]] = {
    **dict.fromkeys(
        ("BatchMatmulAttrs", "Conv2DAttrs", "Conv3DAttrs", "DenseAttrs", "MatmulAttrs"),
        _REWRITTEN,
    ),
    "DynReshapeAttrs": {"newshape": None},
    "DynStridedSliceAttrs": {"begin": None, "end": None, "strides": None, "axes": None},
}
"""Fields of TVM that have one value in this package."""

_ABSENT: Final[Mapping[str, tuple[str, str]]] = {
    "relay.attrs.ReshapeAttrs": ("newshape", "relay.attrs.DynReshapeAttrs"),
    "relay.attrs.StridedSliceAttrs": ("begin", "relay.attrs.DynStridedSliceAttrs"),
}
"""Classes that are two classes here: a field, and the key of the class that does not have it."""
_KEYS_IN_TVM: Final[Mapping[str, str]] = {here: key for key, (_, here) in _ABSENT.items()}

_UNUSED: Final[Mapping[str, object]] = {"TopkAttrs.k": 1}
"""Values in place of null, where a dynamic operator has the attributes of a static one."""

_EXPRESSIONS: Final[Mapping[str, str]] = {"ArangeAttrs": "start stop step"}
"""Fields that are expressions in TVM, and numbers here if the expressions are constants."""


_SCHEMAS: Final[dict[type[Attrs], Schema]] = {}


def schema_of_attrs(kind: type[Attrs]) -> Schema:
    """Return the schema of a class of attributes.

    Raises:
        SerializationError: if `register_object` has not registered the class.

    """
    if kind not in _SCHEMAS:
        _SCHEMAS[kind] = _new_schema(kind)
    return _SCHEMAS[kind]


def _new_schema(kind: type[Attrs]) -> Schema:
    key = attrs_key(kind)
    if not _is_registered(kind, key):
        raise SerializationError(
            f"the class of attributes {kind.__qualname__} has no type key; register it with relay.register_object"
        )
    hints = get_type_hints(kind)
    declared = tuple(_field(kind.__name__, field, hints[field.name]) for field in fields(kind))
    constants = tuple(_constant(name, value) for name, value in _CONSTANTS.get(kind.__name__, {}).items())
    return Schema(_KEYS_IN_TVM.get(key, key), (*declared, *constants), partial(_make, kind))


def _is_registered(kind: type[Attrs], key: str) -> bool:
    try:
        return attrs_type_of(key) is kind
    except LookupError:
        return False


def schema_of_attrs_key(type_key: str, entries: Mapping[str, str]) -> Schema:
    """Return the schema of a type key.

    `entries` are the fields of the node in JSON, which decide where two classes have the same key.

    Raises:
        UnknownTypeKeyError: if there is no such class. The message suggests a similar key.

    """
    if type_key in _ABSENT:
        name, other = _ABSENT[type_key]
        type_key = other if entries.get(name) == "0" else type_key
    return schema_of_attrs(attrs_type_of(type_key))


def _field(kind: str, field: DataclassField[Anything], hint: object) -> Field:
    name = field.name
    if name in _EXPRESSIONS.get(kind, "").split():
        return Field(name, Form.NODE, partial(_expression, name), name, _is_expression, "Expr")
    null: object = () if get_origin(hint) is tuple else _UNUSED.get(f"{kind}.{name}")
    null = null if field.default is MISSING else field.default
    return Field(name, _form(kind, field, hint), attrgetter(name), name, check_of(hint), title_of(hint), null)


def _form(kind: str, field: DataclassField[Anything], hint: object) -> Form:
    name = field.name
    if field.type == Integer or f"{kind}.{name}" in _FLAG_NODES:
        return Form.NODE
    if hint is str and (name == "dtype" or name.endswith("_dtype")):
        return Form.DTYPE
    if hint is str and name in _STRING_NODES.get(kind, "").split():
        return Form.STRING
    return _FORMS.get(hint, Form.NODE)


_FORMS: Final[Mapping[object, Form]] = {bool: Form.BOOL, int: Form.INT, float: Form.FLOAT, str: Form.TEXT}


def _constant(name: str, value: object) -> Field:
    def check(read: object) -> bool:
        return read == value

    return Field(name, Form.NODE, lambda _: value, f"{_IGNORED}{name}", check, repr(value))


_IGNORED: Final = "constant "
"""Start of the names of fields that are read only to be checked."""


def _make(kind: type[Attrs], **values: object) -> Attrs:
    own = {name: value for name, value in values.items() if not name.startswith(_IGNORED)}
    numbers = {name: _number(own[name]) for name in _EXPRESSIONS.get(kind.__name__, "").split()}
    make = cast("Callable[..., Attrs]", kind)
    return make(**{**own, **numbers})


def _expression(name: str, attrs: Anything) -> Constant | None:
    """Return a number as a constant that has the same value."""
    value: float | None = getattr(attrs, name)
    if value is None:
        return None
    if isinstance(value, int):
        return Constant(np.asarray(value, "int32" if -(2**31) <= value < 2**31 else "int64"))
    is_exact = abs(value) < 1e38 and float(np.float32(value)) == value
    return Constant(np.asarray(value, "float32" if is_exact else "float64"))


def _is_expression(value: object) -> bool:
    return value is None or isinstance(value, Expr)


def _number(value: object) -> object:
    """Return the number of a scalar constant, and None for another expression."""
    if isinstance(value, Constant) and value.data.ndim == 0:
        return value.data.item()
    return None if isinstance(value, Expr) else value
