"""`bind_pattern`: unifies patterns with types, and types their variables."""

from collections.abc import Iterator

from apass.relay.ir.adt import Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from apass.relay.ir.expr import Var
from apass.relay.ir.module import IRModule
from apass.relay.ir.ty import IncompleteType, TupleType, Type, TypeCall, TypeVar
from apass.relay.type_inference.errors import TypeErrors, describe_pattern
from apass.relay.type_inference.solver import TypeSolver

__all__ = ["bind_pattern"]


class _Patterns:
    """The patterns of one match."""

    def __init__(self, match: Match, mod: IRModule, solver: TypeSolver, errors: TypeErrors) -> None:
        self._match, self._mod, self._solver, self._errors = match, mod, solver, errors

    def parts(self, pattern: PatternConstructor | PatternTuple, ty: Type) -> list[Type]:
        """Return the types of the parts of a pattern, failed types if it is invalid."""
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
        type_args: dict[TypeVar, Type] = {var: IncompleteType() for var in variables}
        self._unify(pattern, TypeCall(con.belong_to, type_args.values()), ty)
        if count != len(con.inputs):
            text = describe_pattern(pattern)
            self._errors.add(
                self._match, f"`{con.name_hint}` takes {len(con.inputs)} arguments, but `{text}` has {count}"
            )
            return [self._failed() for _ in range(count)]
        return [self._solver.substitute(ty, type_args) for ty in con.inputs]

    def _unify(self, pattern: Pattern, expected: Type, found: Type) -> None:
        # The text of every nested pattern would take quadratic time.
        def summary() -> str:
            return f"the pattern `{describe_pattern(pattern)}` does not match the value"

        self._solver.unify_at(self._match, expected, found, summary)

    def _failed(self) -> Type:
        unknown = IncompleteType()
        self._solver.fail(unknown)
        return unknown


def bind_pattern(
    match: Match, pattern: Pattern, ty: Type, mod: IRModule, solver: TypeSolver, errors: TypeErrors
) -> Iterator[tuple[Var, Type]]:
    """Iterate over the variables of a pattern and their types. Report errors."""
    patterns = _Patterns(match, mod, solver, errors)
    stack: list[tuple[Pattern, Type]] = [(pattern, ty)]
    while stack:
        part, part_type = stack.pop()
        if isinstance(part, PatternVar):
            yield part.var, part_type
        elif isinstance(part, PatternConstructor | PatternTuple):
            stack += reversed([*zip(part.patterns, patterns.parts(part, part_type), strict=True)])
