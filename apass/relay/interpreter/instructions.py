"""The steps of compiled code: each reads registers, does one thing and writes one; for `lowering` and `machine`.

A step is called with the registers. It returns None when it is done, or the block of code to go on with and the
registers of that, whose value is then put in the register `out`.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeGuard

import numpy as np

from apass.relay.adt import Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from apass.relay.errors import EvaluationError
from apass.relay.expr import Expr, If
from apass.relay.function import Function
from apass.relay.interpreter.values import ADTValue, FunctionValue, Value, describe_value, plain_array

__all__ = [
    "Block",
    "CallStep",
    "Compiled",
    "Entry",
    "IfStep",
    "MakeStep",
    "MatchStep",
    "OpStep",
    "Places",
    "Registers",
    "Routine",
    "Step",
    "kernel_value",
    "location",
]

Places: TypeAlias = tuple[int, ...]
"""Numbers of registers."""
Registers: TypeAlias = list[Value]
"""The values of one activation of a function; the empty tuple where there is none, or none any more."""
Entry: TypeAlias = "tuple[Block, Registers]"
"""Where to go on: the code and its registers."""


class Step(Protocol):
    """One step of a block."""

    @property
    def out(self) -> int:
        """The register that it writes."""
        ...

    @property
    def dead(self) -> Places:
        """The registers whose values nothing needs once it is done."""
        ...

    def __call__(self, regs: Registers, /) -> "Entry | None":
        """Do it, or tell where to go on."""
        ...


@dataclass(slots=True, eq=False)
class Block:
    """Straight code with one value: the body of a function, a branch, a clause."""

    steps: list[Step] = field(default_factory=list[Step])
    """What is done, in order."""
    result: int = 0
    """The register of the value."""
    dead: Places = ()
    """That register too, if nothing around the block needs it."""


@dataclass(slots=True, eq=False)
class Routine:
    """A function that can be run."""

    func: Function
    """The function."""
    block: Block
    """The code of its body."""
    template: Registers = field(default_factory=list[Value])
    """The registers at the beginning: room for the parameters, the constants, room for all else."""
    captured: Places = ()
    """Where the values are put that a closure of it has captured."""
    own: int = -1
    """Where the closure itself is put; -1 if it does not need itself."""


class Compiled(FunctionValue):
    """A function whose code the machine runs without a recursion of Python's."""

    __slots__ = ()

    @abstractmethod
    def enter(self, args: list[Value]) -> Entry:
        """Return the code and its registers for arguments."""


@dataclass(slots=True, eq=False)
class OpStep:
    """Calls the kernel of an operator."""

    expr: Expr
    """The call."""
    kernel: Callable[..., object]
    """The kernel, attributes filled in."""
    args: Places
    """The arguments."""
    dead: Places
    """What nothing needs from here on."""
    out: int
    """The result."""

    def __call__(self, regs: Registers, /) -> None:
        """Do it.

        Raises:
            EvaluationError: if the kernel raises.

        """
        try:
            args = self.args
            if len(args) == 2:  # as below, faster: most operators have two arguments
                value = self.kernel(regs[args[0]], regs[args[1]])
            else:
                value = self.kernel(*[regs[one] for one in args])
        except EvaluationError:
            raise
        except Exception as error:
            given = ", ".join(describe_value(regs[one]) for one in self.args)
            raise EvaluationError(f"{self.expr!r}{location(self.expr)} failed on ({given}): {error}") from error
        for one in self.dead:
            regs[one] = ()
        regs[self.out] = value if type(value) is np.ndarray else kernel_value(value)


@dataclass(slots=True, eq=False)
class MakeStep:
    """Makes a value that is no tensor: a tuple, a field of one, a closure, a cell."""

    make: Callable[..., Value]
    """What makes it."""
    args: Places
    """The arguments."""
    dead: Places
    """What nothing needs from here on."""
    out: int
    """The result."""

    def __call__(self, regs: Registers, /) -> None:
        """Do it; what `make` raises goes on."""
        value = self.make(*[regs[one] for one in self.args])
        for one in self.dead:
            regs[one] = ()
        regs[self.out] = value


@dataclass(slots=True, eq=False)
class CallStep:
    """Calls a value."""

    expr: Expr
    """The call."""
    args: Places
    """What is called, then the arguments."""
    dead: Places
    """What nothing needs from here on."""
    out: int
    """The result."""

    def __call__(self, regs: Registers, /) -> "Entry | None":
        """Go on with the function's code.

        Raises:
            EvaluationError: if it is no function, or takes another number of arguments.

        """
        callee, *args = [regs[one] for one in self.args]
        for one in self.dead:
            regs[one] = ()
        if isinstance(callee, Compiled):
            return callee.enter(args)
        if not isinstance(callee, FunctionValue):
            what = describe_value(callee)
            raise EvaluationError(f"{self.expr!r}{location(self.expr)} calls {what}, which is no function")
        regs[self.out] = callee(*args)
        return None


@dataclass(slots=True, eq=False)
class IfStep:
    """Chooses a branch."""

    expr: If
    """The If."""
    args: Places
    """The condition."""
    dead: Places
    """What nothing needs once the branch is done."""
    out: int
    """The result."""
    branches: tuple[Block, Block]
    """What is done if it is true, and if not."""

    def __call__(self, regs: Registers, /) -> Entry:
        """Go on with the branch.

        Raises:
            EvaluationError: if the condition is no scalar.

        """
        cond = regs[self.args[0]]
        if not isinstance(cond, np.ndarray) or cond.size != 1:
            what = describe_value(cond)
            raise EvaluationError(f"the condition of {self.expr!r}{location(self.expr)} must be a scalar, not {what}")
        return self.branches[0 if cond.item() else 1], regs


@dataclass(slots=True, eq=False)
class MatchStep:
    """Chooses the first clause that fits."""

    expr: Match
    """The Match."""
    args: Places
    """The value."""
    dead: Places
    """What nothing needs once the clause is done."""
    out: int
    """The result."""
    clauses: tuple[tuple[Pattern, Places, Block], ...]
    """The patterns, the registers of the variables that they bind, and what is done then."""

    def __call__(self, regs: Registers, /) -> Entry:
        """Go on with the clause.

        Raises:
            EvaluationError: if none fits.

        """
        data = regs[self.args[0]]
        for pattern, places, block in self.clauses:
            found = _matched(pattern, data)
            if found is not None:
                for place, value in zip(places, found, strict=True):
                    regs[place] = value
                return block, regs
        raise EvaluationError(f"no clause of {self.expr!r}{location(self.expr)} fits {describe_value(data)}")


def _matched(pattern: Pattern, value: Value) -> list[Value] | None:
    """Return what the variables of a pattern stand for, from left to right; None if the value does not fit."""
    found: list[Value] = []
    work = [(pattern, value)]
    while work:
        one, here = work.pop()
        if isinstance(one, PatternVar):
            found.append(here)
        elif isinstance(one, PatternTuple | PatternConstructor):
            fields = _fields(one, here)
            if fields is None or len(fields) != len(one.patterns):
                return None
            work += reversed(list(zip(one.patterns, fields, strict=True)))
    return found


def _fields(pattern: PatternTuple | PatternConstructor, value: Value) -> tuple[Value, ...] | None:
    if isinstance(pattern, PatternTuple):
        return value if isinstance(value, tuple) else None
    if not isinstance(value, ADTValue):
        return None
    made, wanted = value.constructor, pattern.constructor
    same = made is wanted or (made.name_hint == wanted.name_hint and made.belong_to == wanted.belong_to)
    return value.fields if same else None


def kernel_value(value: object) -> Value:
    """Return what a kernel returned as a value: numpy's scalars as arrays, sequences as tuples."""
    return tuple([kernel_value(one) for one in value]) if _is_sequence(value) else plain_array(value)


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, tuple | list)


def location(expr: Expr) -> str:
    """Return where the text of an expression stands, if that is known."""
    span = expr.span
    return "" if span is None else f" at {span.source_name}:{span.line}:{span.column}"
