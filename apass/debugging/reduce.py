"""`reduce`: shrinks the module of a reproducer to a small example."""

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final, Literal, TypeGuard, cast

import anyio

from apass.core.adapter import adapter_for
from apass.core.answers import RecordedAnswers
from apass.core.user_modules import loaded_user_modules
from apass.debugging.replay import check_context, read_answers, read_module, read_pass, run_once
from apass.errors import ReproducerError, WorkerLostError
from apass.instruments.reproducer.folder import (
    Failure,
    Reproducer,
    dump_module,
    load_module,
    read_reproducer,
    write_reproducer,
)
from apass.passes.base import Pass
from apass.pipelines.parser import as_pass
from apass.util.delta_debugging import Shrinking, ddmin

__all__ = ["Reduced", "Size", "reduce"]

_VARIES: Final = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|[%@][\w.]+|0x[0-9a-f]+|\d+(?:\.\d+)?")
"""Parts of a message that depend on the module: names and numbers."""

_LOST: Final = Failure.of(WorkerLostError()).type
"""The recorded failure of a pass that ended its worker; here it ends the process of an attempt."""

_CHILD: Final = """
import json, sys
folder, path, modules, unknown_answers = sys.argv[1:]
sys.path[:] = json.loads(path)
from apass.debugging.replay import report_failure
report_failure(folder, json.loads(modules), unknown_answers)
"""
"""The program of a child process: it can import what this process can."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a module."""

    functions: int
    """Number of functions."""
    lines: int
    """Number of lines of its text."""
    file_size: int
    """Size of its file in bytes."""

    @classmethod
    def of(cls, mod: Any, data: bytes) -> "Size":
        """Return the size of a module with the given file contents."""
        adapter = adapter_for(mod)
        return cls(len(list(adapter.functions(mod))), len(adapter.to_text(mod).splitlines()), len(data))

    def __str__(self) -> str:
        counts = ((self.functions, "function"), (self.lines, "line"), (self.file_size, "byte"))
        return ", ".join(f"{number:,} {unit}{'' if number == 1 else 's'}" for number, unit in counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """The result of `reduce`."""

    folder: Path
    """The folder of the smaller reproducer."""
    before: Size
    """The size of the original module."""
    after: Size
    """The size of the reduced module."""
    tries: int
    """Number of modules that were tried."""
    complete: bool
    """Whether no part can be removed. It is False if the timeout was reached."""


async def reduce(
    folder: Path | str,
    pass_: Pass[Any] | str | None = None,
    *,
    message: str | None = None,
    timeout: float | None = None,
    isolate: bool = False,
    output: Path | str | None = None,
    report: Callable[[str], object] | None = None,
    on_try: Callable[[int, int], object] | None = None,
    unknown_answers: Literal["error", "ask"] = "error",
) -> Reduced:
    """Shrink the module of a reproducer while the pass fails the same way.

    The result is written as another reproducer. The adapter defines what can be removed: an IRAdapter may have a
    method `shrinkings(mod)`, which yields the possible shrinkings.

    - A dict loses entries, including those within its functions.
    - Relay loses functions. Expressions are replaced by their parts or by constants of their type. Lets and parameters
      are removed.
    - ONNX loses nodes, outputs, initializers, inputs and functions, and nodes within functions and subgraphs.

    Parameters:
        folder: the folder written by `ReproducerInstrument`.
        pass_: the pass to run, or the text of a pipeline, in place of the recorded one.
        message: a regular expression that the failure's message must match. By default the first line must be the
            same, except for names and numbers. The type must always be the same.
        timeout: seconds after which the smallest module so far is the result.
        isolate: whether each attempt runs in a separate process, for a pass that may crash or never end. The process
            imports the modules that define the registered pass.
        output: the output folder. The default is `reduced` in the folder, or `reduced~2` if that exists.
        report: called with a line for each step that made the module smaller.
        on_try: called after each attempt with the number of attempts and the size of the smallest module in bytes.
        unknown_answers: what a question without a recorded answer does: raise an error, so that the smaller module does
            not count, or ask.

    Raises:
        TypeError: if `pass_` is neither a pass nor a text.
        ReproducerError: if the folder has no reproducer, the pass no longer fails that way, the adapter has no
            `shrinkings`, or both `pass_` and `isolate` are given.

    """
    path = Path(folder)
    reproducer = read_reproducer(path)
    if isolate and pass_ is not None:
        raise ReproducerError(
            "pass_ cannot be sent to another process; omit isolate, or register the pass and omit pass_"
        )
    check_context(path, reproducer)
    mod = read_module(path, reproducer)
    if not hasattr(adapter_for(mod), "shrinkings"):
        raise ReproducerError(
            f"the adapter for {type(mod).__qualname__} has no method `shrinkings`, so reduce does not support it"
        )
    runner = read_pass(path, reproducer) if pass_ is None else as_pass("reduce(folder, pass_)", pass_)
    with TemporaryDirectory(prefix="apass-reduce-") as scratch:
        matcher = _FailureMatcher(reproducer.failure, message)
        # A pass that has ended a worker would end this process.
        is_isolated = isolate or reproducer.failure.type == _LOST
        child = _child_command(runner, unknown_answers) if is_isolated else None
        answers = read_answers(path, reproducer, unknown_answers)
        search = _Reduction(
            reproducer, runner, answers, child, matcher, timeout, Path(scratch), report or _ignore, on_try or _ignore
        )
        return await search.run(mod, path / "reduced" if output is None else Path(output))


class _FailureMatcher:
    """Decides which failures count as the same."""

    def __init__(self, failure: Failure, message: str | None) -> None:
        self.failure = failure
        try:
            self.pattern = None if message is None else re.compile(message)
        except re.error as error:
            raise ReproducerError(f"message must be a regular expression, got {message!r}: {error}") from None

    def matches(self, failure: Failure | None) -> bool:
        if failure is not None and failure.type == "crash" and self.failure.type == _LOST and self.pattern is None:
            return True
        if failure is None or failure.type != self.failure.type:
            return False
        if self.pattern is not None:
            return self.pattern.search(failure.message) is not None
        return _normalized(failure.message) == _normalized(self.failure.message)


class _TimeLimitError(Exception):
    """The time limit of the search was reached."""


class _Reduction:
    """A search for a smaller module."""

    def __init__(
        self,
        reproducer: Reproducer,
        pass_: Pass[Any],
        answers: RecordedAnswers | None,
        child: Callable[[Path], list[str]] | None,
        matcher: _FailureMatcher,
        timeout: float | None,
        scratch: Path,
        report: Callable[[str], object],
        on_try: Callable[[int, int], object],
    ) -> None:
        self.reproducer = reproducer
        self.pass_ = pass_
        self.answers = answers
        self.answers_data = None if answers is None else answers.path.read_bytes()
        self.child = child
        self.matcher = matcher
        self.scratch = scratch
        self.report = report
        self.on_try = on_try
        self.ends = float("inf") if timeout is None else perf_counter() + timeout
        self.outcomes: dict[bytes, bool] = {}
        self.finished: set[bytes] = set()
        self.tries = 0
        self.failure: Failure | None = None
        self.last: Failure | None = None
        self.best: tuple[Any, bytes]

    async def run(self, mod: Any, output: Path) -> Reduced:
        """Search, and write the result."""
        self.best = (mod, dump_module(mod)[1])
        before = Size.of(*self.best)
        if not await self.fails(mod):
            now = "does not fail any more" if self.failure is None else f"fails another way: {self.failure}"
            raise ReproducerError(f"cannot reduce: the pass {now}; the recorded failure is {self.reproducer.failure}")
        complete = True
        try:
            while await self.shrink_once():
                continue
        except _TimeLimitError:
            complete = False
        folder = await self.write(output)
        return Reduced(folder=folder, before=before, after=Size.of(*self.best), tries=self.tries, complete=complete)

    async def shrink_once(self) -> bool:
        """Try each shrinking; return whether the module became smaller than before."""
        before = self.best[1]
        self.finished.add(sha256(before).digest())
        for number in range(1000):
            shrinking = next(islice(self.shrinkings(), number, None), None)
            if shrinking is None:
                break
            size = len(self.best[1])
            removed = await ddmin(shrinking.count, partial(self.fails_without, shrinking))
            if removed:
                smaller = f"{size:,} bytes before, {len(self.best[1]):,} after"
                self.report(f"removed {len(removed)} of {shrinking.count} {shrinking.what}: {smaller}")
        # Two shrinkings may undo each other, so stop at a module that was seen before.
        return sha256(self.best[1]).digest() not in self.finished

    def shrinkings(self) -> Iterable[Shrinking[Any]]:
        """Return the shrinkings of the smallest module so far."""
        mod = self.best[0]
        adapter: Any = adapter_for(mod)
        shrinkings: Iterable[Shrinking[Any]] = adapter.shrinkings(mod)
        return shrinkings

    async def fails_without(self, shrinking: Shrinking[Any], numbers: frozenset[int]) -> bool:
        """Return whether the pass fails the same way without these parts.

        If so, the module becomes the smallest one.
        """
        if not numbers:
            return True
        try:
            mod = shrinking.without(numbers)
        except Exception:  # a foreign library may raise any exception if a part cannot be removed
            return False
        return await self.fails(mod)

    async def fails(self, mod: Any) -> bool:
        """Return whether the pass fails the same way on a serialized, reloaded module."""
        try:
            _, data, _ = dump_module(mod)
            key = sha256(data).digest()
            if self.outcomes.get(key) is False:
                return False
            reloaded = load_module(self.reproducer.module_type, data, self.reproducer.facts)
        except Exception:  # the same
            return False
        if key not in self.outcomes:
            self.outcomes[key] = await self.run_attempt(reloaded, data)
        if self.outcomes[key]:
            self.best = (reloaded, data)
        self.on_try(self.tries, len(self.best[1]))
        return self.outcomes[key]

    async def run_attempt(self, mod: Any, data: bytes) -> bool:
        """Run the pass within the remaining time; return whether it fails the same way."""
        left = self.ends - perf_counter()
        if left <= 0:
            raise _TimeLimitError
        self.tries += 1
        self.failure = None
        with anyio.move_on_after(left) as scope:
            self.failure = await self.run_pass(mod, data)
        if scope.cancelled_caught:
            raise _TimeLimitError
        if self.matcher.matches(self.failure):
            self.last = self.failure
            return True
        return False

    async def run_pass(self, mod: Any, data: bytes) -> Failure | None:
        """Run the pass, here or in another process; return its failure."""
        if self.child is None:
            error = await run_once(self.reproducer, self.pass_, mod, self.answers)
            return None if error is None else Failure.of(error)
        folder = write_reproducer(self.scratch / "try", self.reproducer, data, "", self.answers_data)
        try:
            done = await anyio.run_process(self.child(folder), check=False)
        finally:
            shutil.rmtree(folder)
        lines = done.stdout.decode(errors="replace").splitlines()
        if done.returncode != 0 or not lines:
            last_line = done.stderr.decode(errors="replace").splitlines()[-1:]
            return Failure(type="crash", message=": ".join([f"the process ended with {done.returncode}", *last_line]))
        try:
            failure = json.loads(lines[-1])
            return None if failure is None else Failure(**failure)
        except (ValueError, TypeError):
            return Failure(type="crash", message=f"the process printed no failure: {lines[-1]}")

    async def write(self, output: Path) -> Path:
        """Write the smallest reproducer found."""
        mod, data = self.best
        failure = self.last or self.reproducer.failure
        description = f"reduced from the module of {self.reproducer.position}\n{failure}\n"
        function = self.reproducer.function
        names = [name for name, _ in adapter_for(mod).functions(mod)]
        smaller = replace(self.reproducer, failure=failure, function=function if function in names else None)
        return await anyio.to_thread.run_sync(write_reproducer, output, smaller, data, description, self.answers_data)


def _child_command(pass_: Pass[Any], unknown_answers: str) -> Callable[[Path], list[str]]:
    """Return the command that replays a folder in another process.

    Raises:
        ReproducerError: if the process cannot import a module that defines the pass.

    """
    loaded = [module.name for module in loaded_user_modules()]
    modules = sorted({name for name in (*loaded, *_modules(pass_)) if name.partition(".")[0] != "apass"})
    if "__main__" in modules:
        raise ReproducerError(
            f"another process cannot import the program that defines pass {pass_.info.name!r}; move the pass to a "
            f"module, or omit isolate"
        )
    # An empty entry would be the working directory of the child process, which may be anybody's.
    path = [entry for entry in sys.path if entry]
    program, last = [sys.executable, "-P", "-c", _CHILD], [json.dumps(path), json.dumps(modules), unknown_answers]
    return lambda folder: [*program, str(folder), *last]


def _modules(value: object) -> Iterator[str]:
    """Iterate over the Python modules that define a pass, its options and passes."""
    name: object = getattr(value, "__module__", None)
    if callable(value) and isinstance(name, str):
        yield name
    if _is_pass(value):
        options = () if value.spec is None else value.spec[1].values()
        for part in (*value.children(), *options):
            yield from _modules(part)
    elif isinstance(value, list | tuple):
        for item in cast("Iterable[object]", value):
            yield from _modules(item)


def _is_pass(value: object) -> TypeGuard[Pass[Any]]:
    return isinstance(value, Pass)


def _normalized(message: str) -> str:
    """Return the first line of a message, without names and numbers."""
    lines = message.strip().splitlines() or [""]
    return _VARIES.sub("_", lines[0])


def _ignore(*_arguments: object) -> None:
    """Do nothing."""
