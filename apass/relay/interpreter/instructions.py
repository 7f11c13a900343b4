"""The steps of compiled code. A step reads registers and writes one register.

A step is called with the registers. It returns None when it is done. Otherwise it returns an entry: a block of code to
run and the registers of the block. The machine then writes the value of the block to the register `out`.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeGuard

import numpy as np

from apass.relay.errors import EvaluationError
from apass.relay.interpreter.values import ADTValue, FunctionValue, RefValue, Value, describe_value, plain_array
from apass.relay.ir.adt import Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from apass.relay.ir.expr import Expr, If
from apass.relay.ir.function import Function
from apass.relay.visitors.recursion import Walk, walk_deep

__all__ = [
    "Block",
    "BlockEntry",
    "CallStep",
    "Compiled",
    "IfStep",
    "Indices",
    "MakeStep",
    "MatchStep",
    "OpStep",
    "Registers",
    "Routine",
    "Step",
    "kernel_value",
    "location",
]

Indices: TypeAlias = tuple[int, ...]
"""Indices of registers."""
Registers: TypeAlias = list[Value]
"""The values in one activation of a function. An unused register contains the empty tuple."""
BlockEntry: TypeAlias = "tuple[Block, Registers]"
"""The code to run next, and its registers."""


class Step(Protocol):
    """One step of a block."""

    @property
    def out(self) -> int:
        """The register that it writes."""
        ...

    @property
    def dead(self) -> Indices:
        """The registers whose values are not needed after the step."""
        ...

    def __call__(self, regs: Registers, /) -> "BlockEntry | None":
        """Execute the step, or return the entry of the code that computes its value."""
        ...


@dataclass(slots=True, eq=False)
class Block:
    """Straight-line code with one value: the body of a function, branch or clause."""

    steps: list[Step] = field(default_factory=list[Step])
    """The steps in order."""
    result: int = 0
    """The register of the value."""
    dead: Indices = ()
    """The register of the value, if the enclosing code does not need it."""


@dataclass(slots=True, eq=False)
class Routine:
    """A compiled function."""

    func: Function
    """The function."""
    block: Block
    """The code of its body."""
    template: Registers = field(default_factory=list[Value])
    """The initial registers: parameters, then constants, then all others."""
    captured: Indices = ()
    """The registers for the captured values of a closure."""
    self_register: int = -1
    """The register for the closure itself, -1 if the function is not recursive."""


class Compiled(FunctionValue):
    """A function that the machine runs without recursion in Python."""

    __slots__ = ()

    @abstractmethod
    def enter(self, args: list[Value]) -> BlockEntry:
        """Return the code and registers of a call."""


@dataclass(slots=True, eq=False)
class OpStep:
    """A call of the kernel of an operator."""

    expr: Expr
    """The call."""
    kernel: Callable[..., object]
    """The kernel, with the attributes bound."""
    args: Indices
    """The registers of the arguments."""
    dead: Indices
    """The registers whose values are not needed after the step."""
    out: int
    """The register of the result."""

    def __call__(self, regs: Registers, /) -> None:
        """Call the kernel.

        Raises:
            EvaluationError: if the kernel raises.

        """
        try:
            args = self.args
            if len(args) == 2:  # a fast path, because most operators have two arguments
                value = self.kernel(regs[args[0]], regs[args[1]])
            else:
                value = self.kernel(*[regs[arg] for arg in args])
        except EvaluationError:
            raise
        except Exception as error:
            values = ", ".join(describe_value(regs[arg]) for arg in self.args)
            raise EvaluationError(f"{self.expr!r}{location(self.expr)} failed on ({values}): {error}") from error
        for register in self.dead:
            regs[register] = ()
        regs[self.out] = value if type(value) is np.ndarray else kernel_value(value)


@dataclass(slots=True, eq=False)
class MakeStep:
    """Construction or access of a tuple, closure, cell or value of a data type."""

    make: Callable[..., Value]
    """Returns the value for the arguments."""
    args: Indices
    """The registers of the arguments."""
    dead: Indices
    """The registers whose values are not needed after the step."""
    out: int
    """The register of the result."""

    def __call__(self, regs: Registers, /) -> None:
        """Call `make`. Its exceptions propagate."""
        value = self.make(*[regs[arg] for arg in self.args])
        for register in self.dead:
            regs[register] = ()
        regs[self.out] = value


@dataclass(slots=True, eq=False)
class CallStep:
    """A call of a function value."""

    expr: Expr
    """The call."""
    args: Indices
    """The registers of the callee and the arguments."""
    dead: Indices
    """The registers whose values are not needed after the step."""
    out: int
    """The register of the result."""

    def __call__(self, regs: Registers, /) -> "BlockEntry | None":
        """Return the entry of a compiled function, or call any other function.

        Raises:
            EvaluationError: if the callee is not a function, or the number of arguments is wrong.

        """
        callee, *args = [regs[arg] for arg in self.args]
        for register in self.dead:
            regs[register] = ()
        if isinstance(callee, Compiled):
            return callee.enter(args)
        if not isinstance(callee, FunctionValue):
            text = describe_value(callee)
            raise EvaluationError(f"the callee of {self.expr!r}{location(self.expr)} must be a function, got {text}")
        regs[self.out] = callee(*args)
        return None


@dataclass(slots=True, eq=False)
class IfStep:
    """A conditional branch."""

    expr: If
    """The If expression."""
    args: Indices
    """The register of the condition."""
    dead: Indices
    """The registers whose values are not needed after the branch."""
    out: int
    """The register of the result."""
    branches: tuple[Block, Block]
    """The code for a true and for a false condition."""

    def __call__(self, regs: Registers, /) -> BlockEntry:
        """Return the entry of the chosen branch.

        Raises:
            EvaluationError: if the condition is not a scalar.

        """
        cond = regs[self.args[0]]
        if not isinstance(cond, np.ndarray) or cond.size != 1:
            text = describe_value(cond)
            raise EvaluationError(f"the condition of {self.expr!r}{location(self.expr)} must be a scalar, got {text}")
        return self.branches[0 if cond.item() else 1], regs


@dataclass(slots=True, eq=False)
class MatchStep:
    """A branch to the first clause whose pattern matches."""

    expr: Match
    """The Match expression."""
    args: Indices
    """The register of the matched value."""
    dead: Indices
    """The registers whose values are not needed after the clause."""
    out: int
    """The register of the result."""
    clauses: tuple[tuple[Pattern, Indices, Block], ...]
    """The pattern, the registers of its variables, and the code of each clause."""

    def __call__(self, regs: Registers, /) -> BlockEntry:
        """Return the entry of the first matching clause.

        Raises:
            EvaluationError: if no clause matches.

        """
        data = regs[self.args[0]]
        for pattern, registers, block in self.clauses:
            values = _match_values(pattern, data)
            if values is not None:
                for register, value in zip(registers, values, strict=True):
                    regs[register] = value
                return block, regs
        raise EvaluationError(f"no clause of {self.expr!r}{location(self.expr)} matches {describe_value(data)}")


def _match_values(pattern: Pattern, value: Value) -> list[Value] | None:
    """Return the values of the variables of a pattern, or None if it does not match."""
    values: list[Value] = []
    stack = [(pattern, value)]
    while stack:
        part, part_value = stack.pop()
        if isinstance(part, PatternVar):
            values.append(part_value)
        elif isinstance(part, PatternTuple | PatternConstructor):
            fields = _fields(part, part_value)
            if fields is None or len(fields) != len(part.patterns):
                return None
            stack += reversed(list(zip(part.patterns, fields, strict=True)))
    return values


def _fields(pattern: PatternTuple | PatternConstructor, value: Value) -> tuple[Value, ...] | None:
    if isinstance(pattern, PatternTuple):
        return value if isinstance(value, tuple) else None
    if not isinstance(value, ADTValue):
        return None
    # Equal modules may have distinct constructor objects, so compare names as well.
    actual, expected = value.constructor, pattern.constructor
    same = actual is expected or (actual.name_hint == expected.name_hint and actual.belong_to == expected.belong_to)
    return value.fields if same else None


def kernel_value(value: object) -> Value:
    """Return the result of a kernel with scalars as arrays and sequences as tuples.

    An operator that returns its input may return any value, such as a cell.
    """
    if not _is_sequence(value):
        return value if isinstance(value, ADTValue | RefValue | FunctionValue) else plain_array(value)
    if any(map(_is_sequence, value)):
        return walk_deep(_nested_value(value))
    return tuple(map(kernel_value, value))


def _nested_value(value: object) -> Walk[Value]:
    if not _is_sequence(value):
        return kernel_value(value)
    fields: list[Value] = []
    for item in value:
        field = yield _nested_value(item)
        fields.append(field)
    return tuple(fields)


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, tuple | list)


def location(expr: Expr) -> str:
    """Return the source location of an expression as text, empty if unknown."""
    span = expr.span
    return "" if span is None else f" at {span.source_name}:{span.line}:{span.column}"
