"""`Search`: the search for a smaller module and pipeline that fail the same way."""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, Final, Literal

import anyio
from anyio.lowlevel import checkpoint

from apass.core.adapter import adapter_for, facts_of, load_with_facts, type_name
from apass.core.context import PassContext
from apass.core.ir_plugin import data_suffix
from apass.debugging.attempts import Attempts, digest_of
from apass.debugging.replay import (
    ResultCheck,
    failure_of_check,
    run_once,
)
from apass.debugging.smaller_pipelines import as_row, joined, pipeline_shrinkings
from apass.errors import ExecutorError, ReproducerError, WorkerLostError
from apass.external.answers.replayer import AnswerReplayer
from apass.instruments.reproducer.folder import (
    Failure,
    Reproducer,
    dump_module,
    write_reproducer,
)
from apass.instruments.support.paths import file_name
from apass.passes.base import Pass
from apass.passes.sequential import Sequential
from apass.util.checks import is_count
from apass.util.delta_debugging import Shrinking, ddmin

__all__ = ["Kept", "Reduced", "Search", "Size", "fields_of_pass", "text_or_none"]

Kept = Literal["module", "pipeline"]
"""What a reduction leaves as it is."""

_VARIES: Final = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|[%@][\w.]+|0x[0-9a-f]+|\d+(?:\.\d+)?")
"""Parts of a message that depend on the module: names and numbers."""

LIMIT: Final = 60.0
"""Seconds that each attempt may take beyond ten times the first one."""

_LOST: Final = Failure.of(WorkerLostError()).type
"""The recorded failure of a pass that ended its worker."""

_NOT_SENT: Final = Failure.of(ExecutorError()).type
"""The failure of a pass that cannot be sent to a worker."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a module and a pipeline."""

    functions: int
    """Number of functions."""
    lines: int
    """Number of lines of the module's text."""
    file_size: int
    """Size of the module's file in bytes."""
    passes: int = 1
    """Number of passes in the text of the pipeline that contain no others."""

    def __str__(self) -> str:
        passes = "" if self.passes == 1 else f"{self.passes:,} passes, "
        counts = ((self.functions, "function"), (self.lines, "line"), (self.file_size, "byte"))
        return passes + ", ".join(f"{number:,} {unit}{'' if number == 1 else 's'}" for number, unit in counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """The result of `reduce`."""

    folder: Path
    """The folder of the smaller reproducer."""
    pipeline: str | None
    """The text of the smaller pipeline; None if it has none."""
    before: Size
    """The size of the original module and pipeline."""
    after: Size
    """The size of the reduced module and pipeline."""
    tries: int
    """Number of modules that were tried."""
    complete: bool
    """Whether no part can be removed. It is False if the timeout was reached."""


class _FailureMatcher:
    """Decides which failures count as the same."""

    def __init__(self, message: str | None) -> None:
        try:
            self.pattern = None if message is None else re.compile(message)
        except re.error as error:
            raise ReproducerError(f"message must be a regular expression, got {message!r}: {error}") from None

    def accepts(self, message: str) -> bool:
        """Return whether a message matches the pattern, if there is one."""
        return self.pattern is None or self.pattern.search(message) is not None

    def matches(self, failure: Failure | None, wanted: Failure) -> bool:
        if failure is None or failure.type != wanted.type:
            return False
        if self.pattern is not None:
            return self.accepts(failure.message)
        # The message about a lost worker depends on what it had to do.
        return failure.type == _LOST or _normalized(failure.message) == _normalized(wanted.message)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A module and a pipeline to try."""

    mod: Any
    """The module, read from its file."""
    data: bytes
    """The contents of the file."""
    pass_: Pass[Any]
    """The pipeline."""
    text: str
    """The text of the pipeline; empty if it has none, so that it is not reduced."""

    @classmethod
    def of(cls, mod: Any, pass_: Pass[Any]) -> "_Candidate":
        """Return a candidate whose module is written and read again."""
        _, data, facts = dump_module(mod)
        return cls(load_with_facts(adapter_for(mod), data, facts), data, pass_, text_or_none(pass_) or "")

    @property
    def digest(self) -> str:
        """What identifies the candidate."""
        return digest_of(self.data, self.text.encode())

    def size(self) -> Size:
        """Return the size of the module and the pipeline."""
        adapter = adapter_for(self.mod)
        functions, lines = len(list(adapter.functions(self.mod))), len(adapter.to_text(self.mod).splitlines())
        return Size(functions, lines, len(self.data), _count(self.pass_))


class Search:
    """A search for a smaller module and pipeline."""

    def __init__(
        self,
        reproducer: Reproducer,
        mod: Any,
        pass_: Pass[Any],
        answers: AnswerReplayer | None,
        *,
        check: ResultCheck | None,
        failure: Failure | None,
        keep: Kept | None,
        message: str | None,
        isolate: bool,
        jobs: int,
        tried: Path | None,
        report: Callable[[str], object],
        on_try: Callable[[int, Size], object],
    ) -> None:
        if keep not in (None, "module", "pipeline"):
            raise ValueError(f"keep must be 'module', 'pipeline' or None, got {keep!r}")
        if not is_count(jobs):
            # With 0, no attempt would be made, and the original would be the result.
            raise ValueError(f"jobs must be a positive number of attempts, got {jobs!r}")
        if keep != "module" and not hasattr(adapter_for(mod), "shrinkings"):
            raise ReproducerError(
                f"the adapter for {type(mod).__qualname__} has no method `shrinkings`, so reduce does not support it"
            )
        self.reproducer = reproducer
        self.answers = answers
        self.check = check
        self.wanted = failure
        self.keep = keep
        # A pass that has ended a worker would end this process.
        self.is_isolated = isolate or (failure is not None and failure.type == _LOST)
        self.jobs = jobs
        self.report = report
        self.on_try = on_try
        self.matcher = _FailureMatcher(message)
        self.ctx: PassContext = reproducer.context.make()
        row = as_row(pass_)
        # A pass that is no row runs regardless of its level, such as one that another pass requires.
        pass_ = joined(row.passes, self.ctx) if row is pass_ else pass_
        self.best = _Candidate(mod, dump_module(mod)[1], pass_, text_or_none(pass_) or "")
        self.size = self.best.size()
        identity = json.dumps([asdict(reproducer), message, _name(check)], default=str)
        self.attempts = Attempts(tried, digest_of(identity.encode(), self.best.digest.encode()))
        self.finished: set[str] = set()
        self.failures: dict[str, Failure] = {}
        self.limit = inf
        self.tries = 0

    async def run(self, output: Path, timeout: float | None) -> Reduced:
        """Search, and write the result."""
        before = self.size
        if self.attempts.known:
            self.report(f"{self.attempts.known:,} attempts are known from an interrupted search")
        with anyio.move_on_after(timeout) as scope:
            await self.begin()
            while await self.shrink_once():
                continue
        # A further attempt, which has no time limit, might not end either.
        if self.wanted is None or self.tries == 0:
            raise ReproducerError(f"cannot reduce: the first attempt did not end in {timeout:g} s")
        # The outcome may come from the file of an interrupted search.
        failure = self.failures.get(self.best.digest) or await self.failure_of(self.best)
        if failure is None or not self.matcher.matches(failure, self.wanted):
            self.attempts.discard()
            raise ReproducerError(
                "the outcomes of the interrupted search do not hold any more; they were removed, so start again"
            )
        folder = await self.write(output, failure)
        if not scope.cancelled_caught:
            self.attempts.discard()
        return Reduced(
            folder=folder,
            pipeline=self.best.text or None,
            before=before,
            after=self.size,
            tries=self.tries,
            complete=not scope.cancelled_caught,
        )

    async def begin(self) -> None:
        """Run the original passes, and learn the failure to keep.

        Raises:
            ReproducerError: if they do not fail, or fail in another way.

        """
        best = self.best
        first = _Candidate.of(best.mod, best.pass_)
        start = anyio.current_time()
        failure = await self.failure_of(first)
        self.limit = LIMIT + 10 * (anyio.current_time() - start)
        if failure is not None and failure.type == _NOT_SENT:
            raise ReproducerError(
                f"cannot reduce: the passes cannot run in a worker process: {failure.message}; register them in a "
                f"module that it can import, or omit isolate"
            )
        if self.check is not None and (rejected := await failure_of_check(self.check, first.mod, first.mod)):
            raise ReproducerError(
                f"cannot reduce: the check rejects the module before any pass ({rejected}); correct the check"
            )
        if failure is None:
            if self.wanted is not None:
                what = f"the pass does not fail any more; the recorded failure is {self.wanted}"
            elif self.check is not None:
                what = "the check accepts the result of the passes"
            else:
                what = "the passes do not fail; give a check that rejects their result"
            raise ReproducerError(f"cannot reduce: {what}")
        self.wanted = self.wanted or failure
        if failure.type == self.wanted.type and not self.matcher.accepts(failure.message):
            raise ReproducerError(f"cannot reduce: the message of the failure does not match the pattern: {failure}")
        if not self.matcher.matches(failure, self.wanted):
            raise ReproducerError(
                f"cannot reduce: the pass fails another way: {failure}; the recorded failure is {self.wanted}"
            )
        self.failures[best.digest] = failure
        self.tries += 1

    async def shrink_once(self) -> bool:
        """Try each shrinking; return whether the reproducer became smaller than before."""
        self.finished.add(self.best.digest)
        for number in range(1000):
            item = next(islice(self.shrinkings(), number, None), None)
            if item is None:
                break
            await self.shrink(*item)
        if self.keep is None and self.best.text:
            await self.start_later()
        # Two shrinkings may undo each other, so stop at a reproducer that was seen before.
        return self.best.digest not in self.finished

    def shrinkings(self) -> Iterator[tuple[Shrinking[Any], Callable[[Any], _Candidate]]]:
        """Iterate over the shrinkings of the smallest reproducer, and how to try a result."""
        best = self.best
        # A shorter pipeline makes the attempts faster.
        if self.keep != "pipeline" and best.text:
            for part in pipeline_shrinkings(best.pass_, self.ctx):
                yield part, partial(_Candidate.of, best.mod)
        if self.keep != "module":
            adapter: Any = adapter_for(best.mod)
            shrinkings: Iterable[Shrinking[Any]] = adapter.shrinkings(best.mod)
            for part in shrinkings:
                yield part, lambda mod: _Candidate.of(mod, best.pass_)

    async def shrink(self, shrinking: Shrinking[Any], create: Callable[[Any], _Candidate]) -> None:
        """Remove as many parts as possible."""
        size = self.size
        smaller: dict[frozenset[int], _Candidate] = {}

        async def fails_without(numbers: frozenset[int]) -> bool:
            candidate = await self.smaller(lambda: create(shrinking.without(numbers)))
            if candidate is not None:
                smaller[numbers] = candidate
            return candidate is not None

        def accept(numbers: frozenset[int]) -> None:
            self.accept(smaller[numbers])
            smaller.clear()

        removed = await ddmin(shrinking.count, fails_without, jobs=self.jobs, accept=accept)
        if removed:
            self.report(
                f"removed {len(removed)} of {shrinking.count} {shrinking.what}: "
                f"{size.file_size:,} bytes before, {self.size.file_size:,} after"
            )

    async def start_later(self) -> None:
        """Make the result of the first passes the module, if the others fail on it."""
        passes = as_row(self.best.pass_).passes
        for count in range(len(passes) - 1, 0, -1):
            mod, error = None, None
            with anyio.move_on_after(self.limit) as scope:
                mod, error = await self.result_of(Sequential(passes[:count]), self.best.mod)
            if scope.cancelled_caught or error is not None or not hasattr(adapter_for(mod), "shrinkings"):
                continue
            candidate = await self.smaller(partial(_Candidate.of, mod, joined(passes[count:], self.ctx)))
            if candidate is not None:
                self.accept(candidate)
                self.report(f"replaced the module by the result of the first {count} of {len(passes)} passes")
                return

    def accept(self, candidate: _Candidate) -> None:
        """Make a candidate the smallest reproducer."""
        self.best = candidate
        self.size = candidate.size()
        self.on_try(self.tries, self.size)

    async def smaller(self, create: Callable[[], _Candidate]) -> _Candidate | None:
        """Return a candidate if it fails the same way."""
        # Attempts without a checkpoint of their own would never be cancelled.
        await checkpoint()
        try:
            candidate = create()
        except Exception:  # a foreign library may raise any exception if a part cannot be removed
            return None
        digest = candidate.digest
        fails = self.attempts.get(digest)
        if fails is None:
            failure = await self.failure_of(candidate)
            assert self.wanted is not None
            fails = self.matcher.matches(failure, self.wanted)
            if fails and self.check is not None:
                fails = await failure_of_check(self.check, candidate.mod, candidate.mod) is None
            if fails and failure is not None:
                self.failures[digest] = failure
            self.tries += 1
            self.attempts.add(digest, fails)
            self.on_try(self.tries, self.size)
        return candidate if fails else None

    async def failure_of(self, candidate: _Candidate) -> Failure | None:
        """Run the passes, and the check; return how they fail.

        An attempt that takes too long does not fail.
        """
        with anyio.move_on_after(self.limit):
            result, error = await self.result_of(candidate.pass_, candidate.mod)
            if error is not None:
                return Failure.of(error)
            return await failure_of_check(self.check, candidate.mod, result)
        return None

    def result_of(self, pass_: Pass[Any], mod: Any) -> Awaitable[tuple[Any, Exception | None]]:
        """Run passes on a module; return the result or the error."""
        return run_once(self.reproducer, pass_, mod, self.answers, in_worker=self.is_isolated)

    async def write(self, output: Path, failure: Failure) -> Path:
        """Write the smallest reproducer found."""
        best, reproducer = self.best, self.reproducer
        adapter = adapter_for(best.mod)
        names = [name for name, _ in adapter.functions(best.mod)]
        smaller = replace(
            reproducer,
            failure=failure,
            function=reproducer.function if reproducer.function in names else None,
            pipeline=best.text or reproducer.pipeline,
            **({} if best.text == reproducer.pipeline else fields_of_pass(best.pass_)),
            module_type=type_name(best.mod),
            module_file=file_name(f"module{data_suffix(best.mod)}"),
            facts=facts_of(adapter, best.mod),
        )
        answers = None if self.answers is None else self.answers.path.read_bytes()
        description = f"reduced from the module of {reproducer.position}\n{failure}\n"
        return await anyio.to_thread.run_sync(write_reproducer, output, smaller, best.data, description, answers)


def fields_of_pass(pass_: Pass[Any]) -> dict[str, Any]:
    """Return the fields of a reproducer that belong to its pass."""
    name = pass_.info.name
    return {"pass_name": name, "position": f"0:{name}", "defined_in": getattr(pass_, "__module__", None)}


def text_or_none(pass_: Pass[Any]) -> str | None:
    """Return the text of a pass as one element of a pipeline; None if it has none."""
    try:
        return pass_.text()
    except TypeError:
        return None


def _count(pass_: Pass[Any]) -> int:
    """Return the number of passes in the text that contain no others."""
    inner = pass_.passes if isinstance(pass_, Sequential) else pass_.children()
    return sum(map(_count, inner)) if inner else int(not isinstance(pass_, Sequential))


def _name(check: ResultCheck | None) -> str:
    """Return a name of a check that is the same in the next process."""
    return "" if check is None else str(getattr(check, "__qualname__", check))


def _normalized(message: str) -> str:
    """Return the first line of a message, without names and numbers."""
    lines = message.strip().splitlines() or [""]
    return _VARIES.sub("_", lines[0])
