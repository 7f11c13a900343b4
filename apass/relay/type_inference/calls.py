"""`CallTyper`: types calls of operators by relation and of functions by type."""

from collections.abc import Sequence
from functools import partial

from apass.relay.ir.expr import OPS, Call, Expr, Op
from apass.relay.ir.ty import FuncType, IncompleteType, TensorType, Type, TypeRelation, TypeVar
from apass.relay.type_inference.attr_types import attrs_fault
from apass.relay.type_inference.errors import TypeErrors, describe
from apass.relay.type_inference.solver import Constraint, TypeSolver
from apass.relay.type_inference.unify import type_text

__all__ = ["CallTyper", "type_of_op"]


class CallTyper:
    """Typing rules of calls.

    Errors are reported. The type of an invalid call is a failed type, which unifies with every type.
    """

    def __init__(self, solver: TypeSolver, errors: TypeErrors) -> None:
        self.type_args: dict[Expr, Sequence[Type]] = {}
        """The type arguments of each call of a function, including omitted ones."""
        self._solver = solver
        self._errors = errors
        self._result = IncompleteType()
        # Argument types and result of calls without attributes, by operator and ids of the argument types.
        self._cache: dict[tuple[object, ...], Sequence[Type]] = {}
        self._interned: dict[TensorType, TensorType] = {}

    def op_call(self, call: Call, op: Op, args: list[Type]) -> Type:
        """Return the type of a call of an operator.

        If the relation needs more types, the result is an unknown type constrained by the relation.
        """
        solver, result = self._solver, self._result
        if op.relation is None or len(args) != op.num_inputs >= 0 or (op.attrs_type and call.attrs is None):
            return self._wrong_op_call(call, op)
        if call.attrs is not None and (fault := attrs_fault(call.attrs, op)):
            return self.fail(call, f"{op.name}: {fault}")
        types = [solver.known(arg) for arg in args]
        # A resolved IncompleteType may become more general, so such a call needs a constraint even if it is complete.
        if all(map(solver.is_complete, types)) and IncompleteType not in map(type, args):
            # Many calls have no attributes and the same argument types as other calls.
            key = (op, *map(id, types))
            if call.attrs is None and key in self._cache:
                return self._cache[key][-1]
            related = solver.apply(call, op.relation, call.attrs, [*types, result])
            if related is not None and related[-1] is not None and solver.is_complete(related[-1]):
                solver.put_args(call, types, related)
                return self._store(key, types, related[-1]) if call.attrs is None else related[-1]
        self._result = IncompleteType()
        if not solver.has_failed(result):
            solver.relate(Constraint(call, op.relation, call.attrs, (*args, result)))
        return result

    def _store(self, key: Sequence[object], types: Sequence[Type], result: Type) -> Type:
        """Cache the type of a call, and return it or an equal type seen before."""
        interned = self._interned
        for ty in (*types, result):
            if isinstance(ty, TensorType):
                interned.setdefault(ty, ty)
        if isinstance(result, TensorType):
            result = interned[result]
        # The entry keeps the argument types alive, so that the ids in the key stay unique.
        self._cache[tuple(key)] = (*types, result)
        return result

    def function_call(self, call: Call, callee: Type, args: Sequence[Type]) -> Type:
        """Return the type of a call of another callee, with fresh type arguments."""
        solver = self._solver
        callee_type = solver.find(callee)
        if solver.has_failed(callee_type):
            for arg in args:
                solver.fail(arg)
            return self.fail(call, None)
        if isinstance(callee_type, IncompleteType):
            result = IncompleteType()
            solver.unify_at(call, callee_type, FuncType(args, result), lambda: f"`{describe(call.op)}` is called")
            self.type_args[call] = ()
            return result
        if not isinstance(callee_type, FuncType):
            text = type_text(solver.resolve(callee_type))
            return self.fail(call, f"the callee must be a function; `{describe(call.op)}` has type `{text}`")
        if len(call.type_args) > len(callee_type.type_params):
            expected = f"expected at most {len(callee_type.type_params)}, found {len(call.type_args)}"
            return self.fail(call, f"too many type arguments: {expected}")
        if len(args) != len(callee_type.arg_types):
            amount = "few" if len(args) < len(callee_type.arg_types) else "many"
            expected = f"expected {len(callee_type.arg_types)}, found {len(args)}"
            return self.fail(call, f"too {amount} arguments to the function: {expected}")
        omitted = callee_type.type_params[len(call.type_args) :]
        type_args = (*call.type_args, *(IncompleteType(param.kind) for param in omitted))
        self.type_args[call] = type_args
        function = self.instantiate(callee_type, type_args)
        for index, (param, arg) in enumerate(zip(function.arg_types, args, strict=True)):
            solver.unify_at(call, param, arg, partial(_argument_error, call, index), call.args[index])
        self._add_constraints(call, function)
        return function.ret_type

    def instantiate(self, function: FuncType, chosen: Sequence[Type] | None = None) -> FuncType:
        """Return a function type with its type parameters replaced.

        `chosen` are the types that replace them, new unknown types by default.
        """
        if not function.type_params:
            return function
        types = chosen or [IncompleteType(param.kind) for param in function.type_params]
        substitution: dict[TypeVar, Type] = dict(zip(function.type_params, types, strict=True))
        plain = FuncType(function.arg_types, function.ret_type, (), function.type_constraints)
        result = self._solver.substitute(plain, substitution)
        assert isinstance(result, FuncType), "substitution preserves the class of a type"
        return result

    def fail(self, expr: Expr, message: str | None) -> Type:
        """Report an error unless `message` is None, and return a failed type."""
        if message is not None:
            self._errors.add(expr, message)
        unknown = IncompleteType()
        self._solver.fail(unknown)
        return unknown

    def _add_constraints(self, call: Call, function: FuncType) -> None:
        """Add the constraints of a function type for a call."""
        for constraint in function.type_constraints:
            relation = OPS[constraint.func].relation if isinstance(constraint, TypeRelation) else None
            if isinstance(constraint, TypeRelation) and relation is not None:
                self._solver.relate(Constraint(call, relation, call.attrs, constraint.args))

    def _wrong_op_call(self, call: Call, op: Op) -> Type:
        if op.relation is None:
            return self.fail(call, f"the operator {op.name} has no type relation, so its calls have no types")
        if len(call.args) != op.num_inputs >= 0:
            amount = "few" if len(call.args) < op.num_inputs else "many"
            expected = f"expected {op.num_inputs} ({', '.join(op.arguments)}), found {len(call.args)}"
            return self.fail(call, f"too {amount} arguments to the operator {op.name}: {expected}")
        attrs_type = op.attrs_type.__name__ if op.attrs_type else "none"
        return self.fail(call, f"the call has no attributes; {op.name} requires {attrs_type}, see Op.make_attrs")


def type_of_op(op: Op) -> FuncType:
    """Return the type of an operator used as a value.

    It is a generic function whose constraint is the operator's relation.
    """
    variables = [TypeVar(name) for name in (*op.arguments, "out")]
    relation = TypeRelation(op.name, variables, len(op.arguments))
    return FuncType(variables[:-1], variables[-1], variables, [relation])


def _argument_error(call: Call, index: int) -> str:
    return f"argument {index + 1}, `{describe(call.args[index])}`, has the wrong type"
