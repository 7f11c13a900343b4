"""Runs of passes in `mlir-opt`, on a module or on parts of its functions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

import anyio

from apass.adapters.mlir.adapter import with_declarations
from apass.adapters.mlir.catalogue import ROOT
from apass.adapters.mlir.comparison import same_program
from apass.adapters.mlir.module import LOCAL_SCOPE, SKIP, MLIRModule, print_arguments
from apass.adapters.mlir.structure import Operation, parse_structure
from apass.adapters.program_pool import POOL, PROCESSES, ask, prints_ir, report
from apass.adapters.programs import RUN_FLAGS, Request
from apass.core.context import PassContext

__all__ = ["FUNCTION", "NOTHING", "Step", "pipeline_text", "run_steps"]

FUNCTION: Final = "func.func"
"""The anchor of passes whose functions are distributed among processes."""

CHUNK: Final = 1 << 17
"""Minimum size of the functions that a process receives, in characters.

`mlir-opt` reads and prints them in about the time in which it starts.
"""

MAX_COMPARED: Final = 1 << 15
"""Maximum length of a text that is compared by tokens, which takes about 20 ms."""

_STDIN: Final = '"<stdin>"'
"""The name of standard input in locations."""


@dataclass(frozen=True, slots=True)
class Step:
    """One pass in the pipeline of `mlir-opt`."""

    text: str
    """The pass with its options, such as `canonicalize{max-iterations=3}`."""
    anchor: str = ROOT
    """The operation that it runs on; `/` separates nested operations."""

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.text.partition("{")[0]


NOTHING: Final = Step("composite-fixed-point-pass{max-iterations=1 pipeline=apass.nothing(cse)}")
"""A pass without effect, after which `mlir-opt` writes the text of the module to a file."""


def pipeline_text(steps: Sequence[Step]) -> str:
    """Return the pipeline for `mlir-opt --pass-pipeline`.

    >>> pipeline_text([Step("inline"), Step("cse", "func.func"), Step("canonicalize", "func.func")])
    'builtin.module(inline,func.func(cse,canonicalize))'
    """
    elements: list[str] = []
    for anchor, group in groupby(steps, key=lambda step: step.anchor):
        text = ",".join(step.text for step in group)
        path = [] if anchor == ROOT else anchor.split("/")
        for name in reversed(path):
            text = f"{name}({text})"
        elements.append(text)
    return f"{ROOT}({','.join(elements)})"


async def run_steps(
    program: Path,
    steps: Sequence[Step],
    mod: MLIRModule,
    ctx: PassContext,
    time_limit: float,
    label: str,
    *,
    hands_over: bool = False,
) -> MLIRModule:
    """Return the module after the steps, or `mod` if nothing changed.

    Consecutive steps run in one process. If there are enough functions, those that are anchored on functions run in
    several processes, each with a part of the functions and declarations of the others.

    With `hands_over`, a result of one process has its bytecode as well, for the next pass.

    Raises:
        AdapterError: if a step fails.
        HelperError: if `mlir-opt` crashes, or exceeds the time limit.

    """
    result = mod
    for segment in _segments(steps, mod):
        run = _Run(program, segment, ctx, time_limit, label, hands_over=hands_over)
        result = await run.on(result)
    if not _is_unchanged(mod, result):
        return result
    if result.is_printed:
        # What writes the module need not ask for the text again.
        mod.keep_printed(result.text)
    return mod


def _is_unchanged(mod: MLIRModule, result: MLIRModule) -> bool:
    """Return whether the result is the same program as the module.

    A text that `mlir-opt` printed is compared as it is. So is a large one, because to compare tokens takes longer than
    to run a pass.
    """
    if mod.is_printed or len(mod.text) > MAX_COMPARED:
        return mod.text == result.text
    return same_program(mod.text, result.text)


def _segments(steps: Sequence[Step], mod: MLIRModule) -> Iterator[tuple[Step, ...]]:
    """Iterate over the steps that run together."""
    if not any(step.anchor == FUNCTION for step in steps) or not _is_worth_splitting(mod):
        yield tuple(steps)
        return
    for _, group in groupby(steps, key=lambda step: step.anchor == FUNCTION):
        yield tuple(group)


def _is_worth_splitting(mod: MLIRModule) -> bool:
    # Most modules are small and have no function to skip, so do not look for their functions.
    if SKIP in mod.text and any(func.is_skipped for func in mod.functions.values()):
        return True
    counts = POOL.counts
    if counts.in_flight + counts.waiting >= PROCESSES or mod.has_locations or mod.has_metadata:
        # Other modules keep all cores busy, and the result would be the same, for more work. Locations are lines of
        # the whole text, and metadata belong to the whole file.
        return False
    return len(mod.text) >= 2 * CHUNK


class _Run:
    """One run of some steps."""

    def __init__(
        self,
        program: Path,
        steps: Sequence[Step],
        ctx: PassContext,
        time_limit: float,
        label: str,
        *,
        hands_over: bool = False,
    ) -> None:
        self.hands_over = hands_over
        self.program = program
        self.steps = steps
        self.ctx = ctx
        self.time_limit = time_limit
        self.label = label

    async def on(self, mod: MLIRModule) -> MLIRModule:
        """Return the module after the steps."""
        if any(step.anchor != FUNCTION for step in self.steps) or not _is_worth_splitting(mod):
            return await self._whole(mod)
        functions = {name: part for name, part in mod.structure.functions.items() if part.name == FUNCTION}
        chosen = {name: len(part.text) for name, part in functions.items() if not mod.functions[name].is_skipped}
        if not functions:
            return await self._whole(mod)
        if not chosen:
            return mod
        chunks = _chunks(chosen)
        if len(chunks) == 1 and len(chosen) == len(functions):
            return await self._whole(mod)
        results = [MLIRModule("") for _ in chunks]

        async def run(index: int, names: frozenset[str]) -> None:
            results[index] = await self._whole(with_declarations(mod, names), is_alone=False)

        async with anyio.create_task_group() as group:
            for index, names in enumerate(chunks):
                group.start_soon(run, index, names)
        joined = _join(mod, chunks, results)
        # If the operations cannot be matched, the functions run together.
        return await self._whole(mod) if joined is None else joined

    async def _whole(self, mod: MLIRModule, *, is_alone: bool = True) -> MLIRModule:
        """Return the module after the steps, which run in one process."""
        # The bytecode is for the next pass, and the text for the code between. Text with locations or metadata is not
        # accompanied: bytecode has no name of a file, and the text beside it has no external resources.
        has_locations = mod.has_locations or any("debuginfo" in flag for flag in RUN_FLAGS.get() or ())
        has_both = self.hands_over and is_alone and not (has_locations or mod.has_metadata or prints_ir())
        steps = (*self.steps, NOTHING) if has_both else self.steps
        arguments = [f"--pass-pipeline={pipeline_text(steps)}", *print_arguments(mod)]
        if not is_alone and LOCAL_SCOPE not in arguments:
            arguments.append(LOCAL_SCOPE)
        if not is_alone or POOL.counts.in_flight:
            arguments.append("--mlir-disable-threading")
        data = mod.data if is_alone else mod.text.encode("utf-8", "surrogatepass")
        request = Request(self.program, tuple(arguments), data, self.time_limit, NOTHING.name if has_both else "")
        answer = await ask(request, self.ctx, mod.source)
        if answer.printed:
            report(answer.printed, self.ctx, self.label, "MLIR")
        if answer.text:
            return MLIRModule(answer.text, mod.source, is_printed=True, bytecode=answer.data)
        text = answer.data.decode()
        if has_locations and mod.source.isprintable() and not set('"\\').intersection(mod.source):
            # `mlir-opt` names the file that it reads in the locations of operations that have none.
            text = text if _STDIN in mod.text or not mod.source else text.replace(_STDIN, f'"{mod.source}"')
        return MLIRModule(text, is_printed=True)


def _chunks(sizes: dict[str, int]) -> list[frozenset[str]]:
    """Return the functions in consecutive shares, at most one for each process."""
    count = max(1, min(PROCESSES, len(sizes), sum(sizes.values()) // CHUNK))
    share = sum(sizes.values()) / count
    chunks: list[list[str]] = [[]]
    total = 0
    for name, size in sizes.items():
        if total >= share * len(chunks) and len(chunks) < count:
            chunks.append([])
        chunks[-1].append(name)
        total += size
    return [frozenset(chunk) for chunk in chunks]


def _join(mod: MLIRModule, chunks: Sequence[frozenset[str]], results: Sequence[MLIRModule]) -> MLIRModule | None:
    """Return the module with the functions of each result; None if they do not match."""
    before = mod.structure.operations
    structures = [parse_structure(result.text) for result in results]
    operations = [structure.operations for structure in structures]
    if any(len(found) != len(before) for found in operations):
        return None
    owner = {name: number for number, names in enumerate(chunks) for name in names}
    parts: list[Operation] = []
    for index, part in enumerate(before):
        number = owner.get(part.symbol or "")
        if number is None:
            # A skipped function keeps its text. Anything else is the same in each result.
            parts.append(part if part.symbol is not None and part.name == FUNCTION else operations[0][index])
        else:
            found = operations[number][index]
            if found.symbol != part.symbol:
                return None
            parts.append(found)
        parts.append(Operation("\n"))
    text = "".join([structures[0].head, *(part.text for part in parts), structures[0].tail.lstrip("\n")])
    is_printed = len(owner) == len(mod.functions)
    if not is_printed:
        # A skipped function has the text that it had, and may need what is defined outside of operations.
        before_all, after_all = mod.structure.definitions()
        text = f"{before_all}{text}{after_all}"
    return MLIRModule(text, is_printed=is_printed)
