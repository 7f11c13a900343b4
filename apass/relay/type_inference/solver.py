"""`TypeSolver`: relations between types, each kept until all that it relates is known; for type inference."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from apass.relay.errors import TypeInferenceError
from apass.relay.expr import Expr, Relation
from apass.relay.ir.attrs import Attrs
from apass.relay.ty import IncompleteType, TensorType, Type
from apass.relay.type_inference.unify import TypeUnifier, type_text

__all__ = ["Constraint", "TypeSolver"]


@dataclass(slots=True, eq=False)
class Constraint:
    """A relation that holds between types."""

    expr: Expr
    """The expression that it is about: where its errors are reported."""
    relation: Relation
    """What holds; see `Op.relation`."""
    attrs: Attrs | None
    """The attributes of the call."""
    types: Sequence[Type]
    """The types that it relates, the result last."""
    is_queued: bool = False
    """Whether it is to be tried again."""


class TypeSolver(TypeUnifier):
    """A TypeUnifier with relations: one that lacks knowledge waits, and is tried again when any of its types changes.

    `report(expr, message, at)` is told what goes wrong; see `TypeErrors.add`.
    """

    def __init__(self, report: Callable[[Expr, str, Expr | None], None]) -> None:
        super().__init__()
        self._report = report
        self.queue: deque[Constraint] = deque()
        """The relations that are to be tried."""
        # A dict stands for an ordered set.
        self._watchers: dict[IncompleteType, dict[Constraint, None]] = {}

    def relate(self, constraint: Constraint) -> None:
        """Add a relation; `solve` gets out of it what there is."""
        self._enqueue(constraint)

    def solve(self) -> None:
        """Try all relations whose types have changed, until no more is to be found."""
        while self.queue:
            constraint = self.queue.popleft()
            constraint.is_queued = False
            if any(map(self.has_failed, constraint.types[:-1])):
                self.fail(constraint.types[-1])
            else:
                self._answer(constraint)
                self._watch(constraint)

    def known(self, ty: Type) -> Type:
        """Return a type as far as it is known, as `resolve` does; quick for those that are complete."""
        return ty if type(ty) is TensorType else self.resolve(ty)

    def waiting(self) -> list[Constraint]:
        """Return the relations that still wait for a type to be known, each once."""
        listed = dict.fromkeys(one for of_type in self._watchers.values() for one in of_type)
        return [one for one in listed if any(map(self.unknowns, one.types))]

    def apply(
        self, expr: Expr, relation: Relation, attrs: Attrs | None, types: Sequence[Type]
    ) -> Sequence[Type | None] | None:
        """Return what a relation says of types that are resolved as far as they are known; None if it has to wait.

        What is wrong is reported; then the result, the last of the types, has failed.
        """
        try:
            return relation(types, attrs)
        except TypeInferenceError as error:
            self._report(expr, str(error), None)
            self.fail(types[-1])
            return None
        except Exception as error:
            error.add_note(f"this was raised by the type relation of {expr!r}, given {', '.join(map(str, types))}")
            raise

    def unify_at(
        self, expr: Expr, expected: Type, found: Type, what: Callable[[], str], at: Expr | None = None
    ) -> Type:
        """Unify what is expected of an expression with what was found, and return it.

        The found type itself does not become more general by it. What is wrong is reported at the expression, after
        what `what()` tells; what is unknown then has failed.
        """
        try:
            return self.unify(expected, self.find(found))
        except TypeInferenceError as error:
            types = [type_text(self.resolve(one)) for one in (expected, found)]
            detail = str(error).removeprefix("`{}` does not match `{}`".format(*types)).removeprefix(": ")
            told = "{}: expected `{}`, found `{}`".format(what(), *types)
            self._report(expr, f"{told}\n{detail}" if detail else told, at)
            for one in (*self.unknowns(expected), *self.unknowns(found)):
                self.fail(one)
            return self.find(expected)

    def changed(self, ty: IncompleteType, became: Type) -> None:
        """Let those who wait for a type be tried again, or wait for the one that it is to be."""
        watchers = self._watchers.get(ty)
        if watchers is None:
            return
        if not isinstance(became, IncompleteType):
            for one in watchers:
                self._enqueue(one)
            return
        others = self._watchers.get(became, {})
        # The longer one takes in the shorter: then moving all of them again and again stays cheap.
        more, less = (watchers, others) if len(watchers) > len(others) else (others, watchers)
        more |= less
        self._watchers[became] = more
        del self._watchers[ty]

    def _enqueue(self, constraint: Constraint) -> None:
        if not constraint.is_queued:
            constraint.is_queued = True
            self.queue.append(constraint)

    def _answer(self, constraint: Constraint) -> None:
        """Put to use what a relation says now."""
        types = [self.resolve(one) for one in constraint.types]
        said = self.apply(constraint.expr, constraint.relation, constraint.attrs, types)
        if said is not None:
            self.put_args(constraint.expr, constraint.types[:-1], said)
            result = said[-1]
            if result is not None and result is not types[-1]:
                self.unify_at(constraint.expr, constraint.types[-1], result, _of_result)

    def put_args(self, expr: Expr, types: Sequence[Type], said: Sequence[Type | None]) -> None:
        """Unify the types of arguments with what a relation says of them, and of the result, which is let be."""
        for place, (ty, one) in enumerate(zip(types, said[:-1], strict=True)):
            if one is not None and one is not ty:
                self.unify_at(expr, one, ty, partial(_of_argument, place))

    def _watch(self, constraint: Constraint) -> None:
        """Let a relation be tried again when a type becomes known, or becomes more general than it is."""
        for ty in constraint.types:
            roots = self.unknowns(ty) or ([self.root(ty)] if isinstance(ty, IncompleteType) else ())
            for one in roots:
                self._watchers.setdefault(one, {})[constraint] = None


def _of_argument(place: int) -> str:
    return f"the type of argument {place + 1} is wrong"


def _of_result() -> str:
    return "the type of the result is wrong"
