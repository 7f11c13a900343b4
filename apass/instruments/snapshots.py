"""`SnapshotInstrument`: continues a pipeline after the last finished pass."""

import json
import warnings
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, Final, Self

import anyio
from anyio.to_thread import run_sync

from apass.batch.journal import describe_run
from apass.batch.snapshot_folder import SnapshotFolder, snapshot_key
from apass.core.adapter import ModT, adapter_for, run_in_thread_if_safe
from apass.core.context import PassContext, current_scope
from apass.core.instrument import pass_instrument
from apass.core.pass_info import PassInfo
from apass.core.position import Position, PositionTracker
from apass.core.run import current_module_name, current_run
from apass.errors import JournalWarning, ResumeError
from apass.executors.instrument_twins import remote_run
from apass.passes.base import Pass
from apass.pipelines.resume import is_in_order, is_row, rest_of

__all__ = ["SnapshotInstrument"]


@dataclass(frozen=True, slots=True)
class _Progress:
    """What is known about the pipeline of one module."""

    key: str
    """The name of its snapshot."""
    positions: tuple[str, ...]
    """The positions after which the pipeline was continued."""
    begun: float
    """When the pipeline began, or continued."""
    written: float = 0.0
    """When the last snapshot was finished; 0 if there is none."""
    cost: float = 0.0
    """Seconds that all snapshots took."""
    last_cost: float = 0.0
    """Seconds that the last one took."""


class _Pipeline:
    """A pipeline that runs.

    Pipelines of the same module name, or of modules without a name, may run at once. So the hooks find theirs by the
    task, and not by the name.
    """

    def __init__(self, owner: object, progress: _Progress) -> None:
        self.owner = owner
        self.progress = progress
        self.is_writable = True


_PIPELINE: Final[ContextVar[_Pipeline | None]] = ContextVar("apass_snapshot_pipeline", default=None)
"""The pipeline that this task runs."""


@pass_instrument
class SnapshotInstrument:
    """Writes the module between passes, so that a later run continues the pipeline.

    If an earlier run of the same pipeline on the same module was interrupted, or one of its passes failed,
    `optimize_all` and `optimize_stream` continue after the last pass whose result was written. The name and the
    contents of the module, the versions of the passes, and the settings of the context must be the same. A pass that is
    called directly starts over.

    - Only the latest module is kept, in chunks by digest. Chunks that did not change, such as those of weights, are not
      written again. The snapshot is removed when the pipeline ends.
    - Snapshots are made after passes that run one after another, also in a Repeat, a While or an If. A pass that is run
      by another one's code is part of that one.
    - A snapshot is made only if snapshots have then taken at most `share` of the time of the pipeline, and at least
      `interval` seconds after the last one.
    - There are no snapshots if an instrument of the context may skip passes, such as a BisectInstrument.
    - `apass opt --journal FILE` uses the folder `FILE.snapshots`.

    Parameters:
        folder: the folder of the snapshots; it is created when the first one is written.
        share: the largest part of the running time that snapshots may take; `inf` for one after each pass.
        interval: seconds between two snapshots of a module.

    >>> import anyio, apass, tempfile
    >>> from apass.instruments import SnapshotInstrument
    >>> fails = [True]
    >>> def double(mod, ctx):
    ...     print("double")
    ...     return {"f": 2 * mod["f"]}
    >>> def fail_once(mod, ctx):
    ...     if fails.pop():
    ...         raise ValueError("the service is gone")
    ...     return mod
    >>> Double = apass.module_pass(double, opt_level=0, name="Double")
    >>> FailOnce = apass.module_pass(fail_once, opt_level=0, name="FailOnce")
    >>> fails += [False, True]
    >>> async def main(folder):
    ...     snapshots = SnapshotInstrument(folder, share=float("inf"), interval=0)
    ...     async with apass.PassContext(instruments=[snapshots]):
    ...         return await apass.optimize_all({"m": {"f": 4}}, apass.Sequential([Double, FailOnce]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     try:
    ...         anyio.run(main, folder)
    ...     except ValueError as error:
    ...         print(error)
    ...     print(anyio.run(main, folder))
    double
    the service is gone
    {'m': {'f': 8}}

    """

    reads_modules: Final = False
    """The hooks keep no module whose contents they read later."""

    def __init__(self, folder: Path | str, *, share: float = 0.1, interval: float = 1.0) -> None:
        self.folder: Final = Path(folder)
        """The folder of the snapshots."""
        self.share: Final = share
        """The `share` argument."""
        self.interval: Final = interval
        """The `interval` argument."""
        self._snapshots = SnapshotFolder(self.folder)
        self._positions = PositionTracker()
        self._keys: set[str] = set()
        """The snapshots of the pipelines that run."""
        self._remote: _Pipeline | None = None
        """The pipeline of a twin in a worker."""
        self._continued: dict[str | None, str] = {}
        self._lock = Lock()

    @property
    def continued(self) -> Mapping[str | None, str]:
        """The position of the last pass of the earlier run, by the name of the module."""
        with self._lock:
            return dict(self._continued)

    async def run_continued(
        self, pass_: Pass[ModT], mod: ModT, *, runner: Callable[[Pass[ModT]], Callable[[ModT], Awaitable[ModT]]]
    ) -> ModT:
        """Run a pipeline on a module, or what an earlier run has left of it.

        Raises:
            JournalError: if the pipeline has no text.
            Exception: the error of a pass.

        """
        if current_scope().state.hooks.should_run:
            # The numbers of positions count the passes that run, so they would not be those of the pipeline.
            return await self._run(pass_, mod, runner, None)
        name = current_module_name()
        description = describe_run({"": pass_}, PassContext.current())
        adapter = adapter_for(mod)
        key = await run_in_thread_if_safe(adapter, mod, partial(_key, adapter, name, mod, description))
        with self._lock:
            is_taken = key in self._keys
            self._keys.add(key)
        if is_taken:
            # The same pipeline runs on the same module now, and writes the snapshots of both.
            return await self._run(pass_, mod, runner, None)
        try:
            return await self._continue(pass_, mod, runner, name, key)
        finally:
            with self._lock:
                self._keys.remove(key)

    async def _continue(
        self,
        pass_: Pass[ModT],
        mod: ModT,
        runner: Callable[[Pass[ModT]], Callable[[ModT], Awaitable[ModT]]],
        name: str | None,
        key: str,
    ) -> ModT:
        """Run a pipeline from its snapshot, and remove the snapshot at the end."""
        rest, start = pass_, mod
        positions: tuple[str, ...] = ()
        found = await run_sync(self._snapshots.read, key)
        if found is None:
            # A damaged chunk must not become part of the next snapshot.
            await run_sync(self._snapshots.remove, key)
        else:
            snapshot, latest = found
            try:
                rest = _rest(pass_, snapshot.positions)
                start, positions = latest, snapshot.positions
            except (ResumeError, ValueError):  # the file names a pass that the pipeline does not run
                await run_sync(self._snapshots.remove, key)
        if positions:
            with self._lock:
                self._continued[name] = positions[-1]
        result = await self._run(rest, start, runner, _Pipeline(self, _Progress(key, positions, perf_counter())))
        with anyio.CancelScope(shield=True):
            await run_sync(self._snapshots.remove, key)
        return result

    async def _run(
        self,
        pass_: Pass[ModT],
        mod: ModT,
        runner: Callable[[Pass[ModT]], Callable[[ModT], Awaitable[ModT]]],
        pipeline: _Pipeline | None,
    ) -> ModT:
        """Run a pass on a module; the snapshots belong to `pipeline`."""
        token = _PIPELINE.set(pipeline)
        try:
            return await runner(pass_)(mod)
        finally:
            _PIPELINE.reset(token)

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        run = remote_run()
        pipeline = self._pipeline
        progress = None if pipeline is None else pipeline.progress
        return partial(
            SnapshotInstrument._make_twin,
            self.folder.absolute(),
            self.share,
            self.interval,
            None if progress is None else (progress.key, progress.positions),
            self._positions.reserve(run),
        )

    @classmethod
    def _make_twin(
        cls,
        folder: Path,
        share: float,
        interval: float,
        progress: tuple[str, tuple[str, ...]] | None,
        first: Mapping[str | None, int],
    ) -> Self:
        twin = cls(folder, share=share, interval=interval)
        twin._positions = PositionTracker(first)
        if progress is not None:
            twin._remote = _Pipeline(twin, _Progress(*progress, perf_counter()))
        return twin

    @property
    def _pipeline(self) -> _Pipeline | None:
        """The pipeline of the current pass; None if `run_continued` does not run it."""
        pipeline = _PIPELINE.get()
        return pipeline if pipeline is not None and pipeline.owner is self else self._remote

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Record the position of the pass."""
        run = current_run()
        if run is not None:
            self._positions.begin(run)

    async def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Write the module, if the pipeline can continue after the pass."""
        run = current_run()
        if run is None or run.parent is None or is_row(run) or not is_in_order(run):
            return
        pipeline, position = self._pipeline, self._positions.position(run)
        if pipeline is None or position is None or not pipeline.is_writable or not self._is_due(pipeline.progress):
            return
        progress = pipeline.progress
        # A cancellation must not leave half a snapshot, and this one is worth its time.
        with anyio.CancelScope(shield=True):
            try:
                pipeline.progress = await self._write(progress, (*progress.positions, position.text), mod)
            except OSError as error:
                # The module is still correct, and a full disk must not end a long run.
                pipeline.is_writable = False
                text = f"cannot write snapshots to {str(self.folder)!r}: {error.strerror or error}"
                warnings.warn(f"{text}; an interrupted pipeline starts over", JournalWarning, stacklevel=2)

    def _is_due(self, progress: _Progress) -> bool:
        now = perf_counter()
        if now - (progress.written or progress.begun) < self.interval:
            return False
        return progress.cost + progress.last_cost <= self.share * (now - progress.begun)

    async def _write(self, progress: _Progress, positions: tuple[str, ...], mod: Any) -> _Progress:
        start = perf_counter()
        write = partial(self._snapshots.write, progress.key, positions, mod)
        await run_in_thread_if_safe(adapter_for(mod), None, write)
        end = perf_counter()
        return replace(progress, written=end, cost=progress.cost + end - start, last_cost=end - start)


def _key(adapter: Any, name: str | None, mod: Any, description: Mapping[str, Any]) -> str:
    """Return the name of the snapshot of a module."""
    identity = json.dumps([name, adapter.fingerprint(mod), description], sort_keys=True)
    return snapshot_key(name, identity)


def _rest(pipeline: Pass[Any], positions: tuple[str, ...]) -> Pass[Any]:
    """Return the rest of a pipeline after positions, each in the rest after the last."""
    for text in positions:
        pipeline = rest_of(pipeline, Position.parse(text))
    return pipeline
