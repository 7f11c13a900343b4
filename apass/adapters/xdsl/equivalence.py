"""Proofs that functions of arithmetic in MLIR are equivalent, by the solver z3.

Functions of integers and indices are encoded if they consist of `arith`, `func.call` and `scf.if`. Integers are bit
vectors; an index has 64 bits. As in Alive2, each value has a condition under which it is poison: after an overflow that
a flag excludes, or a shift by more than the width. A division by zero has no result at all. The function after may do
anything for arguments for which the result before is poison or missing. For all others it must return the same.

Source: Lopes et al., "Alive2: Bounded Translation Validation for LLVM", PLDI 2021, and MLIR's dialect `arith`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, TypeAlias

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import CallableOpInterface

from apass.adapters.xdsl import ADAPTER
from apass.adapters.xdsl.outputs import is_public, signature
from apass.core.ir_plugin import Proof
from apass.errors import AdapterError
from apass.external.solver import NotEncodedError, counterexample

__all__ = ["search"]

z3: Final[Any] = import_module("z3")
"""The solver; the package has no type annotations."""

INDEX_BITS: Final = 64
"""The width of an index."""

MOST_OPERATIONS: Final = 5_000
"""Operations of a function, counted again for each call."""

# The types of xDSL have parameters, which do not matter here, and which a type checker would not know.
_INTEGER: Final[Any] = IntegerType


@dataclass(frozen=True, slots=True)
class _Term:
    """A value."""

    bits: Any
    """The bit vector."""
    poison: Any
    """The condition under which it is poison."""


@dataclass
class _Run:
    """The evaluation of one function on terms."""

    mod: ModuleOp
    defined: list[Any] = field(default_factory=list[Any])
    """The conditions under which there is a result."""
    operations: int = 0

    def call(self, func: Operation, arguments: Sequence[_Term]) -> Sequence[_Term]:
        """Return the results of a call."""
        blocks = list(func.regions[0].blocks)
        if len(blocks) != 1:
            raise NotEncodedError("functions of several blocks")
        return self.block(blocks[0], dict(zip(blocks[0].args, arguments, strict=True)))

    def block(self, block: Block, values: dict[SSAValue, _Term]) -> Sequence[_Term]:
        """Return the operands of the last operation of a block."""
        for op in block.ops:
            self.operations += 1
            if self.operations > MOST_OPERATIONS:
                raise NotEncodedError(f"more than {MOST_OPERATIONS:,} operations")
            operands = [values[operand] for operand in op.operands]
            if op.name in ("func.return", "scf.yield"):
                return operands
            values.update(zip(op.results, self.operation(op, operands, values), strict=True))
        raise NotEncodedError("a block without a return")

    def operation(self, op: Operation, operands: Sequence[_Term], values: Mapping[SSAValue, _Term]) -> Sequence[_Term]:
        """Return the results of an operation."""
        attributes: Any = {**op.attributes, **op.properties}
        flags = _flags(op.name, attributes)
        match op.name:
            case "arith.constant":
                value: Any = attributes["value"]
                if not isinstance(value, IntegerAttr):
                    raise NotEncodedError(f"constants of type {op.results[0].type}")
                return [_Term(z3.BitVecVal(value.value.data, _bits(op.results[0].type)), z3.BoolVal(False))]
            case "func.call":
                callee: Any = attributes["callee"]
                try:
                    func = ADAPTER.get(self.mod, callee.string_value())
                except KeyError:
                    raise NotEncodedError(f"calls of {callee.string_value()!r}, which has no body") from None
                return self.call(func, operands)
            case "scf.if":
                return self.choice(op, operands[0], values)
            case "arith.select":
                return [_selected(*operands)]
            case "arith.cmpi":
                predicate: Any = attributes["predicate"]
                holds = _compared_integers(int(predicate.value.data), operands[0].bits, operands[1].bits)
                return [_Term(z3.If(holds, z3.BitVecVal(1, 1), z3.BitVecVal(0, 1)), _any_poison(operands))]
            case name if name in _DIVISIONS:
                return [self.division(name, flags, *operands)]
            case name if name in _EXTENDED:
                return _extended(name, *operands)
            case name if name in _CASTS:
                return [_cast(name, flags, operands[0], _bits(op.results[0].type))]
            case name if name in _BINARY:
                return [_binary(name, flags, *operands)]
            case name:
                raise NotEncodedError(f"operation {name}")

    def choice(self, op: Operation, condition: _Term, values: Mapping[SSAValue, _Term]) -> Sequence[_Term]:
        """Return the results of an `scf.if`."""
        # A branch on poison has no result.
        self.defined.append(z3.Not(condition.poison))
        is_taken = condition.bits == 1
        branches: list[Sequence[_Term]] = []
        for region, holds in zip(op.regions, (is_taken, z3.Not(is_taken)), strict=True):
            count = len(self.defined)
            branches.append(self.block(region.block, dict(values)) if region.blocks else ())
            self.defined[count:] = [z3.Implies(holds, needed) for needed in self.defined[count:]]
        return [
            _Term(z3.If(is_taken, one.bits, other.bits), z3.If(is_taken, one.poison, other.poison))
            for one, other in zip(*branches, strict=True)
        ]

    def division(self, name: str, flags: str, lhs: _Term, rhs: _Term) -> _Term:
        """Return a quotient or a remainder."""
        divide, is_signed = _DIVISIONS[name]
        self.defined += [z3.Not(rhs.poison), rhs.bits != 0]
        if is_signed:
            smallest = z3.BitVecVal(1 << (lhs.bits.size() - 1), lhs.bits.size())
            # Poison may be the smallest integer. The remainder overflows as well: processors compute both at once.
            self.defined.append(z3.Not(z3.And(z3.Or(lhs.poison, lhs.bits == smallest), rhs.bits == -1)))
        quotient = divide(lhs.bits, rhs.bits)
        return _Term(quotient, z3.Or(lhs.poison, quotient * rhs.bits != lhs.bits) if "exact" in flags else lhs.poison)


def search(before: bytes, after: bytes) -> Proof:
    """Search for a proof that the public functions of two modules are equivalent.

    Parameters:
        before: the module before, as the adapter writes it.
        after: the module after.

    Raises:
        NotEncodedError: if a module cannot be read, or the module before has no public functions.

    """
    try:
        mods = ADAPTER.loads(before), ADAPTER.loads(after)
    except AdapterError as error:  # from an `mlir-opt` with other dialects
        raise NotEncodedError(f"xDSL cannot read it: {str(error).partition(chr(10))[0]}") from error
    functions = [{name: func for name, func in ADAPTER.functions(mod) if is_public(func)} for mod in mods]
    if not functions[0]:
        raise NotEncodedError("a module without public functions")
    reasons: dict[str, str] = {}
    beside = [[op for op in mod.body.ops if not op.has_trait(CallableOpInterface)] for mod in mods]
    if len(beside[0]) != len(beside[1]) or not all(map(ADAPTER.equal, *beside)):
        reasons["operations beside the functions"] = "they changed"
    for name, func in functions[0].items():
        try:
            if name not in functions[1]:
                raise NotEncodedError("it was removed")
            proof = _compared(mods, func, functions[1][name])
        except NotEncodedError as error:
            proof = Proof(None, f"not encoded for the solver: {error}")
        if proof.equal is False:
            return Proof(False, f"function {name!r} {proof.text}")
        if proof.equal is None:
            reasons[name] = proof.text
    if reasons:
        proved = tuple(name for name in functions[0] if name not in reasons)
        return Proof(None, ", ".join(f"{name} ({reason})" for name, reason in reasons.items()), proved)
    names = f": {', '.join(functions[0])}" if len(functions[0]) > 1 else ""
    return Proof(True, f"proved for all arguments{names}")


def _compared(mods: tuple[ModuleOp, ModuleOp], before: Operation, after: Operation) -> Proof:
    """Search for a proof that two functions are equivalent."""
    types = signature(before)
    if signature(after) != types:
        raise NotEncodedError("its signature changed")
    arguments = [z3.BitVec(f"%{index}", _bits(tp)) for index, tp in enumerate(types[0])]
    runs = [_Run(mod) for mod in mods]
    terms = [_Term(argument, z3.BoolVal(False)) for argument in arguments]
    expected, found = (run.call(func, terms) for run, func in zip(runs, (before, after), strict=True))
    expected_poison, found_poison = (_any_poison(terms) for terms in (expected, found))
    lost = z3.Or(found_poison, *(z3.Not(needed) for needed in runs[1].defined))
    wrong = [
        z3.And(z3.Not(old.poison), z3.Or(new.poison, old.bits != new.bits))
        for old, new in zip(expected, found, strict=True)
    ]
    answer = counterexample(runs[0].defined, z3.Or(*wrong, *(z3.Not(needed) for needed in runs[1].defined)))
    if answer.reason:
        return Proof(None, answer.reason)
    if answer.model is None:
        return Proof(True, "")

    def value(term: Any) -> Any:
        return answer.model.eval(term, model_completion=True)

    def shown(terms: Iterable[Any]) -> str:
        return f"({', '.join(str(value(term).as_signed_long()) for term in terms)})"

    before_text, after_text = (shown(term.bits for term in terms) for terms in (expected, found))
    if z3.is_true(value(expected_poison)):
        before_text = "results that are partly poison"
    change = "has no result" if z3.is_true(value(lost)) else f"returns {after_text}"
    return Proof(False, f"returns {before_text} before, and {change} after, for the arguments {shown(arguments)}")


def _bits(tp: Any) -> int:
    if isinstance(tp, IndexType):
        return INDEX_BITS
    if isinstance(tp, _INTEGER):
        width: int = tp.width.data
        return width
    raise NotEncodedError(f"values of type {tp}")


def _flags(name: str, attributes: Mapping[str, Any]) -> str:
    """Return the flags that make results poison, such as `nsw exact`."""
    if not name.startswith("arith."):
        return ""
    # A later `mlir-opt` has more flags. Names with a dot are attributes of other dialects, without such a meaning.
    unknown = [key for key in attributes if key not in _KNOWN_ATTRIBUTES and "." not in key]
    if unknown:
        raise NotEncodedError(f"the attribute {unknown[0]!r} of {name}")
    return f"{attributes.get('overflowFlags', '')} {'exact' if 'isExact' in attributes else ''}"


def _any_poison(operands: Sequence[_Term]) -> Any:
    return z3.Or(*(operand.poison for operand in operands))


def _selected(condition: _Term, one: _Term, other: _Term) -> _Term:
    is_taken = condition.bits == 1
    poison = z3.Or(condition.poison, z3.If(is_taken, one.poison, other.poison))
    return _Term(z3.If(is_taken, one.bits, other.bits), poison)


def _binary(name: str, flags: str, lhs: _Term, rhs: _Term) -> _Term:
    poison = [lhs.poison, rhs.poison]
    if name in _SHIFTS:
        poison.append(z3.UGE(rhs.bits, rhs.bits.size()))
    for flag, is_signed in _NO_WRAP:
        if flag in flags:
            poison.append(_overflows(name, is_signed, lhs.bits, rhs.bits))
    result = _BINARY[name](lhs.bits, rhs.bits)
    if "exact" in flags:  # of a shift to the right, which loses no bit
        poison.append(result << rhs.bits != lhs.bits)
    return _Term(result, z3.Or(*poison))


def _cast(name: str, flags: str, operand: _Term, width: int) -> _Term:
    bits = _CASTS[name](operand.bits, width)
    lost = [
        (z3.SignExt if is_signed else z3.ZeroExt)(operand.bits.size() - width, bits) != operand.bits
        for flag, is_signed in _NO_WRAP
        if flag in flags
    ]
    return _Term(bits, z3.Or(operand.poison, *lost))


def _extended(name: str, lhs: _Term, rhs: _Term) -> Sequence[_Term]:
    """Return the lower and the upper bits of an exact result."""
    combine, extend = _EXTENDED[name]
    width, poison = lhs.bits.size(), z3.Or(lhs.poison, rhs.poison)
    exact = combine(extend(width, lhs.bits), extend(width, rhs.bits))
    # The second result of a sum is the carry, and of a product the upper half.
    last = width if name == "arith.addui_extended" else 2 * width - 1
    return [_Term(z3.Extract(width - 1, 0, exact), poison), _Term(z3.Extract(last, width, exact), poison)]


def _overflows(name: str, is_signed: bool, lhs: Any, rhs: Any) -> Any:
    """Return whether the exact result differs from that of the width."""
    width = lhs.size()
    # Twice the width holds each sum and product, and each shift by less than the width.
    extend = z3.SignExt if is_signed else z3.ZeroExt
    amount = z3.ZeroExt(width, rhs) if name in _SHIFTS else extend(width, rhs)
    exact = _BINARY[name](extend(width, lhs), amount)
    return exact != extend(width, _BINARY[name](lhs, rhs))


_Binary: TypeAlias = Callable[[Any, Any], Any]


def _floor_division(lhs: Any, rhs: Any) -> Any:
    # Not by `lhs - lhs % rhs`, which overflows.
    quotient, remainder = lhs / rhs, z3.SRem(lhs, rhs)
    is_rounded_down = z3.And(remainder != 0, (lhs < 0) != (rhs < 0))
    return z3.If(is_rounded_down, quotient - 1, quotient)


def _ceiling_division(lhs: Any, rhs: Any) -> Any:
    quotient, remainder = lhs / rhs, z3.SRem(lhs, rhs)
    is_rounded_up = z3.And(remainder != 0, (lhs < 0) == (rhs < 0))
    return z3.If(is_rounded_up, quotient + 1, quotient)


def _unsigned_ceiling_division(lhs: Any, rhs: Any) -> Any:
    quotient = z3.UDiv(lhs, rhs)
    return z3.If(z3.URem(lhs, rhs) != 0, quotient + 1, quotient)


_DIVISIONS: Final[Mapping[str, tuple[_Binary, bool]]] = {
    "arith.divsi": (lambda lhs, rhs: lhs / rhs, True),
    "arith.divui": (z3.UDiv, False),
    "arith.remsi": (z3.SRem, True),
    "arith.remui": (z3.URem, False),
    "arith.floordivsi": (_floor_division, True),
    "arith.ceildivsi": (_ceiling_division, True),
    "arith.ceildivui": (_unsigned_ceiling_division, False),
}
"""Each division, and whether the quotient of the smallest integer and -1 overflows."""

_NO_WRAP: Final = (("nsw", True), ("nuw", False))
"""The flags that exclude an overflow, and whether numbers are signed then."""

_KNOWN_ATTRIBUTES: Final = frozenset(("isExact", "overflowFlags", "predicate", "value"))
"""The attributes of `arith` that are encoded."""

_SHIFTS: Final = frozenset(("arith.shli", "arith.shrsi", "arith.shrui"))

_BINARY: Final[Mapping[str, _Binary]] = {
    "arith.addi": lambda lhs, rhs: lhs + rhs,
    "arith.subi": lambda lhs, rhs: lhs - rhs,
    "arith.muli": lambda lhs, rhs: lhs * rhs,
    "arith.andi": lambda lhs, rhs: lhs & rhs,
    "arith.ori": lambda lhs, rhs: lhs | rhs,
    "arith.xori": lambda lhs, rhs: lhs ^ rhs,
    "arith.shli": lambda lhs, rhs: lhs << rhs,
    "arith.shrsi": lambda lhs, rhs: lhs >> rhs,
    "arith.shrui": lambda lhs, rhs: z3.LShR(lhs, rhs),
    "arith.maxsi": lambda lhs, rhs: z3.If(lhs < rhs, rhs, lhs),
    "arith.minsi": lambda lhs, rhs: z3.If(lhs < rhs, lhs, rhs),
    "arith.maxui": lambda lhs, rhs: z3.If(z3.ULT(lhs, rhs), rhs, lhs),
    "arith.minui": lambda lhs, rhs: z3.If(z3.ULT(lhs, rhs), lhs, rhs),
}

_EXTENDED: Final[Mapping[str, tuple[_Binary, Callable[[int, Any], Any]]]] = {
    "arith.addui_extended": (_BINARY["arith.addi"], z3.ZeroExt),
    "arith.mulsi_extended": (_BINARY["arith.muli"], z3.SignExt),
    "arith.mului_extended": (_BINARY["arith.muli"], z3.ZeroExt),
}
"""The operations with two results, and how their operands are extended."""

_PREDICATES: Final[tuple[_Binary, ...]] = (
    lambda lhs, rhs: lhs == rhs,
    lambda lhs, rhs: lhs != rhs,
    lambda lhs, rhs: lhs < rhs,
    lambda lhs, rhs: lhs <= rhs,
    lambda lhs, rhs: lhs > rhs,
    lambda lhs, rhs: lhs >= rhs,
    z3.ULT,
    z3.ULE,
    z3.UGT,
    z3.UGE,
)
"""The predicates of `arith.cmpi`, by their number."""


def _compared_integers(predicate: int, lhs: Any, rhs: Any) -> Any:
    return _PREDICATES[predicate](lhs, rhs)


def _resized(extend: Callable[[int, Any], Any]) -> Callable[[Any, int], Any]:
    def resize(bits: Any, width: int) -> Any:
        known = bits.size()
        return extend(width - known, bits) if width > known else z3.Extract(width - 1, 0, bits)

    return resize


_CASTS: Final[Mapping[str, Callable[[Any, int], Any]]] = {
    "arith.extsi": _resized(z3.SignExt),
    "arith.extui": _resized(z3.ZeroExt),
    "arith.trunci": _resized(z3.ZeroExt),
    "arith.index_cast": _resized(z3.SignExt),
    "arith.index_castui": _resized(z3.ZeroExt),
}
