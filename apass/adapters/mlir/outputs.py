"""Comparison of what the functions of two modules return, run by `mlir-runner`."""

import math
import random
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

import anyio

from apass.adapters.mlir.module import MLIRFunction, MLIRModule
from apass.adapters.mlir.structure import Operation, Structure
from apass.adapters.programs import MLIR_OPT, TIME_LIMIT, Request, failure, run_request
from apass.concurrency.processes.command import complete_process
from apass.core.ir_plugin import Comparison
from apass.errors import ApassError, HelperError
from apass.util.other_inputs import OtherInputs, same_value

__all__ = ["compare_outputs"]

INPUTS: Final = 4
"""How many inputs each function receives."""

SECONDS: Final = 60.0
"""Time limit of one run of `mlir-runner`."""

LOWERING: Final = (
    "builtin.module(convert-linalg-to-loops,lower-affine,convert-scf-to-cf,expand-strided-metadata,convert-to-llvm,"
    "reconcile-unrealized-casts)"
)
"""What makes a module executable."""

_SIGNATURE: Final = re.compile(
    r"(?P<dialect>func|llvm)\.func\s+(?P<visibility>private\s+|public\s+|nested\s+)?@(?P<symbol>[\w$.-]+)\s*"
    r"\((?P<arguments>[^()]*)\)\s*(?:->\s*(?P<results>\([^()]*\)|!llvm\.struct<\([^()]*\)>|[\w]+)\s*)?\{"
)
_INTEGER: Final = re.compile(r"i(\d+)")
_FLOATS: Final = {"f32": ("i32", "<f", "<i"), "f64": ("i64", "<d", "<q")}
"""The float types, each with the integer type of the same size, and both formats of `struct`."""

_TOLERANCES: Final = {"f32": 1e-5, "f64": 1e-10}
"""Relative tolerances, for passes that reassociate."""

_ENTRY: Final = "__apass_main"


@dataclass(frozen=True, slots=True)
class _Signature:
    """The types of a function whose arguments and results are numbers."""

    dialect: str
    """The dialect of the operation: `func` or `llvm`."""
    arguments: tuple[str, ...]
    """The types of the arguments."""
    results: tuple[str, ...]
    """The types of the results."""


class _NotComparableError(Exception):
    """The outputs cannot be compared; the message is the reason."""


async def compare_outputs(before: MLIRModule, after: MLIRModule) -> Comparison:
    """Run the public functions of both modules on the same inputs, and compare.

    Only functions whose arguments and results are integers, indices or floats are compared. They may be `func.func`
    before and `llvm.func` after.
    """
    try:
        return await _compare(before, after)
    except _NotComparableError as error:
        return Comparison.unverified(str(error))


async def _compare(before: MLIRModule, after: MLIRModule) -> Comparison:
    program = MLIR_OPT.find()
    runner = MLIR_OPT.sibling(program, "mlir-runner") or MLIR_OPT.sibling(program, "mlir-cpu-runner")
    library = _runner_library(program)
    if runner is None or library is None:
        raise _NotComparableError(f"there is no mlir-runner with its libraries beside {program}")
    old, new = _signatures(before), _signatures(after)
    names = [name for name, signature in old.items() if name in new and _agree(signature, new[name])]
    if not names:
        raise _NotComparableError("there is no public function of numbers in both modules")

    async def attempt(seed: int, change: Callable[[float], float]) -> tuple[str, Mapping[str, str]]:
        """Return how the outputs differ, and which of them show little."""
        values = _inputs([old[name] for name in names], seed, change)
        outputs: dict[str, list[str]] = {}

        async def run(label: str, mod: MLIRModule, signatures: dict[str, _Signature]) -> None:
            text = _with_entry(mod, [(name, signatures[name]) for name in names], values)
            outputs[label] = await _run(program, runner, library, text, label)

        async with anyio.create_task_group() as group:
            group.start_soon(run, "before", before, old)
            group.start_soon(run, "after", after, new)
        for label in ("before", "after"):
            if outputs[label][:1] == [""]:
                raise _NotComparableError(outputs[label][1])
        return _judged(names, old, outputs["before"], outputs["after"])

    start = perf_counter()
    difference, dull = await attempt(0, lambda value: value)
    attempts = OtherInputs({} if difference else dull, perf_counter() - start)
    if _FLOATS.keys() & {tp for name in names for tp in old[name].arguments}:
        for seed, (_, change) in enumerate(attempts, 1):
            difference, dull = await attempt(seed, change)
            if difference:
                break
            attempts.learn(dull)
    if difference:
        return Comparison.different(difference)
    text = f"{len(names)} of {len(before.functions)} functions, {INPUTS} inputs each"
    return Comparison.same("; ".join(filter(None, [text, attempts.remark])))


def _judged(
    names: Sequence[str], signatures: Mapping[str, _Signature], before: Sequence[str], after: Sequence[str]
) -> tuple[str, Mapping[str, str]]:
    """Return how outputs differ, and the functions whose results show little."""
    types = [tp for name in names for tp in signatures[name].results * INPUTS]
    numbers: dict[str, list[float]] = {}
    for index, (tp, x, y) in enumerate(zip(types, before, after, strict=True)):
        name = _owner(names, signatures, index)
        if not _is_close(tp, int(x), int(y)):
            return f"@{name} returned {_shown(tp, int(x))} before, {_shown(tp, int(y))} after", {}
        if signatures[name].arguments:
            numbers.setdefault(f"@{name}", []).append(_decoded(tp, int(x)))
    return "", {output: reason for name in numbers for output, reason in same_value(name, numbers[name]).items()}


def _runner_library(program: Path) -> Path | None:
    """Return the library with the functions that print numbers."""
    folder = program.resolve().parent.parent / "lib"
    return next(iter(sorted(folder.glob("libmlir_c_runner_utils*"))), None)


def _signatures(mod: MLIRModule) -> dict[str, _Signature]:
    """Return the public functions of numbers."""
    pairs = ((name, _signature(func)) for name, func in mod.functions.items())
    return {name: signature for name, signature in pairs if signature is not None}


def _signature(func: MLIRFunction) -> _Signature | None:
    match = _SIGNATURE.match(func.text)
    if match is None or (match["visibility"] or "").strip() == "private":
        return None
    arguments = [text.rpartition(":")[2].strip() for text in match["arguments"].split(",") if text.strip()]
    listed = (match["results"] or "").removeprefix("!llvm.struct<").removesuffix(">").strip("()")
    results = [text.strip() for text in listed.split(",") if text.strip()]
    if not results or not all(map(_is_number, [*arguments, *results])):
        return None
    return _Signature(match["dialect"], tuple(arguments), tuple(results))


def _is_number(tp: str) -> bool:
    integer = _INTEGER.fullmatch(tp)
    return tp in ("index", *_FLOATS) or (integer is not None and 1 <= int(integer[1]) <= 64)


def _agree(old: _Signature, new: _Signature) -> bool:
    """Return whether the types are the same; for LLVM, an index is an `i64`."""

    def types(signature: _Signature) -> list[str]:
        return ["i64" if tp == "index" else tp for tp in (*signature.arguments, "->", *signature.results)]

    return types(old) == types(new)


def _inputs(signatures: Sequence[_Signature], seed: int, change: Callable[[float], float]) -> list[list[list[str]]]:
    """Return inputs as the text of constants, for each function.

    `change` is applied to floating-point numbers. Other integers could have no defined result.
    """
    source = random.Random(seed)

    def value(tp: str) -> str:
        if tp in _FLOATS:
            return f"{change(source.randint(1, 4000) / 64):.6f}"
        # Positive and small, so that divisions and shifts have a result.
        return str(source.randint(0, 1) if tp == "i1" else source.randint(1, min(100, 2 ** (_width(tp) - 1) - 1)))

    return [[[value(tp) for tp in signature.arguments] for _ in range(INPUTS)] for signature in signatures]


def _width(tp: str) -> int:
    return 64 if tp == "index" else int(tp[1:])


def _with_entry(mod: MLIRModule, functions: list[tuple[str, _Signature]], values: list[list[list[str]]]) -> str:
    """Return the module with a function that calls the others and prints the results."""
    lines = [f"func.func @{_ENTRY}() {{"]
    number = 0

    def new() -> str:
        nonlocal number
        number += 1
        return f"%v{number}"

    for (name, signature), inputs in zip(functions, values, strict=True):
        for row in inputs:
            operands: list[str] = []
            for tp, text in zip(signature.arguments, row, strict=True):
                operands.append(new())
                constant = "true" if (tp, text) == ("i1", "1") else "false" if tp == "i1" else f"{text} : {tp}"
                lines.append(f"  {operands[-1]} = arith.constant {constant}")
            lines += _call(name, signature, operands, new)
    lines += ["  return", "}"]
    texts = "\n".join(lines)
    for helper in ("printI64(i64)", "printNewline()"):
        if f"@{helper.partition('(')[0]}(" not in mod.text:
            texts += f"\nfunc.func private @{helper}"
    structure = mod.structure
    parts = (*structure.parts, Operation(f"\n{texts}\n"))
    return Structure(structure.head, parts, structure.tail).text()


def _call(name: str, signature: _Signature, operands: list[str], new: Callable[[], str]) -> list[str]:
    """Return the lines that call a function, and print its results."""
    given = f"({', '.join(operands)})"
    kinds = f"({', '.join(signature.arguments)})"
    call, count = new(), len(signature.results)
    lines: list[str] = []
    if signature.dialect == "func":
        defined = call if count == 1 else f"{call}:{count}"
        lines.append(f"  {defined} = func.call @{name}{given} : {kinds} -> ({', '.join(signature.results)})")
        results = [call] if count == 1 else [f"{call}#{index}" for index in range(count)]
    elif count == 1:
        lines.append(f"  {call} = llvm.call @{name}{given} : {kinds} -> {signature.results[0]}")
        results = [call]
    else:
        record = f"!llvm.struct<({', '.join(signature.results)})>"
        lines.append(f"  {call} = llvm.call @{name}{given} : {kinds} -> {record}")
        results = [new() for _ in range(count)]
        lines += [f"  {result} = llvm.extractvalue {call}[{index}] : {record}" for index, result in enumerate(results)]
    for tp, result in zip(signature.results, results, strict=True):
        lines += _print(tp, result, new)
    return lines


def _print(tp: str, value: str, new: Callable[[], str]) -> list[str]:
    lines: list[str] = []
    if tp in _FLOATS:
        bits = new()
        lines.append(f"  {bits} = arith.bitcast {value} : {tp} to {_FLOATS[tp][0]}")
        value, tp = bits, _FLOATS[tp][0]
    if tp != "i64":
        wide = new()
        operation = "arith.index_cast" if tp == "index" else "arith.extsi"
        lines.append(f"  {wide} = {operation} {value} : {tp} to i64")
        value = wide
    lines.append(f"  func.call @printI64({value}) : (i64) -> ()")
    lines.append("  func.call @printNewline() : () -> ()")
    return lines


async def _run(program: Path, runner: Path, library: Path, text: str, label: str) -> list[str]:
    """Return the lines that the entry function prints, or an empty one and the reason."""
    request = Request(program, (f"--pass-pipeline={LOWERING}",), text.encode(), min(SECONDS, TIME_LIMIT))
    try:
        lowered = await run_request(request)
    except HelperError as error:
        return ["", f"the module {label}: {error}"]
    if lowered.status:
        reason = str(failure(lowered, request, "")).partition("\n")[0]
        return ["", f"the module {label} cannot be lowered to LLVM ({reason})"]
    with TemporaryDirectory(prefix="apass-mlir-") as folder:
        file = _written(Path(folder, "lowered.mlir"), lowered.data)
        command = [str(runner), str(file), "-e", _ENTRY, "--entry-point-result=void", f"--shared-libs={library}"]
        with anyio.move_on_after(SECONDS):
            done = await complete_process(command)
            if done.returncode:
                return ["", f"mlir-runner failed on the module {label} with status {done.returncode}"]
            return done.stdout.decode().split()
    return ["", f"mlir-runner took longer than {SECONDS:g} s on the module {label}"]


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _owner(names: Sequence[str], signatures: Mapping[str, _Signature], index: int) -> str:
    """Return the function that returned the value of an index."""
    for name in names:
        index -= len(signatures[name].results) * INPUTS
        if index < 0:
            return name
    raise ApassError("more outputs than results")


def _decoded(tp: str, bits: int) -> float | int:
    if tp not in _FLOATS:
        return bits
    _, decimal, integer = _FLOATS[tp]
    number: float = struct.unpack(decimal, struct.pack(integer, bits))[0]
    return number


def _is_close(tp: str, x: int, y: int) -> bool:
    if x == y or tp not in _FLOATS:
        return x == y
    a, b = _decoded(tp, x), _decoded(tp, y)
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=_TOLERANCES[tp], abs_tol=1e-12)


def _shown(tp: str, bits: int) -> str:
    return f"{_decoded(tp, bits):g}" if tp in _FLOATS else str(bits)
