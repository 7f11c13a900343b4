"""`check_kind`: whether a type is put together by the rules, such as that a tuple holds types of values only."""

from apass.relay.adt import TypeData
from apass.relay.errors import TypeInferenceError
from apass.relay.ir.module import IRModule
from apass.relay.ty import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    Kind,
    RefType,
    TupleType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
)
from apass.relay.visitors.recursion import Walk, walk_deep

__all__ = ["check_kind"]


def check_kind(t: Type | TypeData, mod: IRModule | None = None) -> Kind:
    """Return the kind of a type; `mod` defines the data types that it names.

    Raises:
        TypeInferenceError: if a part of it is of a kind that cannot stand there, or it names an unknown data type.

    >>> check_kind(TupleType([TypeVar("a")])) is Kind.Type
    True
    """
    known = mod if mod is not None else IRModule()
    return _check_data(t, known) if isinstance(t, TypeData) else walk_deep(_check(t, known, {}))


def _check(ty: Type, mod: IRModule, done: dict[int, Kind]) -> Walk[Kind]:
    if isinstance(ty, IncompleteType | TypeVar | GlobalTypeVar):
        return ty.kind
    if id(ty) not in done:
        done[id(ty)] = Kind.Constraint if isinstance(ty, TypeRelation) else Kind.Type
        if isinstance(ty, TypeCall):
            _check_call(ty, mod)
        for part, wanted, what in _parts(ty):
            found = yield _check(part, mod, done)
            _expect(part, ty, found, wanted, what)
    return done[id(ty)]


def _parts(ty: Type) -> list[tuple[Type, Kind, str]]:
    """Return the types directly within a type, each with the kind that it must be of and what it is there."""
    if isinstance(ty, TupleType):
        return [(one, Kind.Type, "tuple member") for one in ty.fields]
    if isinstance(ty, RefType):
        return [(ty.value, Kind.Type, "ref contents")]
    if isinstance(ty, TypeRelation):
        return [(one, Kind.Type, "argument to type relation") for one in ty.args]
    if isinstance(ty, TypeCall):
        return [(one, Kind.Type, "type call argument") for one in ty.args]
    if not isinstance(ty, FuncType):
        return []
    params = [(one, Kind.Type, "function type parameter") for one in ty.arg_types]
    constraints = [(one, Kind.Constraint, "function type constraint") for one in ty.type_constraints]
    return [*params, (ty.ret_type, Kind.Type, "function return type"), *constraints]


def _check_call(ty: TypeCall, mod: IRModule) -> None:
    """Check that a data type is known and given as many arguments as it has type variables."""
    if not isinstance(ty.func, GlobalTypeVar):
        raise TypeInferenceError(f"the callee in `{ty}` must be the name of a data type, but is `{ty.func}`")
    _expect(ty.func, ty, ty.func.kind, Kind.AdtHandle, "type call function")
    if ty.func not in mod.type_definitions:
        known = ", ".join(map(str, mod.get_global_type_vars())) or "none"
        raise TypeInferenceError(f"the data type `{ty.func}` is not defined; the module has: {known}")
    wanted = len(mod.get_type_data(ty.func).type_vars)
    if len(ty.args) != wanted:
        raise TypeInferenceError(f"`{ty}` gives {len(ty.args)} type arguments, but `{ty.func}` takes {wanted}")


def _check_data(data: TypeData, mod: IRModule) -> Kind:
    """Check the definition of a data type."""
    extended = mod.copy()
    extended.add_type(data)
    name = data.header.name_hint
    if data.header.kind is not Kind.AdtHandle:
        raise TypeInferenceError(
            f"the name of the data type `{name}` is of kind {data.header.kind.name}, not AdtHandle"
        )
    for var in data.type_vars:
        if var.kind is not Kind.Type:
            raise TypeInferenceError(f"the type variable `{var}` of `{name}` is of kind {var.kind.name}, not Type")
    for con in data.constructors:
        if con.belong_to != data.header:
            raise TypeInferenceError(
                f"constructor `{con.name_hint}` is of `{con.belong_to}`, but is listed in `{name}`"
            )
        for one in con.inputs:
            _expect(one, data.header, walk_deep(_check(one, extended, {})), Kind.Type, "ADT constructor input")
    return Kind.TypeData


def _expect(part: Type, whole: Type, found: Kind, wanted: Kind, what: str) -> None:
    if found is not wanted:
        raise TypeInferenceError(
            f"incorrect kind for the {what}: `{part}` inside `{whole}` is of kind {found.name}, not {wanted.name}"
        )
