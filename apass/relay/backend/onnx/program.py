"""`ProgramExporter`: translates Relay expressions to nodes of a graph.

Calls of functions are inlined. An If becomes an If of ONNX. A function whose last step is a call of itself becomes a
Loop.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from onnx import GraphProto, NodeProto, ValueInfoProto, helper

from apass.relay.backend.onnx.convert import CONVERTERS
from apass.relay.backend.onnx.element_types import elem_type
from apass.relay.backend.onnx.graph import GraphBuilder, Tensor
from apass.relay.backend.onnx.site import Operand, Site, call_text
from apass.relay.errors import OpNotImplementedError
from apass.relay.ir.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import ShapeVar, TensorType, TupleType, Type
from apass.relay.visitors.recursion import Walk, walk_deep

__all__ = ["ProgramExporter", "packed", "tensor_types", "used_names", "value_info"]

MOST_INLINED: Final = 100_000
"""The most calls of functions that are inlined; n functions that call the next one twice have 2**n."""

MOST_NESTED: Final = 30
"""The most subgraphs within each other; the parser of ONNX's files accepts few more."""

_SCOPED: Final = (Function, If, Let)


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function and the scope of its definition."""

    func: Function
    """The function."""
    scope: "Scope"
    """The scope of the definition."""
    name: Expr | None
    """The variable that a recursive call uses, if there is one."""


Value: TypeAlias = Tensor | tuple["Value", ...] | Closure
"""The translation of an expression."""


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """The values of expressions in one body, and in those around it."""

    values: dict[Expr, Value]
    """The values by expression."""
    parent: "Scope | None"
    """The enclosing scope."""
    known: set[Expr] = field(default_factory=set[Expr])
    """All expressions with a value in any scope of the program: others are not searched."""

    def inner(self) -> "Scope":
        """Return an empty scope within this one."""
        return Scope({}, self, self.known)

    def bind(self, expr: Expr, value: Value) -> None:
        """Set the value of an expression."""
        self.values[expr] = value
        self.known.add(expr)

    def find(self, expr: Expr) -> Value | None:
        """Return the value of an expression, or None if it has none yet."""
        scope: Scope | None = self if expr in self.known else None
        while scope is not None:
            if expr in scope.values:
                return scope.values[expr]
            scope = scope.parent
        return None


def value_info(name: str, ty: TensorType, dim_names: Mapping[int, str] | None = None) -> ValueInfoProto:
    """Return the declaration of a tensor.

    Parameters:
        name: its name.
        ty: its type.
        dim_names: names of unknown dimensions by axis, by default made from the name of the tensor; None for no names.

    """
    dims: list[int | str | None] = []
    for axis, dim in enumerate(ty.shape):
        if isinstance(dim, int):
            dims.append(dim)
        elif isinstance(dim, ShapeVar):
            dims.append(dim.name)
        else:
            dims.append(None if dim_names is None else dim_names.get(axis, f"{name}_dim_{axis}"))
    return helper.make_tensor_value_info(name, elem_type(ty.dtype), dims)


def tensor_types(ty: Type) -> list[TensorType]:
    """Return the tensors of a type, those of tuples in order.

    Raises:
        OpNotImplementedError: if it has other values.

    """
    found: list[TensorType] = []
    stack = [ty]
    while stack:
        part = stack.pop()
        if isinstance(part, TupleType):
            stack += reversed(part.fields)
        elif isinstance(part, TensorType):
            found.append(part)
        else:
            raise OpNotImplementedError(f"a value of type {part} has no ONNX form; only tensors and tuples have one")
    return found


class ProgramExporter:
    """Translates the functions of one module."""

    def __init__(self, mod: IRModule, builder: GraphBuilder) -> None:
        """Use the functions of `mod`, which have types."""
        self._mod = mod
        self._builder = builder
        self._globals = Scope({}, None)
        self._active: set[Function] = set()
        self._inlined = 0
        self._nested = 0

    def export(self, func: Function, arguments: Sequence[Operand]) -> list[Tensor]:
        """Return the results of a function, with the fields of tuples in order.

        Raises:
            OpNotImplementedError: if a part of the program has no ONNX form.

        """
        check_operators(func, self._mod)
        closure = Closure(func, self._globals, None)
        return _flat(walk_deep(self._call(closure, list(arguments))))

    def _block(self, expr: Expr, scope: Scope) -> Walk[Value]:
        """Translate an expression and all that it needs."""
        while isinstance(expr, Let):
            if isinstance(expr.value, Function):
                scope.bind(expr.var, Closure(expr.value, scope, expr.var))
            else:
                scope.bind(expr.var, (yield self._block(expr.value, scope)))
            expr = expr.body

        def is_done(node: Expr) -> bool:
            return isinstance(node, _SCOPED) or scope.find(node) is not None

        for node in post_order(expr, is_done):
            if not isinstance(node, Op) and scope.find(node) is None:
                scope.bind(node, (yield self._translate(node, scope)))
        return _found(expr, scope)

    def _translate(self, node: Expr, scope: Scope) -> Walk[Value]:
        if isinstance(node, Constant):
            return self._builder.constant(node.data.numpy())
        if isinstance(node, Tuple):
            return tuple(_found(field, scope) for field in node.fields)
        if isinstance(node, TupleGetItem):
            whole = _found(node.tuple_value, scope)
            assert isinstance(whole, tuple), "the field of a typed program is that of a tuple"
            return whole[node.index]
        if isinstance(node, Function):
            return Closure(node, scope, None)
        if isinstance(node, GlobalVar):
            return Closure(self._mod[node], self._globals, node)
        if isinstance(node, Let):
            return (yield self._block(node, scope))
        if isinstance(node, If):
            return (yield self._if(node, scope))
        if isinstance(node, Call):
            return (yield self._apply(node, scope))
        if isinstance(node, Var):
            raise OpNotImplementedError(f"the variable {node.name_hint!r} has no value; make it a parameter of main")
        kind = type(node).__name__
        raise OpNotImplementedError(
            f"{kind} has no ONNX form: ONNX has neither data types nor references; "
            "remove them with a pass, such as PartialEvaluate or ToGraphNormalForm"
        )

    def _apply(self, call: Call, scope: Scope) -> Walk[Value]:
        arguments = [_found(arg, scope) for arg in call.args]
        if isinstance(call.op, Op):
            # A function as an argument is an error.
            operands = [
                packed(arg.checked_type, iter(_flat(value))) for arg, value in zip(call.args, arguments, strict=True)
            ]
            outputs = CONVERTERS[call.op.name](Site(builder=self._builder, call=call, operands=operands))
            return outputs if isinstance(outputs, Tensor) else tuple(outputs)
        callee = _found(call.op, scope)
        if not isinstance(callee, Closure):
            raise OpNotImplementedError(
                f"cannot export {call_text(call)} to ONNX: it calls a value that is no function"
            )
        return (yield self._call(callee, arguments))

    def _call(self, closure: Closure, arguments: Sequence[Value]) -> Walk[Value]:
        loop = tail_loop(closure)
        if loop is not None and closure.func not in self._active:
            return (yield self._loop(closure, loop, arguments))
        if closure.func in self._active:
            raise OpNotImplementedError(
                "a recursive function has no ONNX form, unless its last step is the call of itself in a branch of an "
                "If; write it as such a loop"
            )
        self._inlined += 1
        if self._inlined > MOST_INLINED:
            raise OpNotImplementedError(f"more than {MOST_INLINED} calls of functions would be inlined; inline fewer")
        self._active.add(closure.func)
        result = yield self._block(closure.func.body, _inner(closure, arguments))
        self._active.remove(closure.func)
        return result

    def _if(self, node: If, scope: Scope) -> Walk[Value]:
        condition = yield self._block(node.cond, scope)
        assert isinstance(condition, Tensor), "the condition of a typed program is a tensor"
        types = tensor_types(node.checked_type)
        branches: list[GraphProto] = []
        for name, branch in (("then_branch", node.true_branch), ("else_branch", node.false_branch)):
            self._enter()
            with self._builder.subgraph() as nodes:
                outputs = _flat((yield self._block(branch, scope.inner())))
                branches.append(self._graph(name, nodes, [], list(zip(outputs, types, strict=True))))
            self._nested -= 1
        results = [Tensor(self._builder.unique_name("if_out"), ty.dtype) for ty in types]
        self._builder.node(
            "If",
            [condition.name],
            [result.name for result in results],
            then_branch=branches[0],
            else_branch=branches[1],
        )
        return packed(node.checked_type, iter(results))

    def _loop(self, closure: Closure, loop: "TailLoop", arguments: Sequence[Value]) -> Walk[Value]:
        """Translate the call of a function that is a loop.

        The condition is computed before the loop, and after each step for the next one.
        """
        builder, params = self._builder, closure.func.params
        types = [ty for param in params for ty in tensor_types(param.checked_type)]
        start = yield self._condition(closure, loop, arguments)
        self._enter()
        with builder.subgraph() as nodes:
            step, running = builder.unique_name("step"), builder.unique_name("is_running")
            carried = [Tensor(builder.unique_name("carried"), ty.dtype) for ty in types]
            fields = iter(carried)
            before = [packed(param.checked_type, fields) for param in params]
            inner = _inner(closure, before)
            values: list[Value] = []
            yield self._lets(loop, inner)
            for argument in loop.arguments:
                value = yield self._block(argument, inner)
                values.append(value)
            after = yield self._condition(closure, loop, values)
            results = [output for value in values for output in _flat(value)]
            declared = [(output, TensorType((), "bool")) for output in _flat(after)]
            declared += zip(results, types, strict=True)
            inputs = [
                helper.make_tensor_value_info(step, elem_type("int64"), []),
                helper.make_tensor_value_info(running, elem_type("bool"), []),
                *(value_info(tensor.name, ty) for tensor, ty in zip(carried, types, strict=True)),
            ]
            body = self._graph("body", nodes, inputs, declared)
        self._nested -= 1
        flat = [tensor for argument in arguments for tensor in _flat(argument)]
        final = [Tensor(builder.unique_name("loop_out"), ty.dtype) for ty in types]
        names = ["", *(tensor.name for tensor in [*_flat(start), *flat])]
        builder.node("Loop", names, [tensor.name for tensor in final], body=body)
        fields = iter(final)
        last = _inner(closure, [packed(param.checked_type, fields) for param in params])
        yield self._lets(loop, last)
        return (yield self._block(loop.result, last))

    def _condition(self, closure: Closure, loop: "TailLoop", arguments: Sequence[Value]) -> Walk[Value]:
        """Return whether a loop continues with the given arguments."""
        scope = _inner(closure, arguments)
        yield self._lets(loop, scope)
        condition = yield self._block(loop.condition, scope)
        if loop.continues:
            return condition
        (tensor,) = _flat(condition)
        return self._builder.emit("Not", tensor)

    def _lets(self, loop: "TailLoop", scope: Scope) -> Walk[Value]:
        for let in loop.lets:
            scope.bind(let.var, (yield self._block(let.value, scope)))
        return ()

    def _enter(self) -> None:
        self._nested += 1
        if self._nested > MOST_NESTED:
            raise OpNotImplementedError(
                f"more than {MOST_NESTED} branches within each other have no ONNX form: its files cannot nest so deep"
            )

    def _graph(
        self,
        name: str,
        nodes: list[NodeProto],
        inputs: list[ValueInfoProto],
        outputs: Sequence[tuple[Tensor, TensorType]],
    ) -> GraphProto:
        """Return a subgraph.

        Its outputs are copies, because they may be values of the enclosing graph.
        """
        declared: list[ValueInfoProto] = []
        for tensor, ty in outputs:
            copy = self._builder.unique_name("result")
            self._builder.node("Identity", [tensor.name], [copy])
            declared.append(value_info(copy, ty))
        return helper.make_graph(nodes, self._builder.unique_name(name), inputs, declared)


def _inner(closure: Closure, arguments: Sequence[Value]) -> Scope:
    """Return the scope of a call of a function."""
    scope = closure.scope.inner()
    for param, argument in zip(closure.func.params, arguments, strict=True):
        scope.bind(param, argument)
    if closure.name is not None:
        scope.bind(closure.name, closure)
    return scope


def _found(expr: Expr, scope: Scope) -> Value:
    value = scope.find(expr)
    assert value is not None, f"{expr!r} was not translated"
    return value


def _flat(value: Value) -> list[Tensor]:
    """Return the tensors of a value, those of tuples in order."""
    tensors: list[Tensor] = []
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, tuple):
            stack += reversed(part)
        elif isinstance(part, Tensor):
            tensors.append(part)
        else:
            raise OpNotImplementedError("a function as a result has no ONNX form; call it")
    return tensors


def packed(ty: Type, tensors: Iterator[Tensor]) -> Operand:
    """Return the value of a type whose tensors are the next ones."""
    done: list[Operand] = []
    work: list[Type | int] = [ty]  # a number: join that many of the last values
    while work:
        item = work.pop()
        if isinstance(item, int):
            fields = tuple(done[len(done) - item :])
            del done[len(done) - item :]
            done.append(fields)
        elif isinstance(item, TupleType):
            work += (len(item.fields), *reversed(item.fields))
        else:
            done.append(next(tensors))
    return done[0]


@dataclass(frozen=True, slots=True)
class TailLoop:
    """The parts of a function whose last step may be the call of itself."""

    lets: Sequence[Let]
    """The bindings before the If."""
    condition: Expr
    """The condition of the If."""
    continues: bool
    """Whether the loop continues if the condition is true."""
    arguments: Sequence[Expr]
    """The arguments of the next step."""
    result: Expr
    """The result after the last step."""


def tail_loop(closure: Closure) -> TailLoop | None:
    """Return the parts of a function that is a loop, or None if it is not one."""
    lets: list[Let] = []
    body = closure.func.body
    while isinstance(body, Let) and not isinstance(body.value, Function):
        lets.append(body)
        body = body.body
    if closure.name is None or not isinstance(body, If):
        return None
    for branch, other, continues in (
        (body.true_branch, body.false_branch, True),
        (body.false_branch, body.true_branch, False),
    ):
        if isinstance(branch, Call) and branch.op is closure.name:
            parts = [*(let.value for let in lets), body.cond, *branch.args, other]
            if not any(node is closure.name for part in parts for node in post_order(part)):
                return TailLoop(lets, body.cond, continues, branch.args, other)
    return None


def check_operators(func: Function, mod: IRModule) -> None:
    """Check that all operators of a program have converters.

    Raises:
        OpNotImplementedError: if some have not; the message names all of them.

    """
    missing: dict[str, str] = {}
    seen: set[str] = set()
    pending: list[Expr] = [func]
    while pending:
        for node in post_order(pending.pop()):
            if isinstance(node, GlobalVar) and node.name_hint not in seen:
                seen.add(node.name_hint)
                pending.append(mod[node])
            elif isinstance(node, Call) and isinstance(node.op, Op) and node.op.name not in CONVERTERS:
                missing.setdefault(node.op.name, call_text(node))
    if missing:
        calls = "; ".join(missing.values())
        raise OpNotImplementedError(
            f"to_onnx has no form for {len(missing)} operators: {calls}; replace them by others in a pass"
        )


def used_names(nodes: Iterable[NodeProto]) -> Iterator[str]:
    """Iterate over the names that nodes and their subgraphs use."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield from node.input
        for attribute in node.attribute:
            yield from (info.name for info in attribute.g.output)
            stack += attribute.g.node
