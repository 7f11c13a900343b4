"""`CallTyper`: the types of calls, of operators by their relations and of functions by their types."""

from collections.abc import Sequence
from functools import partial

from apass.relay.expr import OPS, Call, Expr, Op
from apass.relay.ty import FuncType, IncompleteType, TensorType, Type, TypeRelation, TypeVar
from apass.relay.type_inference.errors import TypeErrors, describe
from apass.relay.type_inference.solver import Constraint, TypeSolver
from apass.relay.type_inference.unify import type_text

__all__ = ["CallTyper", "type_of_op"]


class CallTyper:
    """Gives calls their types; what is wrong is reported, and the call's type has failed then."""

    def __init__(self, solver: TypeSolver, errors: TypeErrors) -> None:
        self.type_args: dict[Expr, Sequence[Type]] = {}
        """The type arguments of each call of a function, those that its author left out included."""
        self._solver = solver
        self._errors = errors
        self._result = IncompleteType()
        self._said: dict[tuple[object, ...], Sequence[Type]] = {}
        self._same: dict[TensorType, TensorType] = {}

    def op_call(self, call: Call, op: Op, args: list[Type]) -> Type:
        """Return the type of a call of an operator: what the relation says, or an unknown type that waits for it."""
        solver, result = self._solver, self._result
        if op.relation is None or len(args) != op.num_inputs >= 0 or (op.attrs_type and call.attrs is None):
            return self._wrong_op_call(call, op)
        types = [solver.known(one) for one in args]
        # What an unknown type stands for may turn out more general: such a call is kept, to be looked at again.
        if all(map(solver.is_complete, types)) and IncompleteType not in map(type, args):
            # Many calls have no attributes, and arguments of the same types as others.
            key = (op, *map(id, types))
            if call.attrs is None and key in self._said:
                return self._said[key][-1]
            said = solver.apply(call, op.relation, call.attrs, [*types, result])
            if said is not None and said[-1] is not None and solver.is_complete(said[-1]):
                solver.put_args(call, types, said)
                return self._keep(key, types, said[-1]) if call.attrs is None else said[-1]
        self._result = IncompleteType()
        if not solver.has_failed(result):
            solver.relate(Constraint(call, op.relation, call.attrs, (*args, result)))
        return result

    def _keep(self, key: Sequence[object], types: Sequence[Type], result: Type) -> Type:
        """Remember the type of a call for others like it; return it, or an equal one that was there before."""
        same = self._same
        for one in (*types, result):
            if isinstance(one, TensorType):
                same.setdefault(one, one)
        known = same[result] if isinstance(result, TensorType) else result
        # The types of the arguments are kept, so that nothing else comes to have their ids.
        self._said[tuple(key)] = (*types, known)
        return known

    def function_call(self, call: Call, callee: Type, args: Sequence[Type]) -> Type:
        """Return the type of a call of anything else, its type parameters chosen anew."""
        solver = self._solver
        found = solver.find(callee)
        if solver.has_failed(found):
            for one in args:
                solver.fail(one)
            return self.fail(call, None)
        if isinstance(found, IncompleteType):
            result = IncompleteType()
            solver.unify_at(call, found, FuncType(args, result), lambda: f"`{describe(call.op)}` is called")
            self.type_args[call] = ()
            return result
        if not isinstance(found, FuncType):
            message = (
                f"only functions can be called; `{describe(call.op)}` is of type `{type_text(solver.resolve(found))}`"
            )
            return self.fail(call, message)
        if len(call.type_args) > len(found.type_params):
            given, taken = len(call.type_args), len(found.type_params)
            return self.fail(call, f"expected at most {taken} type arguments, found {given}")
        if len(args) != len(found.arg_types):
            amount = "few" if len(args) < len(found.arg_types) else "many"
            expected = f"expected {len(found.arg_types)}, found {len(args)}"
            return self.fail(call, f"the function is provided too {amount} arguments: {expected}")
        left = found.type_params[len(call.type_args) :]
        chosen = (*call.type_args, *(IncompleteType(param.kind) for param in left))
        self.type_args[call] = chosen
        function = self.instantiate(found, chosen)
        for place, (param, arg) in enumerate(zip(function.arg_types, args, strict=True)):
            solver.unify_at(call, param, arg, partial(_of_argument, call, place), call.args[place])
        self._demand(call, function)
        return function.ret_type

    def instantiate(self, function: FuncType, chosen: Sequence[Type] | None = None) -> FuncType:
        """Return a function type with types, new unknown ones by default, in the places of its type parameters."""
        if not function.type_params:
            return function
        types = chosen or [IncompleteType(param.kind) for param in function.type_params]
        places: dict[TypeVar, Type] = dict(zip(function.type_params, types, strict=True))
        plain = FuncType(function.arg_types, function.ret_type, (), function.type_constraints)
        made = self._solver.substitute(plain, places)
        assert isinstance(made, FuncType), "a type keeps its kind when its variables are replaced"
        return made

    def fail(self, expr: Expr, message: str | None) -> Type:
        """Report what is wrong at an expression, unless it has been, and return a type for it that fits everything."""
        if message is not None:
            self._errors.add(expr, message)
        unknown = IncompleteType()
        self._solver.fail(unknown)
        return unknown

    def _demand(self, call: Call, function: FuncType) -> None:
        """Let the constraints of a function type hold of a call."""
        for one in function.type_constraints:
            relation = OPS[one.func].relation if isinstance(one, TypeRelation) else None
            if isinstance(one, TypeRelation) and relation is not None:
                self._solver.relate(Constraint(call, relation, call.attrs, one.args))

    def _wrong_op_call(self, call: Call, op: Op) -> Type:
        if op.relation is None:
            return self.fail(call, f"the operator {op.name} has no type relation, so its calls have no types")
        if len(call.args) != op.num_inputs >= 0:
            amount = "few" if len(call.args) < op.num_inputs else "many"
            expected = f"expected {op.num_inputs} ({', '.join(op.arguments)}), found {len(call.args)}"
            return self.fail(call, f"the operator {op.name} is provided too {amount} arguments: {expected}")
        wanted = op.attrs_type.__name__ if op.attrs_type else "none"
        return self.fail(call, f"the call has no attributes; {op.name} needs {wanted}, see Op.make_attrs")


def type_of_op(op: Op) -> FuncType:
    """Return the type of an operator that is used as a value: a function of any types that its relation holds of."""
    variables = [TypeVar(name) for name in (*op.arguments, "out")]
    relation = TypeRelation(op.name, variables, len(op.arguments))
    return FuncType(variables[:-1], variables[-1], variables, [relation])


def _of_argument(call: Call, place: int) -> str:
    return f"argument {place + 1}, `{describe(call.args[place])}`, does not fit"
