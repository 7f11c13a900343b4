"""The machine that runs compiled functions: calls are kept on a stack of its own, so that no depth is too great."""

from collections.abc import Iterator
from operator import length_hint
from typing import Final

import numpy as np

from apass.relay.adt import Constructor
from apass.relay.errors import EvaluationError
from apass.relay.expr import Constant, Expr, GlobalVar, Op
from apass.relay.function import Function
from apass.relay.interpreter.instructions import Block, Compiled, Entry, Registers, Routine, Step, kernel_value
from apass.relay.interpreter.lowering import lower
from apass.relay.interpreter.registers import allocate, kernel_of
from apass.relay.interpreter.values import ADTValue, FunctionValue, Value, to_value
from apass.relay.ir.module import IRModule

__all__ = ["MAX_DEPTH", "Closure", "Program", "run"]

MAX_DEPTH: Final = 2_000_000
"""How many calls may be under way at once; more are taken for a recursion without an end."""


class Program:
    """The functions of a module, compiled when they are first called."""

    def __init__(self, mod: IRModule | None = None) -> None:
        self._mod = mod
        self._globals: dict[str, Closure] = {}

    def closure(self, func: Function) -> "Closure":
        """Return a function that has no free variables as a value."""
        return Closure(self, Routine(func, Block()))

    def function(self, name: str) -> "Closure":
        """Return a function of the module as a value.

        Raises:
            EvaluationError: if there is none of that name.

        """
        if name not in self._globals:
            if self._mod is None or name not in self._mod:
                raise EvaluationError(f"there is no function @{name}; evaluate with the module that has it")
            self._globals[name] = self.closure(self._mod[name])
        return self._globals[name]

    def compile(self, func: Function) -> Routine:
        """Return the code of a function that has no free variables."""
        code, scopes = lower(func, self._atom)
        allocate(scopes, self._make_closure)
        return code.routine

    def _make_closure(self, routine: Routine, *captured: Value) -> Value:
        return Closure(self, routine, captured)

    def _atom(self, expr: Expr) -> Value:
        if isinstance(expr, Constant):
            return expr.data.numpy()
        if isinstance(expr, GlobalVar):
            return self.function(expr.name_hint)
        if isinstance(expr, Constructor):
            return ConstructorFunction(expr)
        if isinstance(expr, Op):
            return OpFunction(expr)
        raise EvaluationError(f"{expr!r} is no Relay expression, and has no value")


class Closure(Compiled):
    """A function, and the values of the variables around it that it uses."""

    __slots__ = ("_captured", "_program", "_routine")

    def __init__(self, program: Program, routine: Routine, captured: tuple[Value, ...] = ()) -> None:
        self._program = program
        self._routine = routine
        self._captured = captured

    @property
    def func(self) -> Function:
        """The function."""
        return self._routine.func

    def enter(self, args: list[Value]) -> Entry:
        """Return the code and its registers for arguments.

        Raises:
            EvaluationError: if there are too few or too many.

        """
        routine = self._routine
        count = len(routine.func.params)
        if len(args) != count:
            raise EvaluationError(f"{self!r} was given {len(args)} arguments; it takes {count}")
        if not routine.template:  # even the least of functions has a register, for its value
            routine = self._routine = self._program.compile(routine.func)
        regs = routine.template.copy()
        regs[:count] = args
        for place, value in zip(routine.captured, self._captured, strict=True):
            regs[place] = value
        if routine.own >= 0:
            regs[routine.own] = self
        return routine.block, regs

    def __call__(self, *args: object) -> Value:
        """Return the value for arguments, which may be anything that `to_value` takes.

        Raises:
            EvaluationError: if there are too few or too many, one is of another type, or something within has no value.

        """
        params = self.func.params
        if len(args) != len(params):
            names = ", ".join(one.name_hint for one in params)
            raise EvaluationError(f"{self!r} was given {len(args)} arguments; it takes {len(params)}: ({names})")
        given = zip(args, params, strict=True)
        return run(self, [to_value(one, var.type_annotation, f"argument {var.name_hint}") for one, var in given])

    def __repr__(self) -> str:
        """Return the names of the parameters."""
        return f"<fn ({', '.join(one.name_hint for one in self.func.params)})>"


class OpFunction(FunctionValue):
    """An operator as a value; its attributes are the defaults."""

    __slots__ = ("_op",)

    def __init__(self, op: Op) -> None:
        self._op = op

    def __call__(self, *args: object) -> Value:
        """Return what the kernel gives."""
        return kernel_value(kernel_of(self._op, None)(*map(to_value, args)))

    def __repr__(self) -> str:
        """Return the name."""
        return f"<op {self._op.name}>"


class ConstructorFunction(FunctionValue):
    """A constructor as a value."""

    __slots__ = ("_constructor",)

    def __init__(self, constructor: Constructor) -> None:
        self._constructor = constructor

    def __call__(self, *args: object) -> Value:
        """Return the value that it makes."""
        return ADTValue(self._constructor, tuple(map(to_value, args)))

    def __repr__(self) -> str:
        """Return the name."""
        return f"<constructor {self._constructor.name_hint}>"


def run(closure: Closure, args: list[Value]) -> Value:
    """Return the value of a call.

    Raises:
        EvaluationError: if something within has no value, or calls are nested more than `MAX_DEPTH` deep.

    """
    with np.errstate(all="ignore"):
        return _run(*closure.enter(args))


def _run(block: Block, regs: Registers) -> Value:
    callers: list[tuple[Iterator[Step], Block, Registers, Step]] = []
    steps = iter(block.steps)
    while True:
        for step in steps:
            entry = step(regs)
            if entry is None:
                continue
            if length_hint(steps) or step.out != block.result:
                # In the last place there is nothing left to do afterwards: loops that are recursions do not grow.
                callers.append((steps, block, regs, step))
                if len(callers) > MAX_DEPTH:
                    raise EvaluationError(f"calls are nested more than {MAX_DEPTH:,} deep; does the recursion end?")
            block, regs = entry
            steps = iter(block.steps)
            break
        else:
            value = regs[block.result]
            for one in block.dead:
                regs[one] = ()
            if not callers:
                return value
            steps, block, regs, step = callers.pop()
            for one in step.dead:
                regs[one] = ()
            regs[step.out] = value
