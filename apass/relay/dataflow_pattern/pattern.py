"""`DFPattern`, and the patterns that its operators and methods return."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from apass.relay.dataflow_pattern.attribute import has_attribute
from apass.relay.dataflow_pattern.fit import Fit, Search
from apass.relay.dataflow_pattern.matcher import Matcher, NodeMap, Pattern
from apass.relay.dataflow_pattern.partitioner import partition_matches
from apass.relay.ir.attrs import DictAttrs
from apass.relay.ir.expr import Call, Constant, Expr, Op, Var, set_field
from apass.relay.ir.ty import Dim, TensorType, Type
from apass.relay.structural.equality import structural_equal

__all__ = [
    "AltPattern",
    "AttrPattern",
    "CallPattern",
    "ConstantPattern",
    "DFPattern",
    "DataTypePattern",
    "DominatorPattern",
    "ExprPattern",
    "ShapePattern",
    "TypePattern",
    "VarPattern",
    "WildcardPattern",
]


class DFPattern(Pattern):
    """A description of expressions, composed from others by operators.

    The basic patterns are `wildcard()`, `is_op(...)` and similar. `p(q, r)` matches a call of a match of `p`. `p | q`
    matches what `p` or `q` matches. `p + q` matches a call of `add`, and `-`, `*` and `/` match the other operators. A
    pattern that is used twice within another must match the same node both times.
    """

    __slots__ = ()

    def __call__(self, *args: "DFPattern | None") -> "CallPattern":
        """Return a pattern of calls; `p(None)` matches calls with any arguments."""
        return CallPattern(self, None if args == (None,) else map(_as_pattern, args))

    def __or__(self, other: "DFPattern") -> "AltPattern":
        return AltPattern(self, other)

    def __add__(self, other: "DFPattern") -> "CallPattern":
        return _op_pattern("add", self, other)

    def __sub__(self, other: "DFPattern") -> "CallPattern":
        return _op_pattern("subtract", self, other)

    def __mul__(self, other: "DFPattern") -> "CallPattern":
        return _op_pattern("multiply", self, other)

    def __truediv__(self, other: "DFPattern") -> "CallPattern":
        return _op_pattern("divide", self, other)

    def has_attr(self, attrs: Mapping[str, object]) -> "AttrPattern":
        """Return a pattern of matches of this one that have all these attributes."""
        return AttrPattern(self, attrs)

    def has_type(self, ttype: Type) -> "TypePattern":
        """Return a pattern of matches of this one that are of the type."""
        return TypePattern(self, ttype)

    def has_dtype(self, dtype: str) -> "DataTypePattern":
        """Return a pattern of matches of this one that are tensors of the element type."""
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Iterable[Dim]) -> "ShapePattern":
        """Return a pattern of matches of this one that are tensors of the shape."""
        return ShapePattern(self, shape)

    def match(self, expr: Expr) -> bool:
        """Return whether the pattern matches an expression."""
        return Matcher(expr).match(self, expr)

    def partition(
        self,
        expr: Expr,
        attrs: Mapping[str, object] | None = None,
        check: Callable[[Expr], bool] = lambda _: True,
    ) -> Expr:
        """Return `partition(self, expr, attrs, check)`."""
        return partition_matches(self, expr, attrs or {}, check)

    def dominates(self, parent: "DFPattern", path: "DFPattern | None" = None) -> "DominatorPattern":
        """Return a pattern of this one where it dominates `parent` over `path`.

        Without a `path`, the nodes between the two may be any.
        """
        return DominatorPattern(parent, WildcardPattern() if path is None else path, self)

    def optional(self, option_constructor: "Callable[[DFPattern], DFPattern]") -> "AltPattern":
        """Return a pattern of this one with an optional user, from `option_constructor`."""
        return self | option_constructor(self)


def _as_pattern(value: object) -> DFPattern:
    if isinstance(value, DFPattern):
        return value
    raise TypeError(f"the arguments of a pattern must be patterns, got {value!r}; wrap an expression in is_expr(...)")


def _op_pattern(name: str, *args: DFPattern) -> "CallPattern":
    return ExprPattern(Op.get(name))(*args)


@dataclass(frozen=True, slots=True, eq=False)
class WildcardPattern(DFPattern):
    """Matches every expression."""

    def fits(self, expr: Expr, matcher: Matcher) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True, slots=True, eq=False)
class ConstantPattern(DFPattern):
    """Matches constants."""

    def fits(self, expr: Expr, matcher: Matcher) -> bool:
        """Return whether the expression is a constant."""
        return isinstance(expr, Constant)

    def embeds(self, match: Expr) -> bool:
        """Return True: a constant that the pattern names is part of the match."""
        return True


@dataclass(frozen=True, slots=True, eq=False, init=False)
class VarPattern(DFPattern):
    """Matches variables."""

    name: str
    """The name; empty for variables of any name."""

    def __init__(self, name_hint: str = "") -> None:
        set_field(self, "name", name_hint)

    def fits(self, expr: Expr, matcher: Matcher) -> bool:
        """Return whether the expression is a variable of this name."""
        return isinstance(expr, Var) and self.name in ("", expr.name_hint)


@dataclass(frozen=True, slots=True, eq=False)
class ExprPattern(DFPattern):
    """Matches expressions that are structurally equal to a given one."""

    expr: Expr
    """The expression."""

    @property
    def is_fixed(self) -> bool:
        """Whether the expression is an operator, of which there is one object."""
        return isinstance(self.expr, Op)

    def fits(self, expr: Expr, matcher: Matcher) -> bool:
        """Return whether the expressions are equal."""
        pattern = self.expr
        if pattern is expr:
            return True
        return type(pattern) is type(expr) and not isinstance(pattern, Op) and structural_equal(pattern, expr)

    def embeds(self, match: Expr) -> bool:
        """Return whether the expression is a constant, which is then part of the match."""
        return isinstance(self.expr, Constant)


@dataclass(frozen=True, slots=True, eq=False, init=False)
class CallPattern(DFPattern):
    """Matches calls.

    The operands of `add` and `multiply` match in either order, and `(a * b) / c` matches `a * (b / c)`.
    """

    op: DFPattern
    """The operator or function."""
    args: tuple[DFPattern, ...] | None
    """The arguments; None matches any."""

    def __init__(self, op: DFPattern, args: Iterable[DFPattern] | None) -> None:
        set_field(self, "op", op)
        set_field(self, "args", None if args is None else tuple(args))

    @property
    def children(self) -> tuple[Pattern, ...]:
        """The operator or function, then the arguments."""
        return (self.op, *(self.args or ()))

    def fits(self, expr: Expr, matcher: Matcher) -> Fit:
        """Return whether the expression is a call whose parts match."""
        return isinstance(expr, Call) and self._fits_call(expr, matcher)

    def _fits_call(self, call: Call, matcher: Matcher) -> Search:
        if not (yield matcher.attempt(self.op, call.op)):
            return (yield self._fits_equivalent(call, matcher))
        if self.args is None or (yield matcher.attempt_all(self.args, call.args)):
            return True
        swaps = op_name(self.op) in ("add", "multiply")
        return swaps and (yield matcher.attempt_all(self.args[::-1], call.args))

    def inputs(self, match: Expr) -> Sequence[Expr]:
        """Return the arguments if they are arbitrary."""
        return match.args if self.args is None and isinstance(match, Call) else ()

    def _fits_equivalent(self, call: Call, matcher: Matcher) -> Fit:
        """Match `(a * b) / c` against `a * (b / c)`, and the reverse."""
        kinds = (op_name(self.op), _name_of(call.op))
        if kinds == ("divide", "multiply") and _has_operand(call, "divide"):
            return _fits_any(self._products(), call, matcher)
        if kinds == ("multiply", "divide") and _has_operand(call, "multiply"):
            return _fits_any(islice(self._quotients(), 1), call, matcher)
        return False

    def _products(self) -> "Iterator[CallPattern]":
        """Iterate over the patterns that write `(a * b) / c` as a product."""
        for product, (left, right), other in self._operands("multiply"):
            if self.args is not None and product is self.args[0]:
                yield CallPattern(product.op, [right, CallPattern(self.op, [left, other])])
                yield CallPattern(product.op, [left, CallPattern(self.op, [right, other])])

    def _quotients(self) -> "Iterator[CallPattern]":
        """Iterate over the patterns that write `(a / b) * c` as a quotient."""
        for quotient, (left, right), factor in self._operands("divide"):
            yield CallPattern(quotient.op, [CallPattern(self.op, [left, factor]), right])

    def _operands(self, name: str) -> "Iterator[tuple[CallPattern, tuple[DFPattern, DFPattern], DFPattern]]":
        """Iterate over the operands that are calls of an operator.

        Each is yielded with its own two operands, and with the other operand of this pattern.
        """
        args = self.args or ()
        for operand, other in zip(args, args[::-1], strict=True):
            if isinstance(operand, CallPattern) and op_name(operand.op) == name and operand.args is not None:
                yield operand, (operand.args[0], operand.args[-1]), other


def _fits_any(patterns: "Iterable[CallPattern]", call: Call, matcher: Matcher) -> Search:
    for pattern in patterns:
        if (yield matcher.attempt(pattern, call)):
            return True
    return False


def op_name(pattern: DFPattern) -> str:
    """Return the name of the operator that a pattern matches; empty for others."""
    return _name_of(pattern.expr) if isinstance(pattern, ExprPattern) else ""


def _name_of(expr: Expr) -> str:
    return expr.name if isinstance(expr, Op) else ""


def _has_operand(call: Call, name: str) -> bool:
    return any(isinstance(arg, Call) and _name_of(arg.op) == name for arg in call.args)


@dataclass(frozen=True, slots=True, eq=False)
class AltPattern(DFPattern):
    """Matches what one of two patterns matches; the left one is tried first."""

    left: DFPattern
    """The first pattern."""
    right: DFPattern
    """The second pattern."""

    @property
    def children(self) -> tuple[Pattern, ...]:
        """Both patterns."""
        return (self.left, self.right)

    def fits(self, expr: Expr, matcher: Matcher) -> Search:
        """Return whether one of the patterns matches."""
        return (yield matcher.attempt(self.left, expr)) or (yield matcher.attempt(self.right, expr))


@dataclass(frozen=True, slots=True, eq=False, init=False)
class AttrPattern(DFPattern):
    """Matches what another pattern matches, if it has certain attributes.

    These are the attributes of a call, a function or an operator.
    """

    pattern: DFPattern
    """The other pattern."""
    attrs: DictAttrs
    """The required attributes; others are ignored."""

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, object] | DictAttrs) -> None:
        set_field(self, "pattern", pattern)
        set_field(self, "attrs", attrs if isinstance(attrs, DictAttrs) else DictAttrs(attrs))

    @property
    def children(self) -> tuple[Pattern, ...]:
        """The other pattern."""
        return (self.pattern,)

    def fits(self, expr: Expr, matcher: Matcher) -> Search:
        """Return whether the other pattern matches, and the attributes are equal."""
        matches = yield matcher.attempt(self.pattern, expr)
        return matches and all(has_attribute(expr, name, value) for name, value in self.attrs.items())


@dataclass(frozen=True, slots=True, eq=False, init=False)
class TypePattern(DFPattern):
    """Matches what another pattern matches, if it is of a type."""

    pattern: DFPattern
    """The other pattern."""
    type: Type
    """The type."""

    def __init__(self, pattern: DFPattern, ttype: Type) -> None:
        set_field(self, "pattern", pattern)
        set_field(self, "type", ttype)

    @property
    def children(self) -> tuple[Pattern, ...]:
        """The other pattern."""
        return (self.pattern,)

    def fits(self, expr: Expr, matcher: Matcher) -> Search:
        """Return whether the other pattern matches, and the type is equal."""
        matches = yield matcher.attempt(self.pattern, expr)
        return matches and structural_equal(matcher.type_of(expr), self.type)


@dataclass(frozen=True, slots=True, eq=False)
class DataTypePattern(DFPattern):
    """Matches what another pattern matches, if it is a tensor of an element type."""

    pattern: DFPattern
    """The other pattern."""
    dtype: str
    """The element type."""

    @property
    def children(self) -> tuple[Pattern, ...]:
        """The other pattern."""
        return (self.pattern,)

    def fits(self, expr: Expr, matcher: Matcher) -> Search:
        """Return whether the other pattern matches a tensor of the element type."""
        ty = matcher.type_of(expr) if (yield matcher.attempt(self.pattern, expr)) else None
        return isinstance(ty, TensorType) and ty.dtype == self.dtype


@dataclass(frozen=True, slots=True, eq=False, init=False)
class ShapePattern(DFPattern):
    """Matches what another pattern matches, if it is a tensor of a shape."""

    pattern: DFPattern
    """The other pattern."""
    shape: tuple[Dim, ...]
    """The shape."""

    def __init__(self, pattern: DFPattern, shape: Iterable[Dim]) -> None:
        set_field(self, "pattern", pattern)
        set_field(self, "shape", TensorType(shape).shape)

    @property
    def children(self) -> tuple[Pattern, ...]:
        """The other pattern."""
        return (self.pattern,)

    def fits(self, expr: Expr, matcher: Matcher) -> Search:
        """Return whether the other pattern matches a tensor of the shape."""
        ty = matcher.type_of(expr) if (yield matcher.attempt(self.pattern, expr)) else None
        return isinstance(ty, TensorType) and ty.shape == self.shape


@dataclass(frozen=True, slots=True, eq=False)
class DominatorPattern(DFPattern):
    """Matches a node that dominates a match of `parent`.

    All paths from the operands of the node must lead to that match, over nodes that match `path`.
    """

    parent: DFPattern
    """The pattern of the node where the paths start."""
    path: DFPattern
    """The pattern of each node between the two."""
    child: DFPattern
    """The pattern of the node where the paths end, which is the match."""

    @property
    def children(self) -> tuple[Pattern, ...]:
        """The parent, the path and the child."""
        return (self.parent, self.path, self.child)

    def fits(self, expr: Expr, matcher: Matcher) -> Search:
        """Return whether the child matches and dominates the parent."""
        matches = yield matcher.attempt(self.child, expr)
        return matches and matcher.dominates(self, self.parent, self.path, expr)

    def inner(self, node_map: NodeMap) -> Iterator[Expr]:
        """Iterate over the parent and the nodes on the path."""
        yield from node_map.get(self.parent, ())
        yield from node_map.get(self.path, ())
