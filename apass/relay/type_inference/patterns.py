"""`bind_pattern`: what the patterns of a match tell of the types of what they take apart; for type inference."""

from collections.abc import Iterator

from apass.relay.adt import Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from apass.relay.expr import Var
from apass.relay.ir.module import IRModule
from apass.relay.ty import IncompleteType, TupleType, Type, TypeCall, TypeVar
from apass.relay.type_inference.errors import TypeErrors, describe_pattern
from apass.relay.type_inference.solver import TypeSolver

__all__ = ["bind_pattern"]


class _Clauses:
    """The patterns of one match."""

    def __init__(self, match: Match, mod: IRModule, solver: TypeSolver, errors: TypeErrors) -> None:
        self._match, self._mod, self._solver, self._errors = match, mod, solver, errors

    def parts(self, pattern: PatternConstructor | PatternTuple, ty: Type) -> list[Type]:
        """Return the types of the parts into which a pattern takes a value; unknown ones if it does not fit."""
        count = len(pattern.patterns)
        if isinstance(pattern, PatternTuple):
            parts: list[Type] = [IncompleteType() for _ in range(count)]
            self._unify(pattern, TupleType(parts), ty)
            return parts
        con = pattern.constructor
        if con.belong_to not in self._mod.type_definitions:
            self._errors.add(self._match, f"the data type `{con.belong_to}` is not defined in the module")
            return [self._failed() for _ in range(count)]
        variables = self._mod.get_type_data(con.belong_to).type_vars
        places: dict[TypeVar, Type] = {var: IncompleteType() for var in variables}
        self._unify(pattern, TypeCall(con.belong_to, places.values()), ty)
        if count != len(con.inputs):
            taken = (
                f"`{con.name_hint}` takes {len(con.inputs)} arguments, but `{describe_pattern(pattern)}` has {count}"
            )
            self._errors.add(self._match, taken)
            return [self._failed() for _ in range(count)]
        return [self._solver.substitute(one, places) for one in con.inputs]

    def _unify(self, pattern: Pattern, expected: Type, found: Type) -> None:
        what = f"the pattern `{describe_pattern(pattern)}` does not fit the value"
        self._solver.unify_at(self._match, expected, found, lambda: what)

    def _failed(self) -> Type:
        unknown = IncompleteType()
        self._solver.fail(unknown)
        return unknown


def bind_pattern(
    match: Match, pattern: Pattern, ty: Type, mod: IRModule, solver: TypeSolver, errors: TypeErrors
) -> Iterator[tuple[Var, Type]]:
    """Go over the variables of a pattern, with the types of what they are bound to; what is wrong is reported."""
    clauses = _Clauses(match, mod, solver, errors)
    stack: list[tuple[Pattern, Type]] = [(pattern, ty)]
    while stack:
        one, its = stack.pop()
        if isinstance(one, PatternVar):
            yield one.var, its
        elif isinstance(one, PatternConstructor | PatternTuple):
            stack += reversed([*zip(one.patterns, clauses.parts(one, its), strict=True)])
