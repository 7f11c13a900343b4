"""`find_objective`: objectives by name, such as `nodes` and `bytes`."""

import math
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final, cast

from anyio.to_thread import run_sync

from apass.concurrency.processes.command import complete_process
from apass.core.adapter import adapter_for, run_in_thread_if_safe
from apass.core.context import PassContext
from apass.core.ir_plugin import plugin_for
from apass.core.named_callables import find_callable
from apass.errors import SearchError, UnknownCallableError, did_you_mean
from apass.loading.entry_points import plugins
from apass.search.objective import Attempt, Candidate, Objective, checked_values
from apass.util.paired_times import PairedTimes
from apass.util.text import shorten

__all__ = [
    "bytes_objective",
    "command_objective",
    "find_objective",
    "latency_objective",
    "nodes_objective",
    "objective_names",
    "time_objective",
]

_GROUP: Final = "apass.objectives"
"""The group of entry points; each names a function that returns an objective, given what follows the colon."""

MEASURING: Final = 3.0
"""Seconds after which no further round of runs is started."""
_NUMBER: Final = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def objective_names() -> list[str]:
    """Return the names of the objectives of any IR; nothing is imported."""
    return sorted(plugins(_GROUP))


@dataclass(frozen=True, slots=True)
class _Combined:
    """Several objectives, whose values have the names of the texts."""

    objectives: Sequence[tuple[str, Objective]]
    objective_text: str

    @property
    def measures(self) -> bool:
        """Whether one of them measures times."""
        return any(getattr(objective, "measures", False) for _, objective in self.objectives)

    async def __call__(self, candidate: Candidate[Any], attempt: Attempt) -> dict[str, float]:
        values: dict[str, float] = {}
        for name, objective in self.objectives:
            returned = objective(candidate, attempt)
            values |= checked_values(await returned if isawaitable(returned) else returned, name)
        return values


def find_objective(texts: Iterable[str], irs: Sequence[str] = ()) -> Objective:
    """Return the objective of one or more names.

    A name is the one of an entry point, such as `nodes` or `command:./size.sh {}`, or of a registered callable that
    rates a module, such as `onnx.latency`. The name of an IR may be left out.

    Parameters:
        texts: the names.
        irs: the names of the IRs of the modules.

    Raises:
        SearchError: if there is no objective of a name.
        MissingExtraError: if its library is not installed.

    """
    named: dict[str, Objective] = {}
    for text in texts:
        name, colon, argument = text.partition(":")
        offers = plugins(_GROUP)
        if name in offers:
            make: Any = offers[name].load()
            named[name if not colon else text] = cast("Objective", make(argument))
        elif colon:
            raise _unknown(name)
        else:
            named[name] = _of_callable(name, irs)
    if not named:
        raise SearchError("there is no objective; expected at least one name")
    return _Combined(tuple(named.items()), ", ".join(named))


def _of_callable(name: str, irs: Sequence[str]) -> Objective:
    for full_name in (name, *(f"{ir}.{name}" for ir in irs)):
        try:
            rate: Callable[..., Any] = find_callable(full_name)
        except UnknownCallableError:
            continue

        async def objective(candidate: Candidate[Any], _attempt: Attempt, rate: Callable[..., Any] = rate) -> float:
            mod = candidate.module
            returned = await run_in_thread_if_safe(adapter_for(mod), mod, lambda: rate(mod))
            value: float = await returned if isawaitable(returned) else returned
            return value

        return objective
    raise _unknown(name)


def _unknown(name: str) -> SearchError:
    hint = did_you_mean(name, plugins(_GROUP), listing="named are ")
    return SearchError(f"{name!r} is neither an objective nor a function given to register_callable{hint}")


def nodes_objective(argument: str) -> Objective:
    """Return the objective `nodes`: the nodes of a module.

    If the IR has no size, it is the number of functions.
    """
    _check_no_argument("nodes", argument)

    def nodes(candidate: Candidate[Any], _attempt: Attempt) -> float:
        plugin = plugin_for(candidate.module)
        if plugin.size is None:
            return sum(1 for _ in plugin.adapter.functions(candidate.module))
        return plugin.size(candidate.module)

    return nodes


@dataclass(frozen=True, slots=True)
class _Measured:
    """Rates a candidate by its time, relative to the baseline."""

    compare: Callable[[Candidate[Any]], Awaitable[PairedTimes]]
    measures: ClassVar[bool] = True

    async def __call__(self, candidate: Candidate[Any], attempt: Attempt) -> float:
        times = await self.compare(candidate)
        low, high = times.interval
        attempt.note(
            ratio=times.ratio,
            interval=[low, high] if math.isfinite(high) else None,
            p_value=times.p_value,
            noise=times.noise,
            rounds=times.rounds,
            seconds=[median(times.baseline), median(times.candidate)],
        )
        # The rank test decides: a difference that may be noise is none. The baseline is measured to see that it runs.
        is_equal = times.verdict == "equal" or candidate.module is candidate.baseline
        return 1.0 if is_equal else times.ratio


def latency_objective(argument: str) -> Objective:
    """Return the objective `latency`: the time of a run, relative to the baseline.

    Both run alternately, pinned to a core, in the measurement lane. If a rank test finds no difference, the value is 1.
    ONNX models run in onnxruntime, LLVM modules with a `main` as programs, modules of TVM on the CPU.
    """
    _check_no_argument("latency", argument)

    async def compare(candidate: Candidate[Any]) -> PairedTimes:
        plugin = plugin_for(candidate.module)
        if plugin.compare_times is None:
            kind = type(candidate.module).__qualname__
            raise SearchError(f"the IR plug-in of {kind} cannot run modules; use the objective 'time:PROGRAM {{}}'")
        return await plugin.compare_times(candidate.baseline, candidate.module)

    return _Measured(compare)


def time_objective(argument: str) -> Objective:
    """Return the objective `time:PROGRAM`: its time, relative to the baseline.

    The program gets the file of the candidate in place of `{}`. It runs as for `latency`.

    Raises:
        SearchError: if there is no command.

    """
    words = _words("time", argument)

    async def compare(candidate: Candidate[Any]) -> PairedTimes:
        async with AsyncExitStack() as files:
            commands = [
                [word.replace("{}", str(path)) for word in words]
                for path in [await _file_of(files, mod) for mod in (candidate.baseline, candidate.module)]
            ]
            async with PassContext.current().measuring() as measurement:

                async def seconds(command: list[str]) -> float:
                    return (await measurement.run(command)).seconds

                return await measurement.compare(
                    partial(seconds, commands[0]), partial(seconds, commands[1]), seconds=MEASURING
                )

    return _Measured(compare)


def bytes_objective(argument: str) -> Objective:
    """Return the objective `bytes`: the size of a module as its adapter writes it."""
    _check_no_argument("bytes", argument)

    async def size(candidate: Candidate[Any], _attempt: Attempt) -> float:
        adapter, mod = adapter_for(candidate.module), candidate.module
        return await run_in_thread_if_safe(adapter, mod, lambda: len(adapter.dumps(mod)))

    return size


def _check_no_argument(name: str, argument: str) -> None:
    if argument:
        raise SearchError(f"the objective {name!r} takes nothing after a colon, got {argument!r}")


@dataclass(frozen=True, slots=True)
class _Command:
    """Rates a candidate by the last number that a program prints."""

    words: Sequence[str]

    async def __call__(self, candidate: Candidate[Any], attempt: Attempt) -> float:
        async with AsyncExitStack() as files:
            path = await _file_of(files, candidate.module)
            words = [word.replace("{}", str(path)) for word in self.words]
            try:
                done = await complete_process(words)
            except OSError as error:
                raise SearchError(f"cannot run {self.words[0]}: {error.strerror or error}") from None
        output = done.stdout.decode(errors="replace")
        if done.returncode:
            last = (done.stderr.decode(errors="replace").strip() or output.strip()).splitlines()[-1:]
            reason = f": {shorten(last[0])}" if last else ""
            raise SearchError(f"the command {self.words[0]} exited with status {done.returncode}{reason}")
        numbers = _NUMBER.findall(output)
        if not numbers:
            raise SearchError(f"the command {self.words[0]} printed no number, got {shorten(output, 60)!r}")
        return float(numbers[-1])


def command_objective(argument: str) -> Objective:
    """Return the objective `command:PROGRAM`: the last number that it prints.

    `{}` is replaced by the file of the candidate; without it, the file is the last argument. No shell is used. Another
    exit status than 0 fails the candidate.

    Raises:
        SearchError: if there is no command.

    """
    return _Command(_words("command", argument))


def _words(name: str, argument: str) -> list[str]:
    """Return the words of a command, one of which has a place for the file."""
    try:
        words = shlex.split(argument)
    except ValueError as error:
        raise SearchError(f"cannot parse the command {argument!r}: {error}; quote it as for a shell") from None
    if not words:
        raise SearchError(f"the objective {name!r} needs a program, as '{name}:./run.sh {{}}'")
    return words if any("{}" in word for word in words) else [*words, "{}"]


async def _file_of(files: AsyncExitStack, mod: Any) -> Path:
    """Write a module to a temporary file, which is removed at the end of the stack."""
    folder = files.enter_context(TemporaryDirectory(prefix="apass-search-"))
    plugin = plugin_for(mod)
    path = Path(folder, f"candidate{plugin.suffixes[0] if plugin.suffixes else '.bin'}")
    await run_sync(plugin.write, mod, path)
    return path
