"""Comparing the outputs of modules of TVM, for `--verify-outputs`.

Both modules are compiled for the CPU and run by TVM's virtual machine, in a worker process.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, Final

import numpy as np
from anyio import to_process, to_thread

from apass.adapters.tvm.adapter import ADAPTER
from apass.adapters.tvm.library import BaseFunc, IRModule, short_reason, tvm
from apass.concurrency.processes.pool import LostCall, call_in_worker
from apass.core.ir_plugin import Comparison
from apass.errors import AdapterError, VerifyError
from apass.util.array_difference import array_difference
from apass.util.dull_outputs import changed_input, dull_outputs
from apass.util.other_inputs import OtherInputs

__all__ = ["SEED", "TIME_LIMIT", "compare_outputs", "machine_of", "random_arguments", "random_array"]

_relax: Final[Any] = tvm.relax

TIME_LIMIT: Final = 120.0
"""Seconds for compiling and running both modules, after which the process is killed."""

SEED: Final = 0
"""The seed of the random inputs."""

DYNAMIC_SIZE: Final = 3
"""The size of a dimension that the module leaves open."""

TOLERANCE: Final[dict[str, tuple[float, float]]] = {"float64": (1e-6, 1e-9), "float32": (1e-4, 1e-5)}
"""The tolerances by type, relative to an element and to the largest one. Those of other floats are 0.02."""


async def compare_outputs(before: IRModule, after: IRModule) -> Comparison:
    """Run the functions of two modules on the same random inputs, and compare.

    A module with functions that are code already, in TIR or in a library, is not run: it could do anything.
    """
    try:
        names = _runnable(before)
    except AdapterError as error:
        return Comparison.unverified(str(error))
    data = await to_thread.run_sync(lambda: (ADAPTER.dumps(before), ADAPTER.dumps(after)))
    limiter = to_process.current_default_process_limiter()
    found = await call_in_worker(_differences, (*data, names), TIME_LIMIT, limiter)
    if not isinstance(found, LostCall):
        return found
    # Find out which of the two ended the process.
    alone = await call_in_worker(_differences, (data[0], data[0], names), TIME_LIMIT, limiter)
    if not found.is_late and not isinstance(alone, LostCall) and alone.changed is False:
        return Comparison.different(f"only the module before could run; after, {found.reason}")
    return Comparison.unverified(found.reason)


def _runnable(mod: IRModule) -> tuple[str, ...]:
    """Return the names of the functions to run.

    Raises:
        AdapterError: if the module contains code, or no function can be called.

    """
    for var, func in mod.functions_items():
        if not isinstance(func, _relax.Function):
            kind = "a TIR function" if isinstance(func, tvm.tirx.PrimFunc) else "a function of a library"
            raise AdapterError(f"{var.name_hint!r} is {kind}, which is code that could do anything")
        if _calls_library(func):
            raise AdapterError(f"function {var.name_hint!r} calls a function of a library")
    names = [name for name, func in ADAPTER.functions(mod) if func.attrs and "global_symbol" in func.attrs]
    if not names:
        raise AdapterError("the module has no public function")
    return tuple(names)


def _calls_library(func: BaseFunc) -> bool:
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, _relax.ExternFunc):
            found.append(node)

    _relax.analysis.post_order_visit(func, visit)
    return bool(found)


def _differences(before: bytes, after: bytes, names: tuple[str, ...]) -> Comparison:
    """Return the result of comparing the outputs; in a worker process.

    They also differ if only the function before can run. A module that TVM cannot compile may be lowered already.
    """
    mod, other = ADAPTER.loads(before), ADAPTER.loads(after)
    machines: list[Any] = []
    try:
        machines.append(machine_of(mod))
        machines.append(machine_of(other))
    except Exception as error:  # TVM raises errors of many types
        if machines:
            try:
                ADAPTER.verify(other)
            except VerifyError as reason:
                return Comparison.different(f"the result is {str(reason).partition(': ')[2] or reason}")
        return Comparison.unverified(f"TVM cannot compile the module: {short_reason(error)}")
    remarks: list[str] = []
    for name in names:
        try:
            difference, remark = _compared(machines, name, mod[name])
        except _NotRunError as error:
            return (Comparison.different if error.is_after else Comparison.unverified)(str(error))
        if difference:
            return Comparison.different(f"those of {name}: {difference}")
        remarks.append(remark)
    return Comparison.same("; ".join([", ".join(names), *filter(None, remarks)]))


class _NotRunError(Exception):
    """A function cannot run; the message is the detail of the comparison."""

    def __init__(self, message: str, *, is_after: bool) -> None:
        super().__init__(message)
        self.is_after = is_after


def _compared(machines: Sequence[Any], name: str, func: BaseFunc) -> tuple[str, str]:
    """Return how the outputs of a function differ, and the remark if they do not.

    Raises:
        _NotRunError: if the function cannot run.

    """
    start = perf_counter()
    difference, dull = _outputs(machines, name, func, SEED, lambda value: value)
    attempts = OtherInputs(dull if func.params and not difference else {}, perf_counter() - start)
    for seed, (kind, change) in enumerate(attempts, SEED + 1):
        try:
            found, dull = _outputs(machines, name, func, seed, change)
        except _NotRunError as error:
            if error.is_after:
                raise
            continue  # the function does not take such inputs
        if found:
            return f"with {kind} inputs, {found}", ""
        attempts.learn(dull)
    return difference, attempts.remark


def _outputs(
    machines: Sequence[Any], name: str, func: BaseFunc, seed: int, change: Callable[[Any], Any]
) -> tuple[str, Mapping[str, str]]:
    """Return how the outputs of a function differ, and which of them show little.

    Raises:
        _NotRunError: if the function cannot run.

    """
    try:
        arguments = list(random_arguments(func, seed, change))
        left = list(_values(machines[0][name](*arguments)))
    except Exception as error:  # TVM raises errors of many types
        message = f"{name} cannot run: {short_reason(error)}"
        raise _NotRunError(message, is_after=False) from error
    try:
        right = list(_values(machines[1][name](*arguments)))
    except Exception as error:  # TVM raises errors of many types
        message = f"{name} cannot run after: {short_reason(error)}"
        raise _NotRunError(message, is_after=True) from error
    labels = [f"array {index} of {name}" for index in range(len(left))]
    return _difference(left, right), dull_outputs(labels, left)


def machine_of(mod: IRModule) -> Any:
    """Return a virtual machine that runs a module on the CPU."""
    return _relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())


def random_arguments(func: BaseFunc, seed: int, change: Callable[[Any], Any]) -> Iterator[Any]:
    """Iterate over random arguments for the parameters of a Relax function.

    `change` is applied to floating-point numbers.

    Raises:
        AdapterError: if a parameter has a type without random values.

    """
    random = np.random.default_rng(seed)
    for param in func.params:
        kind = param.ty
        if not isinstance(kind, _relax.TensorType) or kind.shape is None:
            raise AdapterError(f"parameter {param.name!r} is no tensor of known rank")
        sizes = [int(size) if isinstance(size, tvm.tirx.IntImm) else DYNAMIC_SIZE for size in kind.shape.values]
        yield tvm.runtime.tensor(changed_input(random_array(random, sizes, str(kind.dtype)), change))


def random_array(random: np.random.Generator, sizes: list[int], dtype: str) -> Any:
    """Return an array of random values.

    Raises:
        AdapterError: if the type has none.

    """
    if dtype == "bool":
        return random.integers(0, 2, sizes).astype(bool)
    if "int" in dtype:
        return random.integers(0, 4, sizes).astype(dtype)
    if dtype in ("float16", "float32", "float64"):
        return random.standard_normal(sizes).astype(dtype)
    raise AdapterError(f"there are no random values of type {dtype}")


def _values(output: Any) -> Iterator[Any]:
    """Iterate over the arrays of an output, which may be nested tuples."""
    if hasattr(output, "numpy"):
        yield output.numpy()
    elif hasattr(output, "__iter__"):
        for item in output:
            yield from _values(item)
    else:
        yield np.asarray(output)


def _difference(left: list[Any], right: list[Any]) -> str:
    """Return the first difference of two lists of arrays; "" if there is none."""
    if len(left) != len(right):
        return f"{len(right)} arrays, expected {len(left)}"
    for index, (one, two) in enumerate(zip(left, right, strict=True)):
        if one.shape != two.shape or one.dtype != two.dtype:
            return f"array {index} is {two.dtype}{list(two.shape)}, expected {one.dtype}{list(one.shape)}"
        rtol, share = TOLERANCE.get(str(one.dtype), (0.02, 0.02))
        found = array_difference(one, two, rtol=rtol, share=share, atol=share * 1e-6)
        if found is not None and not found.is_near:
            return f"array {index} {found.text}"
    return ""
