"""`TypeSolver`: solves type relations by unification."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Expr, Relation
from apass.relay.ir.ty import IncompleteType, TensorType, Type
from apass.relay.type_inference.unify import TypeUnifier, type_text

__all__ = ["Constraint", "TypeSolver"]

_MOST_IN_DIM: Final = 2**63 - 1


@dataclass(slots=True, eq=False)
class Constraint:
    """A type relation on the types of an expression."""

    expr: Expr
    """The expression at which errors are reported."""
    relation: Relation
    """The relation; see `Op.relation`."""
    attrs: Attrs | None
    """The attributes of the call."""
    types: Sequence[Type]
    """The related types, the result last."""
    is_queued: bool = False
    """Whether the constraint is in the queue."""


class TypeSolver(TypeUnifier):
    """A TypeUnifier with relations.

    A relation that cannot be solved yet waits, and is evaluated again when one of its types changes. Errors are passed
    to `report(expr, message, at)`; see `TypeErrors.add`.
    """

    def __init__(self, report: Callable[[Expr, str, Expr | None], None]) -> None:
        super().__init__()
        self._report = report
        self.queue: deque[Constraint] = deque()
        """The relations to evaluate."""
        # The inner dicts are ordered sets, so that errors have a stable order.
        self._watchers: dict[IncompleteType, dict[Constraint, None]] = {}

    def relate(self, constraint: Constraint) -> None:
        """Add a relation. `solve` evaluates it."""
        self._enqueue(constraint)

    def solve(self) -> None:
        """Evaluate all relations with changed types until the types converge."""
        while self.queue:
            constraint = self.queue.popleft()
            constraint.is_queued = False
            if any(map(self.has_failed, constraint.types[:-1])):
                self.fail(constraint.types[-1])
            else:
                self._evaluate(constraint)
                self._watch(constraint)

    def known(self, ty: Type) -> Type:
        """Return the resolved type. Faster than `resolve` for tensor types."""
        return ty if type(ty) is TensorType else self.resolve(ty)

    def waiting(self) -> list[Constraint]:
        """Return the relations with unknown types, each once."""
        constraints = dict.fromkeys(constraint for watchers in self._watchers.values() for constraint in watchers)
        return [constraint for constraint in constraints if any(map(self.unknowns, constraint.types))]

    def apply(
        self, expr: Expr, relation: Relation, attrs: Attrs | None, types: Sequence[Type]
    ) -> Sequence[Type | None] | None:
        """Return the types that a relation derives, or None if it has to wait.

        An error is reported, and the last of the types, the result, fails.
        """
        try:
            related = relation(types, attrs)
            if related is not None:
                _check_dims(related[-1])
            return related
        except TypeInferenceError as error:
            self._report(expr, str(error), None)
            self.fail(types[-1])
            return None
        except Exception as error:
            error.add_note(f"raised by the type relation of {expr!r} for the types {', '.join(map(str, types))}")
            raise

    def unify_at(
        self, expr: Expr, expected: Type, found: Type, summary: Callable[[], str], at: Expr | None = None
    ) -> Type:
        """Unify the expected type of an expression with the found type, and return it.

        The found type does not become more general. An error is reported at the expression with `summary()` as its
        first words, and the unknown types in both types fail.
        """
        try:
            return self.unify(expected, self.find(found))
        except TypeInferenceError as error:
            types = [type_text(self.resolve(ty)) for ty in (expected, found)]
            detail = str(error).removeprefix("`{}` does not match `{}`".format(*types)).removeprefix(": ")
            message = "{}: expected `{}`, found `{}`".format(summary(), *types)
            self._report(expr, f"{message}\n{detail}" if detail else message, at)
            for unknown in (*self.unknowns(expected), *self.unknowns(found)):
                self.fail(unknown)
            return self.find(expected)

    def changed(self, ty: IncompleteType, became: Type) -> None:
        """Queue the relations that watch `ty`, or make them watch `became` if unknown."""
        watchers = self._watchers.get(ty)
        if watchers is None:
            return
        if not isinstance(became, IncompleteType):
            for constraint in watchers:
                self._enqueue(constraint)
            return
        others = self._watchers.get(became, {})
        # Merge the smaller set into the larger one, so that repeated merges take n log n steps in total.
        larger, smaller = (watchers, others) if len(watchers) > len(others) else (others, watchers)
        larger |= smaller
        self._watchers[became] = larger
        del self._watchers[ty]

    def _enqueue(self, constraint: Constraint) -> None:
        if not constraint.is_queued:
            constraint.is_queued = True
            self.queue.append(constraint)

    def _evaluate(self, constraint: Constraint) -> None:
        """Evaluate a relation and unify its types with the result."""
        types = [self.resolve(ty) for ty in constraint.types]
        related = self.apply(constraint.expr, constraint.relation, constraint.attrs, types)
        if related is not None:
            self.put_args(constraint.expr, constraint.types[:-1], related)
            result = related[-1]
            if result is not None and result is not types[-1]:
                self.unify_at(constraint.expr, constraint.types[-1], result, _result_error)

    def put_args(self, expr: Expr, types: Sequence[Type], related: Sequence[Type | None]) -> None:
        """Unify argument types with the types from a relation, except the result."""
        for index, (ty, expected) in enumerate(zip(types, related[:-1], strict=True)):
            if expected is not None and expected is not ty:
                self.unify_at(expr, expected, ty, partial(_argument_error, index))

    def _watch(self, constraint: Constraint) -> None:
        """Evaluate a relation again when a type becomes known or more general."""
        for ty in constraint.types:
            roots = self.unknowns(ty) or ([self.root(ty)] if isinstance(ty, IncompleteType) else ())
            for root in roots:
                self._watchers.setdefault(root, {})[constraint] = None


def _check_dims(ty: Type | None) -> None:
    """Check that the dimensions of a result fit 64 bits, as those in a text must."""
    if isinstance(ty, TensorType):
        for dim in ty.shape:
            if isinstance(dim, int) and dim > _MOST_IN_DIM:
                raise TypeInferenceError(
                    f"the result has a dimension of more than 2**63 - 1 elements: it has {dim.bit_length()} bits"
                )


def _argument_error(index: int) -> str:
    return f"the type of argument {index + 1} is wrong"


def _result_error() -> str:
    return "the type of the result is wrong"
