"""`DFPattern` and the patterns that its operators and methods make."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from apass.relay.dataflow_pattern.attribute import has_attribute
from apass.relay.dataflow_pattern.fit import Fit, Search
from apass.relay.dataflow_pattern.matcher import Matcher, NodeMap, Pattern
from apass.relay.dataflow_pattern.partitioner import partition_matches
from apass.relay.expr import Call, Constant, Expr, Op, Var, set_field
from apass.relay.ir.attrs import DictAttrs
from apass.relay.structural.equality import structural_equal
from apass.relay.ty import Dim, TensorType, Type

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
    """A description of expressions, made with `wildcard()`, `is_op(...)` and the like and put together with operators.

    `p(q, r)` is a call of what `p` matches, `p | q` matches what one of them does, `p + q` is a call of `add`; so are
    `-`, `*` and `/`. A pattern that is used twice within another stands for one and the same node.
    """

    __slots__ = ()

    def __call__(self, *args: "DFPattern | None") -> "CallPattern":
        """Return a pattern for calls; `p(None)` fits calls with any arguments."""
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
        """Return a pattern for what this one matches, if it has all these attributes."""
        return AttrPattern(self, attrs)

    def has_type(self, ttype: Type) -> "TypePattern":
        """Return a pattern for what this one matches, if it is of the type."""
        return TypePattern(self, ttype)

    def has_dtype(self, dtype: str) -> "DataTypePattern":
        """Return a pattern for what this one matches, if it is a tensor of the element type."""
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Iterable[Dim]) -> "ShapePattern":
        """Return a pattern for what this one matches, if it is a tensor of the shape."""
        return ShapePattern(self, shape)

    def match(self, expr: Expr) -> bool:
        """Tell whether the pattern matches an expression."""
        return Matcher(expr).match(self, expr)

    def partition(
        self,
        expr: Expr,
        attrs: Mapping[str, object] | None = None,
        check: Callable[[Expr], bool] = lambda _: True,
    ) -> Expr:
        """Do as `partition(self, expr, attrs, check)`."""
        return partition_matches(self, expr, attrs or {}, check)

    def dominates(self, parent: "DFPattern", path: "DFPattern | None" = None) -> "DominatorPattern":
        """Return a pattern for this one where all that it is computed from matches `path`, up to the `parent`."""
        return DominatorPattern(parent, WildcardPattern() if path is None else path, self)

    def optional(self, option_constructor: "Callable[[DFPattern], DFPattern]") -> "AltPattern":
        """Return a pattern for this one, or for what `option_constructor` makes of it: a user that may be there."""
        return self | option_constructor(self)


def _as_pattern(given: object) -> DFPattern:
    if isinstance(given, DFPattern):
        return given
    raise TypeError(f"the arguments of a pattern must be patterns, not {given!r}; for an expression write is_expr(...)")


def _op_pattern(name: str, *args: DFPattern) -> "CallPattern":
    return ExprPattern(Op.get(name))(*args)


@dataclass(frozen=True, slots=True, eq=False)
class WildcardPattern(DFPattern):
    """Matches everything."""

    def fits(self, expr: Expr, matcher: Matcher) -> bool:
        """Tell that it does."""
        return True


@dataclass(frozen=True, slots=True, eq=False)
class ConstantPattern(DFPattern):
    """Matches constants."""

    def fits(self, expr: Expr, matcher: Matcher) -> bool:
        """Tell whether it is one."""
        return isinstance(expr, Constant)

    def embeds(self, match: Expr) -> bool:
        """Tell that a constant that was asked for is part of the match."""
        return True


@dataclass(frozen=True, slots=True, eq=False, init=False)
class VarPattern(DFPattern):
    """Matches variables."""

    name: str
    """The name; empty for all."""

    def __init__(self, name_hint: str = "") -> None:
        set_field(self, "name", name_hint)

    def fits(self, expr: Expr, matcher: Matcher) -> bool:
        """Tell whether it is a variable of the name."""
        return isinstance(expr, Var) and self.name in ("", expr.name_hint)


@dataclass(frozen=True, slots=True, eq=False)
class ExprPattern(DFPattern):
    """Matches what is structurally equal to an expression."""

    expr: Expr
    """The expression."""

    @property
    def is_fixed(self) -> bool:
        """Whether it is an operator."""
        return isinstance(self.expr, Op)

    def fits(self, expr: Expr, matcher: Matcher) -> bool:
        """Tell whether it is equal."""
        own = self.expr
        return own is expr or (type(own) is type(expr) and not isinstance(own, Op) and structural_equal(own, expr))

    def embeds(self, match: Expr) -> bool:
        """Tell whether a constant was asked for."""
        return isinstance(self.expr, Constant)


@dataclass(frozen=True, slots=True, eq=False, init=False)
class CallPattern(DFPattern):
    """Matches calls.

    The operands of `add` and `multiply` fit in either order, and `(a * b) / c` fits `a * (b / c)`.
    """

    op: DFPattern
    """What is called."""
    args: tuple[DFPattern, ...] | None
    """The arguments; None for any."""

    def __init__(self, op: DFPattern, args: Iterable[DFPattern] | None) -> None:
        set_field(self, "op", op)
        set_field(self, "args", None if args is None else tuple(args))

    @property
    def children(self) -> tuple[Pattern, ...]:
        """What is called, then the arguments."""
        return (self.op, *(self.args or ()))

    def fits(self, expr: Expr, matcher: Matcher) -> Fit:
        """Tell whether it is a call that fits."""
        return isinstance(expr, Call) and self._fits_call(expr, matcher)

    def _fits_call(self, call: Call, matcher: Matcher) -> Search:
        if not (yield matcher.attempt(self.op, call.op)):
            return (yield self._fits_otherwise(call, matcher))
        if self.args is None or (yield matcher.attempt_all(self.args, call.args)):
            return True
        swaps = op_name(self.op) in ("add", "multiply")
        return swaps and (yield matcher.attempt_all(self.args[::-1], call.args))

    def inputs(self, match: Expr) -> Sequence[Expr]:
        """Return the arguments, if they may be any."""
        return match.args if self.args is None and isinstance(match, Call) else ()

    def _fits_otherwise(self, call: Call, matcher: Matcher) -> Fit:
        """Try a pattern `(a * b) / c` on `a * (b / c)`, and the other way round."""
        kinds = (op_name(self.op), _name_of(call.op))
        if kinds == ("divide", "multiply") and _has_operand(call, "divide"):
            return _fits_one(self._products(), call, matcher)
        if kinds == ("multiply", "divide") and _has_operand(call, "multiply"):
            return _fits_one(islice(self._quotients(), 1), call, matcher)
        return False

    def _products(self) -> "Iterator[CallPattern]":
        """Go over the ways to write a pattern for `(a * b) / c` as a product."""
        for product, (left, right), beside in self._operands("multiply"):
            if self.args is not None and product is self.args[0]:
                yield CallPattern(product.op, [right, CallPattern(self.op, [left, beside])])
                yield CallPattern(product.op, [left, CallPattern(self.op, [right, beside])])

    def _quotients(self) -> "Iterator[CallPattern]":
        """Go over the ways to write a pattern for `(a / b) * c` as a quotient."""
        for quotient, (left, right), factor in self._operands("divide"):
            yield CallPattern(quotient.op, [CallPattern(self.op, [left, factor]), right])

    def _operands(self, name: str) -> "Iterator[tuple[CallPattern, tuple[DFPattern, DFPattern], DFPattern]]":
        """Go over the operands that are calls of an operator, each with its own two and the operand beside it."""
        args = self.args or ()
        for one, beside in zip(args, args[::-1], strict=True):
            if isinstance(one, CallPattern) and op_name(one.op) == name and one.args is not None:
                yield one, (one.args[0], one.args[-1]), beside


def _fits_one(patterns: "Iterable[CallPattern]", call: Call, matcher: Matcher) -> Search:
    for one in patterns:
        if (yield matcher.attempt(one, call)):
            return True
    return False


def op_name(pattern: DFPattern) -> str:
    """Return the name of the operator that a pattern stands for, empty if it stands for none."""
    return _name_of(pattern.expr) if isinstance(pattern, ExprPattern) else ""


def _name_of(expr: Expr) -> str:
    return expr.name if isinstance(expr, Op) else ""


def _has_operand(call: Call, name: str) -> bool:
    return any(isinstance(one, Call) and _name_of(one.op) == name for one in call.args)


@dataclass(frozen=True, slots=True, eq=False)
class AltPattern(DFPattern):
    """Matches what one of two patterns does; the left one is tried first."""

    left: DFPattern
    """The one."""
    right: DFPattern
    """The other."""

    @property
    def children(self) -> tuple[Pattern, ...]:
        """Both."""
        return (self.left, self.right)

    def fits(self, expr: Expr, matcher: Matcher) -> Search:
        """Tell whether one of them does."""
        return (yield matcher.attempt(self.left, expr)) or (yield matcher.attempt(self.right, expr))


@dataclass(frozen=True, slots=True, eq=False, init=False)
class AttrPattern(DFPattern):
    """Matches what another pattern does, if it has attributes: those of a call, a function, or an operator."""

    pattern: DFPattern
    """The other pattern."""
    attrs: DictAttrs
    """The attributes that it must have; others do not matter."""

    def __init__(self, pattern: DFPattern, attrs: Mapping[str, object] | DictAttrs) -> None:
        set_field(self, "pattern", pattern)
        set_field(self, "attrs", attrs if isinstance(attrs, DictAttrs) else DictAttrs(attrs))

    @property
    def children(self) -> tuple[Pattern, ...]:
        """The other pattern."""
        return (self.pattern,)

    def fits(self, expr: Expr, matcher: Matcher) -> Search:
        """Tell whether it matches and has them."""
        found = yield matcher.attempt(self.pattern, expr)
        return found and all(has_attribute(expr, name, value) for name, value in self.attrs.items())


@dataclass(frozen=True, slots=True, eq=False, init=False)
class TypePattern(DFPattern):
    """Matches what another pattern does, if it is of a type."""

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
        """Tell whether it matches and is."""
        found = yield matcher.attempt(self.pattern, expr)
        return found and structural_equal(matcher.type_of(expr), self.type)


@dataclass(frozen=True, slots=True, eq=False)
class DataTypePattern(DFPattern):
    """Matches what another pattern does, if it is a tensor of an element type."""

    pattern: DFPattern
    """The other pattern."""
    dtype: str
    """The element type."""

    @property
    def children(self) -> tuple[Pattern, ...]:
        """The other pattern."""
        return (self.pattern,)

    def fits(self, expr: Expr, matcher: Matcher) -> Search:
        """Tell whether it matches and is."""
        ty = matcher.type_of(expr) if (yield matcher.attempt(self.pattern, expr)) else None
        return isinstance(ty, TensorType) and ty.dtype == self.dtype


@dataclass(frozen=True, slots=True, eq=False, init=False)
class ShapePattern(DFPattern):
    """Matches what another pattern does, if it is a tensor of a shape."""

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
        """Tell whether it matches and is."""
        ty = matcher.type_of(expr) if (yield matcher.attempt(self.pattern, expr)) else None
        return isinstance(ty, TensorType) and ty.shape == self.shape


@dataclass(frozen=True, slots=True, eq=False)
class DominatorPattern(DFPattern):
    """Matches a node all of whose operands lead, over nodes that match `path`, to one that it dominates: the parent."""

    parent: DFPattern
    """Where the paths start."""
    path: DFPattern
    """What each node between must match."""
    child: DFPattern
    """Where they end; this is the node that the pattern matches."""

    @property
    def children(self) -> tuple[Pattern, ...]:
        """The parent, the path and the child."""
        return (self.parent, self.path, self.child)

    def fits(self, expr: Expr, matcher: Matcher) -> Search:
        """Tell whether the child matches and dominates the parent."""
        found = yield matcher.attempt(self.child, expr)
        return found and matcher.dominates(self, self.parent, self.path, expr)

    def inner(self, node_map: NodeMap) -> Iterator[Expr]:
        """Go over the parent and what is on the path."""
        yield from node_map.get(self.parent, ())
        yield from node_map.get(self.path, ())
