"""Checks that a pass kept the meaning of a module, with the interpreter of xDSL.

The modules come from files and may not terminate, so they run in a worker process with limits.
"""

import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from io import StringIO
from math import isclose, isnan, prod
from time import perf_counter
from typing import Any, Final

from anyio import BrokenWorkerProcess, move_on_after, to_process
from xdsl.dialects.builtin import (
    AnyFloat,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    NoneAttr,
    ShapedType,
    TensorType,
)
from xdsl.interpreter import Interpreter, PythonValues
from xdsl.interpreters import register_implementations
from xdsl.interpreters.builtin import scalar_attr
from xdsl.interpreters.shaped_array import ShapedArray
from xdsl.interpreters.utils.ptr import TypedPtr
from xdsl.ir import Attribute, Operation
from xdsl.traits import CallableOpInterface

from apass.adapters.xdsl import ADAPTER
from apass.adapters.xdsl.text import new_context
from apass.concurrency.processes.pool import run_in_worker
from apass.core.ir_plugin import Comparison
from apass.util.other_inputs import OtherInputs, same_value
from apass.util.text import short_reason

__all__ = ["compare_in_process", "compare_outputs", "is_public", "signature"]

RUNS: Final = 4
"""How often each function is called, with other arguments each time."""

MOST_STEPS: Final = 10_000
"""Operations of one call.

The interpreter of xDSL opens a scope for each block that it enters, so this takes a second or two.
"""

MOST_ELEMENTS: Final = 2**20
"""Elements of one array."""

DYNAMIC_SIZE: Final = 4
"""The size of a dimension that the type leaves open."""

SHIFTS: Final = ("sh", "sl", "sr")
"""How the names of operations begin that shift integers."""

MOST_SHIFTED: Final = 2**12
"""Bits of a shift. The interpreter's integers have no width: a shift by more could fill the memory."""

TIME_LIMIT: Final = 60.0
"""Seconds for both modules, after which the process is killed."""


# The types of xDSL have parameters, which do not matter here, and which a type checker would not know.
_ARRAY: Final[Any] = ShapedArray
_SHAPED: Final[Any] = (MemRefType, TensorType)
_INTEGER: Final[Any] = IntegerType
_SCALAR: Final[Any] = (IntegerAttr, FloatAttr)


async def compare_outputs(before: ModuleOp, after: ModuleOp, *, time_limit: float = TIME_LIMIT) -> Comparison:
    """Call the public functions of both modules with the same arguments, and compare.

    Results, arrays in arguments, and printed text must be equal; floats may differ by rounding. Functions whose
    arguments or operations the interpreter does not support are not compared.

    A script that calls this must start its event loop below `if __name__ == "__main__"`: workers import the script.
    """
    data = ADAPTER.dumps(before), ADAPTER.dumps(after)
    async with to_process.current_default_process_limiter():
        try:
            # A first call starts the worker, which imports this module. That time does not count against the limit.
            await run_in_worker(_warm_up)
            with move_on_after(time_limit):
                return await run_in_worker(compare_in_process, *data)
        except BrokenWorkerProcess:
            return Comparison.unverified("the worker process of the interpreter ended")
    return Comparison.unverified(f"the interpreter took longer than {time_limit:g} s")


def _warm_up() -> None:
    """Do nothing. Calling it in a worker makes the worker import this module."""


def compare_in_process(before: bytes, after: bytes) -> Comparison:
    """Compare two modules, given by their bytes, in this process."""
    pair = ADAPTER.loads(before), ADAPTER.loads(after)
    functions = [{name: func for name, func in ADAPTER.functions(mod) if is_public(func)} for mod in pair]
    compared: list[str] = []
    omitted: list[str] = []
    remarks: list[str] = []
    for name, func in functions[0].items():
        try:
            difference, remark = _compared(*pair, name, func, functions[1].get(name))
        except _UnsupportedError as reason:
            omitted.append(f"{name} ({reason})")
            continue
        if difference:
            return Comparison.different(f"function {name!r} {difference}")
        compared.append(name)
        remarks += filter(None, [remark])
    if not compared:
        return Comparison.unverified(", ".join(omitted) or "no public function")
    rest = [f"not compared: {', '.join(omitted)}"] if omitted else []
    return Comparison.same("; ".join([", ".join(compared), *remarks, *rest]))


def is_public(func: Operation) -> bool:
    """Return whether an operation is a function that others may call."""
    visibility = func.get_attr_or_prop("sym_visibility")
    return func.has_trait(CallableOpInterface) and (visibility is None or "private" not in str(visibility))


class _UnsupportedError(Exception):
    """The interpreter cannot run a function, or there are no arguments for it."""


class _TooLongError(Exception):
    """A call has executed too many operations."""


@dataclass
class _Limits(Interpreter.Listener):
    """Counts the operations of a call, and checks the size of arrays."""

    steps: int = field(default=0)

    def will_interpret_op(self, op: Operation, args: PythonValues) -> None:
        self.steps += 1
        values = list(map(_plain, args))
        if self.steps > MOST_STEPS:
            raise _TooLongError
        for result in op.results:
            if isinstance(result.type, ShapedType):
                sizes = [size for size in result.type.get_shape() if size > 0]
                dynamic = [value for value in values if isinstance(value, int) and value > 0]
                if prod(sizes) * max([1, *dynamic]) > MOST_ELEMENTS:
                    raise _UnsupportedError(f"{op.name} creates a large array")
        if op.name.partition(".")[2].startswith(SHIFTS) and any(
            isinstance(value, int) and abs(value) > MOST_SHIFTED for value in values[1:]
        ):
            raise _UnsupportedError(f"{op.name} shifts by more than the width")


@dataclass(frozen=True)
class _Outcome:
    """What a call returned and changed."""

    results: Sequence[Any]
    arguments: Sequence[Any]
    printed: str


def _compared(
    before: ModuleOp, after: ModuleOp, name: str, func: Operation, other: Operation | None
) -> tuple[str, str]:
    """Return how two functions differ, and the remark if they do not.

    Raises:
        _UnsupportedError: if they cannot be compared.

    """
    if other is None or signature(other) != signature(func):
        raise _UnsupportedError("its signature changed" if other is not None else "it was removed")

    def attempt(first: int, change: Callable[[Any], Any]) -> tuple[str, dict[str, str]]:
        """Return the first difference, and whether the results show little."""
        results: list[float] = []
        for seed in range(first, first + RUNS):
            difference, numbers = _difference(before, after, func, other, _arguments(func, seed, change))
            if difference:
                return difference, {}
            results += numbers
        return "", same_value(name, results) if signature(func)[0] else {}

    start = perf_counter()
    difference, dull = attempt(0, lambda value: value)
    attempts = OtherInputs(dull, perf_counter() - start)
    for number, (_, change) in enumerate(attempts, 1):
        try:
            difference, dull = attempt(number * RUNS, change)
        except _UnsupportedError:
            continue  # the function does not take such inputs
        attempts.learn(dull)
    return difference, attempts.remark


def _difference(
    before: ModuleOp, after: ModuleOp, func: Operation, other: Operation, arguments: Sequence[Any]
) -> tuple[str, list[float]]:
    """Return how two functions differ for arguments, and the numbers that they return.

    Raises:
        _UnsupportedError: if they cannot be compared.

    """
    types = signature(func)
    shown = f"for the arguments ({', '.join(map(_shown, arguments))})"
    expected = _call(before, func, arguments)
    if isinstance(expected, Exception):
        raise _UnsupportedError(_reason(expected))
    actual = _call(after, other, arguments)
    if isinstance(actual, ZeroDivisionError):
        return f"returned before, but {_reason(actual)} after, {shown}", []
    if isinstance(actual, Exception):
        raise _UnsupportedError(f"after: {_reason(actual)}")
    if not _equal(types[1], expected.results, actual.results):
        return f"returned {_all_shown(expected.results)} before and {_all_shown(actual.results)} after, {shown}", []
    if not _equal(types[0], expected.arguments, actual.arguments):
        return f"left other values in its arguments, {shown}", []
    if expected.printed != actual.printed:
        return f"printed {expected.printed!r} before and {actual.printed!r} after, {shown}", []
    return "", [number for value in expected.results for number in _numbers(value)]


def _numbers(value: Any) -> Sequence[float]:
    """Return the numbers of a result, or none of a result of another kind."""
    if isinstance(value, _ARRAY):
        elements: list[float] = value.data
        return elements
    return [value] if isinstance(value, int | float) else []


def signature(func: Operation) -> tuple[Sequence[Attribute], Sequence[Attribute]]:
    """Return the types of the arguments and of the results of a function."""
    interface = func.get_trait(CallableOpInterface)
    assert interface is not None, "only callable functions are compared"
    return interface.get_argument_types(func), interface.get_result_types(func)


def _arguments(func: Operation, seed: int, change: Callable[[Any], Any]) -> list[Any]:
    """Return random arguments; `change` is applied to floating-point numbers."""
    types = signature(func)[0]
    return [_argument(tp, random.Random(f"{seed} {index}"), change) for index, tp in enumerate(types)]


def _argument(tp: Any, rng: random.Random, change: Callable[[Any], Any]) -> Any:
    """Return a random argument of small numbers.

    They are exact in every type, and valid indices.

    Raises:
        _UnsupportedError: if there is none for the type.

    """
    if isinstance(tp, IndexType):
        return rng.randrange(DYNAMIC_SIZE)
    if isinstance(tp, _INTEGER):
        return rng.randrange(2) if tp.width.data == 1 else rng.randint(-3 if tp.width.data > 3 else 0, 3)
    if isinstance(tp, AnyFloat):
        number: float = change(rng.randint(-12, 12) / 4)
        return number
    if isinstance(tp, _SHAPED) and isinstance(getattr(tp, "layout", NoneAttr()), NoneAttr):
        shape = [DYNAMIC_SIZE if size < 0 else size for size in tp.get_shape()]
        element: Any = tp.get_element_type()
        if prod(shape) <= MOST_ELEMENTS:
            values = [_argument(element, rng, change) for _ in range(prod(shape))]
            try:
                return ShapedArray(TypedPtr[Any].new(values, xtype=element), shape)
            except (AttributeError, NotImplementedError, TypeError, ValueError, struct.error):
                pass  # the element type has no representation in memory
    raise _UnsupportedError(f"arguments of type {tp}")


def _call(mod: ModuleOp, func: Operation, arguments: Sequence[Any]) -> "_Outcome | Exception":
    """Call a function with copies of the arguments; return its error if it fails."""
    printed = StringIO()
    interpreter = Interpreter(mod, file=printed, listeners=(_Limits(),))
    register_implementations(interpreter, new_context(allow_unregistered=True))
    width = interpreter.index_bitwidth
    private = tuple(
        value.copy() if isinstance(value, _ARRAY) else scalar_attr(value, tp, width)
        for value, tp in zip(arguments, signature(func)[0], strict=True)
    )
    try:
        results = interpreter.call_op(func, private)
        return _Outcome(list(map(_plain, results)), list(map(_plain, private)), printed.getvalue())
    except Exception as error:  # implementations raise any exception for what they do not support
        return error


def _plain(value: Any) -> Any:
    """Return the number of a scalar; other values as they are."""
    return value.value.data if isinstance(value, _SCALAR) else value


def _reason(error: Exception) -> str:
    if isinstance(error, _TooLongError):
        return f"executed more than {MOST_STEPS:,} operations"
    if isinstance(error, _UnsupportedError):
        return str(error)
    return f"failed with {short_reason(error, next(iter(str(error).splitlines()), ''))}"


def _equal(types: Sequence[Attribute], before: Sequence[Any], after: Sequence[Any]) -> bool:
    return len(before) == len(after) and all(map(_value_equal, types, before, after))


def _value_equal(tp: Any, before: Any, after: Any) -> bool:
    if isinstance(before, _ARRAY) and isinstance(after, _ARRAY):
        element: Any = tp.get_element_type() if isinstance(tp, _SHAPED) else tp
        pairs = list(_elements(before, after))
        return before.shape == after.shape and all(_value_equal(element, a, b) for a, b in pairs)
    if isinstance(tp, _INTEGER) and isinstance(before, int) and isinstance(after, int):
        # An integer may be written with or without a sign.
        return bool((before - after) % (1 << tp.width.data) == 0)
    if isinstance(before, float) and isinstance(after, float):
        # The interpreter computes in double precision, passes that fold constants in that of the type.
        digits = 1e-9 if isinstance(tp, Float64Type) else 1e-5 if isinstance(tp, Float32Type) else 1e-2
        return (isnan(before) and isnan(after)) or isclose(before, after, rel_tol=digits, abs_tol=digits)
    return bool(before == after)


def _elements(before: Any, after: Any) -> Iterator[tuple[Any, Any]]:
    yield from zip(before.data, after.data, strict=False)


def _all_shown(values: Sequence[Any]) -> str:
    return f"({', '.join(map(_shown, values))})"


def _shown(value: Any) -> str:
    if not isinstance(value, _ARRAY):
        return repr(value)
    data: list[Any] = value.data[:8]
    return f"[{', '.join(map(repr, data))}{', ...' if value.size > len(data) else ''}]"
