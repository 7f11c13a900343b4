"""`check_kind`: checks that types are well-formed and returns their kinds."""

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.adt import TypeData
from apass.relay.ir.module import IRModule
from apass.relay.ir.ty import (
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
    """Return the kind of a type. `mod` defines its data types.

    Raises:
        TypeInferenceError: if a component has the wrong kind, or a data type is undefined.

    >>> check_kind(TupleType([TypeVar("a")])) is Kind.Type
    True
    """
    context = mod if mod is not None else IRModule()
    return _check_data(t, context) if isinstance(t, TypeData) else walk_deep(_check(t, context, {}))


def _check(ty: Type, mod: IRModule, done: dict[int, Kind]) -> Walk[Kind]:
    if isinstance(ty, IncompleteType | TypeVar | GlobalTypeVar):
        return ty.kind
    if id(ty) not in done:
        done[id(ty)] = Kind.Constraint if isinstance(ty, TypeRelation) else Kind.Type
        if isinstance(ty, TypeCall):
            _check_call(ty, mod)
        for part, expected, role in _parts(ty):
            kind = yield _check(part, mod, done)
            _expect(part, ty, kind, expected, role)
    return done[id(ty)]


def _parts(ty: Type) -> list[tuple[Type, Kind, str]]:
    """Return the direct components of a type with their required kinds and roles."""
    if isinstance(ty, TupleType):
        return [(component, Kind.Type, "tuple member") for component in ty.fields]
    if isinstance(ty, RefType):
        return [(ty.value, Kind.Type, "ref contents")]
    if isinstance(ty, TypeRelation):
        return [(component, Kind.Type, "argument to type relation") for component in ty.args]
    if isinstance(ty, TypeCall):
        return [(component, Kind.Type, "type call argument") for component in ty.args]
    if not isinstance(ty, FuncType):
        return []
    params = [(component, Kind.Type, "function type parameter") for component in ty.arg_types]
    constraints = [(constraint, Kind.Constraint, "function type constraint") for constraint in ty.type_constraints]
    return [*params, (ty.ret_type, Kind.Type, "function return type"), *constraints]


def _check_call(ty: TypeCall, mod: IRModule) -> None:
    """Check that a data type is defined, and the number of its arguments."""
    if not isinstance(ty.func, GlobalTypeVar):
        raise TypeInferenceError(f"the callee in `{ty}` must be the name of a data type, found `{ty.func}`")
    _expect(ty.func, ty, ty.func.kind, Kind.AdtHandle, "type call function")
    if ty.func not in mod.type_definitions:
        defined = ", ".join(map(str, mod.get_global_type_vars())) or "none"
        raise TypeInferenceError(f"the data type `{ty.func}` is not defined; the module has: {defined}")
    expected = len(mod.get_type_data(ty.func).type_vars)
    if len(ty.args) != expected:
        raise TypeInferenceError(f"`{ty}` has {len(ty.args)} type arguments, but `{ty.func}` requires {expected}")


def _check_data(data: TypeData, mod: IRModule) -> Kind:
    """Check the definition of a data type, and return its kind."""
    extended = mod.copy()
    extended.add_type(data)
    name = data.header.name_hint
    if data.header.kind is not Kind.AdtHandle:
        raise TypeInferenceError(
            f"the name of the data type `{name}` has kind {data.header.kind.name}, expected AdtHandle"
        )
    for var in data.type_vars:
        if var.kind is not Kind.Type:
            raise TypeInferenceError(f"the type variable `{var}` of `{name}` has kind {var.kind.name}, expected Type")
    for con in data.constructors:
        if con.belong_to != data.header:
            raise TypeInferenceError(
                f"constructor `{con.name_hint}` belongs to `{con.belong_to}`, but is listed in `{name}`"
            )
        for ty in con.inputs:
            _expect(ty, data.header, walk_deep(_check(ty, extended, {})), Kind.Type, "ADT constructor input")
    return Kind.TypeData


def _expect(part: Type, whole: Type, kind: Kind, expected: Kind, role: str) -> None:
    if kind is not expected:
        raise TypeInferenceError(
            f"incorrect kind for the {role}: `{part}` inside `{whole}` has kind {kind.name}, expected {expected.name}"
        )
