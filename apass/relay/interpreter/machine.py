"""The machine that runs compiled functions, with an explicit call stack."""

from collections.abc import Iterator
from operator import length_hint
from typing import Final

import numpy as np

from apass.relay.errors import EvaluationError
from apass.relay.interpreter.instructions import Block, BlockEntry, Compiled, Registers, Routine, Step, kernel_value
from apass.relay.interpreter.lowering import lower
from apass.relay.interpreter.registers import allocate, kernel_of
from apass.relay.interpreter.values import ADTValue, FunctionValue, Value, to_value
from apass.relay.ir.adt import Constructor
from apass.relay.ir.expr import Constant, Expr, GlobalVar, Op
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule

__all__ = ["MAX_DEPTH", "Closure", "Program", "run"]

MAX_DEPTH: Final = 2_000_000
"""The maximum number of active calls. More are treated as infinite recursion."""


class Program:
    """The functions of a module, compiled on the first call."""

    def __init__(self, mod: IRModule | None = None) -> None:
        self._mod = mod
        self._globals: dict[str, Closure] = {}

    def closure(self, func: Function) -> "Closure":
        """Return the value of a function without free variables."""
        return Closure(self, Routine(func, Block()))

    def function(self, name: str) -> "Closure":
        """Return the value of a function of the module.

        Raises:
            EvaluationError: if the function does not exist.

        """
        if name not in self._globals:
            if self._mod is None or name not in self._mod:
                raise EvaluationError(f"there is no function @{name}; pass the module that defines it as `mod`")
            self._globals[name] = self.closure(self._mod[name])
        return self._globals[name]

    def compile(self, func: Function) -> Routine:
        """Return the code of a function without free variables."""
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
        raise EvaluationError(f"cannot evaluate {expr!r}: expected a Relay expression")


class Closure(Compiled):
    """A function with its captured values."""

    __slots__ = ("_captured", "_program", "_routine")

    def __init__(self, program: Program, routine: Routine, captured: tuple[Value, ...] = ()) -> None:
        self._program = program
        self._routine = routine
        self._captured = captured

    @property
    def func(self) -> Function:
        """The function expression."""
        return self._routine.func

    def enter(self, args: list[Value]) -> BlockEntry:
        """Return the code and registers of a call.

        Raises:
            EvaluationError: if the number of arguments is wrong.

        """
        routine = self._routine
        count = len(routine.func.params)
        if len(args) != count:
            raise EvaluationError(f"{self!r} requires {count} arguments, got {len(args)}")
        if not routine.template:  # not compiled: every compiled function has a register for its value
            routine = self._routine = self._program.compile(routine.func)
        regs = routine.template.copy()
        regs[:count] = args
        for register, value in zip(routine.captured, self._captured, strict=True):
            regs[register] = value
        if routine.self_register >= 0:
            regs[routine.self_register] = self
        return routine.block, regs

    def __call__(self, *args: object) -> Value:
        """Return the value of a call. `to_value` converts the arguments.

        Raises:
            EvaluationError: if the number or type of arguments is wrong, or an expression has no value.

        """
        params = self.func.params
        if len(args) != len(params):
            names = ", ".join(param.name_hint for param in params)
            raise EvaluationError(f"{self!r} requires {len(params)} arguments ({names}), got {len(args)}")
        pairs = zip(args, params, strict=True)
        return run(self, [to_value(arg, var.type_annotation, f"argument {var.name_hint}") for arg, var in pairs])

    def __repr__(self) -> str:
        """Return the names of the parameters."""
        return f"<fn ({', '.join(param.name_hint for param in self.func.params)})>"


class OpFunction(FunctionValue):
    """An operator as a value, with default attributes."""

    __slots__ = ("_op",)

    def __init__(self, op: Op) -> None:
        self._op = op

    def __call__(self, *args: object) -> Value:
        """Return the result of the kernel."""
        return kernel_value(kernel_of(self._op, None)(*map(to_value, args)))

    def __repr__(self) -> str:
        """Return the name in angle brackets."""
        return f"<op {self._op.name}>"


class ConstructorFunction(FunctionValue):
    """A constructor as a value."""

    __slots__ = ("_constructor",)

    def __init__(self, constructor: Constructor) -> None:
        self._constructor = constructor

    def __call__(self, *args: object) -> Value:
        """Return the constructed value."""
        return ADTValue(self._constructor, tuple(map(to_value, args)))

    def __repr__(self) -> str:
        """Return the name in angle brackets."""
        return f"<constructor {self._constructor.name_hint}>"


def run(closure: Closure, args: list[Value]) -> Value:
    """Run a call of a closure and return its value.

    Raises:
        EvaluationError: if an expression has no value, or more than `MAX_DEPTH` calls are active.

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
                # A tail call pushes no frame, so that a loop written as a recursion runs in constant space.
                callers.append((steps, block, regs, step))
                if len(callers) > MAX_DEPTH:
                    raise EvaluationError(
                        f"calls are nested more than {MAX_DEPTH:,} deep; check that the recursion ends"
                    )
            block, regs = entry
            steps = iter(block.steps)
            break
        else:
            value = regs[block.result]
            for register in block.dead:
                regs[register] = ()
            if not callers:
                return value
            steps, block, regs, step = callers.pop()
            for register in step.dead:
                regs[register] = ()
            regs[step.out] = value
