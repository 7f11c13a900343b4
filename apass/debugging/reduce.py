"""`reduce`: how little of a module a failure takes; for reproducers that a person is to read."""

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import anyio

from apass.core.adapter import adapter_for
from apass.debugging.replay import read_module, read_pass, run_once
from apass.errors import ReproducerError
from apass.instruments.reproducer.folder import (
    Failure,
    Reproducer,
    dump_module,
    load_module,
    read_reproducer,
    write_reproducer,
)
from apass.passes.base import Pass
from apass.util.delta_debugging import Shrinking, ddmin

__all__ = ["Reduced", "Size", "reduce"]

_VARIES: Final = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|[%@][\w.]+|0x[0-9a-f]+|\d+(?:\.\d+)?")
"""What may change in a message when a module does: names and numbers."""

_CHILD: Final = "import sys; from apass.debugging.replay import report_failure; report_failure(sys.argv[1])"


@dataclass(frozen=True, slots=True)
class Size:
    """How big a module is."""

    functions: int
    """How many functions it has."""
    lines: int
    """How many lines its text has."""
    file_size: int
    """How many bytes its file has."""

    @classmethod
    def of(cls, mod: Any, data: bytes) -> "Size":
        """Return the size of a module whose file has these bytes."""
        adapter = adapter_for(mod)
        return cls(len(list(adapter.functions(mod))), len(adapter.to_text(mod).splitlines()), len(data))

    def __str__(self) -> str:
        counted = ((self.functions, "function"), (self.lines, "line"), (self.file_size, "byte"))
        return ", ".join(f"{number:,} {what}{'' if number == 1 else 's'}" for number, what in counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """What came of reducing."""

    folder: Path
    """The smaller reproducer."""
    before: Size
    """The size of the module as it was."""
    after: Size
    """Its size now."""
    tries: int
    """How many modules were tried."""
    complete: bool
    """Whether nothing more can be left out; if not, the time was over."""


async def reduce(
    folder: Path | str,
    pass_: Pass[Any] | None = None,
    *,
    message: str | None = None,
    timeout: float | None = None,
    isolate: bool = False,
    output: Path | str | None = None,
    report: Callable[[str], object] | None = None,
    on_try: Callable[[int, int], object] | None = None,
) -> Reduced:
    """Make the module of a reproducer smaller while the pass fails the same way, and write another reproducer.

    What can be left out the adapter says: an IRAdapter may have `shrinkings(mod)`, which goes over the ways. A dict
    loses entries, down to those within its functions; Relay functions, then expressions, for a part of theirs or a
    constant of their type, lets and parameters; ONNX nodes, outputs, initializers, inputs and functions, and nodes
    within functions and subgraphs.

    Parameters:
        folder: what `ReproducerInstrument` wrote.
        pass_: the pass to run, in place of the one that is written there.
        message: a regular expression to be found in the message of the failure. Without it the first line must be the
            same, but for names and numbers; the type must be the same in any case.
        timeout: seconds after which the smallest module so far is the result.
        isolate: whether each try is made in a process of its own, for a pass that may crash or never end.
        output: where to write; `reduced` in the folder if left out, or `reduced~2` where that is taken.
        report: is called with a line for each step that made the module smaller.
        on_try: is called after each try with how many there were, and how many bytes the smallest module has.

    Raises:
        ReproducerError: if there is no reproducer, it does not fail that way any more, or cannot be made smaller: its
            adapter says nothing of how; or both `pass_` and `isolate` are given.

    """
    place = Path(folder)
    reproducer = read_reproducer(place)
    if isolate and pass_ is not None:
        raise ReproducerError("another process cannot be given a pass; leave out isolate, or register the pass")
    mod = read_module(place, reproducer)
    if not hasattr(adapter_for(mod), "shrinkings"):
        raise ReproducerError(f"the adapter for {type(mod).__qualname__} has no `shrinkings`; nothing can be left out")
    runner = None if isolate else (read_pass(place, reproducer) if pass_ is None else pass_)
    with TemporaryDirectory(prefix="apass-reduce-") as scratch:
        wanted = _Wanted(reproducer.failure, message)
        search = _Search(reproducer, runner, wanted, timeout, Path(scratch), report or _ignore, on_try or _ignore)
        return await search.run(mod, place / "reduced" if output is None else Path(output))


class _Wanted:
    """The failures that count as the same."""

    def __init__(self, failure: Failure, message: str | None) -> None:
        self.failure = failure
        try:
            self.pattern = None if message is None else re.compile(message)
        except re.error as error:
            raise ReproducerError(f"the message {message!r} is no regular expression: {error}") from None

    def matches(self, failure: Failure | None) -> bool:
        if failure is None or failure.type != self.failure.type:
            return False
        if self.pattern is not None:
            return self.pattern.search(failure.message) is not None
        return _gist(failure.message) == _gist(self.failure.message)


class _TimeOverError(Exception):
    """The seconds of the search are used up."""


class _Search:
    """One search for a smaller module."""

    def __init__(
        self,
        reproducer: Reproducer,
        pass_: Pass[Any] | None,
        wanted: _Wanted,
        timeout: float | None,
        scratch: Path,
        report: Callable[[str], object],
        on_try: Callable[[int, int], object],
    ) -> None:
        self.reproducer = reproducer
        self.pass_ = pass_
        self.wanted = wanted
        self.scratch = scratch
        self.report = report
        self.on_try = on_try
        self.ends = float("inf") if timeout is None else perf_counter() + timeout
        self.known: dict[bytes, bool] = {}
        self.settled: set[bytes] = set()
        self.tries = 0
        self.failure: Failure | None = None
        self.last: Failure | None = None
        self.best: tuple[Any, bytes]

    async def run(self, mod: Any, output: Path) -> Reduced:
        """Do what `reduce` says."""
        self.best = (mod, dump_module(mod)[1])
        before = Size.of(*self.best)
        if not await self.fails(mod):
            now = "does not fail any more" if self.failure is None else f"fails another way: {self.failure}"
            raise ReproducerError(f"there is nothing to reduce: the pass {now}; it was {self.reproducer.failure}")
        complete = True
        try:
            while await self.shrink_once():
                continue
        except _TimeOverError:
            complete = False
        folder = await self.write(output)
        return Reduced(folder=folder, before=before, after=Size.of(*self.best), tries=self.tries, complete=complete)

    async def shrink_once(self) -> bool:
        """Try each way to make the module smaller; return whether one did."""
        before = self.best[1]
        self.settled.add(sha256(before).digest())
        for number in range(1000):
            way = next(islice(self.ways(), number, None), None)
            if way is None:
                break
            size = len(self.best[1])
            left_out = await ddmin(way.count, partial(self.fails_without, way))
            if left_out:
                smaller = f"{size:,} bytes before, {len(self.best[1]):,} after"
                self.report(f"left out {len(left_out)} of {way.count} {way.what}: {smaller}")
        # Two ways may undo each other.
        return sha256(self.best[1]).digest() not in self.settled

    def ways(self) -> Iterable[Shrinking[Any]]:
        """Return the ways to make the best module so far smaller."""
        mod = self.best[0]
        adapter: Any = adapter_for(mod)
        ways: Iterable[Shrinking[Any]] = adapter.shrinkings(mod)
        return ways

    async def fails_without(self, way: Shrinking[Any], numbers: frozenset[int]) -> bool:
        """Tell whether the pass fails the same way without these parts; the module is the best then."""
        if not numbers:
            return True
        try:
            mod = way.without(numbers)
        except Exception:  # a foreign library may raise anything over what cannot be left out
            return False
        return await self.fails(mod)

    async def fails(self, mod: Any) -> bool:
        """Tell whether the pass fails the same way on a module, as it is when it is read again."""
        try:
            _, data, _ = dump_module(mod)
            key = sha256(data).digest()
            if self.known.get(key) is False:
                return False
            again = load_module(self.reproducer.module_type, data, self.reproducer.facts)
        except Exception:  # the same
            return False
        if key not in self.known:
            self.known[key] = await self.try_out(again, data)
        if self.known[key]:
            self.best = (again, data)
        self.on_try(self.tries, len(self.best[1]))
        return self.known[key]

    async def try_out(self, mod: Any, data: bytes) -> bool:
        """Run the pass, within the time that is left, and tell whether it fails the same way."""
        left = self.ends - perf_counter()
        if left <= 0:
            raise _TimeOverError
        self.tries += 1
        self.failure = None
        with anyio.move_on_after(left) as scope:
            self.failure = await self.attempt(mod, data)
        if scope.cancelled_caught:
            raise _TimeOverError
        if self.wanted.matches(self.failure):
            self.last = self.failure
            return True
        return False

    async def attempt(self, mod: Any, data: bytes) -> Failure | None:
        """Run the pass, here or in another process; return how it failed."""
        if self.pass_ is not None:
            error = await run_once(self.reproducer, self.pass_, mod)
            return None if error is None else Failure.of(error)
        folder = write_reproducer(self.scratch / "try", self.reproducer, data, "")
        try:
            done = await anyio.run_process([sys.executable, "-c", _CHILD, str(folder)], check=False)
        finally:
            shutil.rmtree(folder)
        lines = done.stdout.decode(errors="replace").splitlines()
        if done.returncode != 0 or not lines:
            said = done.stderr.decode(errors="replace").splitlines()[-1:]
            return Failure(type="crash", message=": ".join([f"the process ended with {done.returncode}", *said]))
        found = json.loads(lines[-1])
        return None if found is None else Failure(**found)

    async def write(self, output: Path) -> Path:
        """Write the smallest reproducer."""
        mod, data = self.best
        failure = self.last or self.reproducer.failure
        told = f"reduced from the module of {self.reproducer.position}\n{failure}\n"
        function = self.reproducer.function
        names = [name for name, _ in adapter_for(mod).functions(mod)]
        smaller = replace(self.reproducer, failure=failure, function=function if function in names else None)
        return await anyio.to_thread.run_sync(write_reproducer, output, smaller, data, told)


def _gist(message: str) -> str:
    """Return the first line of a message without what may change when the module does."""
    lines = message.strip().splitlines() or [""]
    return _VARIES.sub("_", lines[0])


def _ignore(*told: object) -> None:
    """Do nothing with what is told."""
