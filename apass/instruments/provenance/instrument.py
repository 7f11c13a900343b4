"""`ProvenanceInstrument`: keeps which pass made and changed each node."""

from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock
from typing import Any

from apass.core.adapter import adapter_for, run_in_thread_if_safe
from apass.core.displayed import Displayed
from apass.core.instrument import pass_instrument
from apass.core.pass_info import PassInfo
from apass.core.position import Position, PositionTracker
from apass.core.run import current_run
from apass.errors import UnknownNodeError, did_you_mean
from apass.executors.instrument_twins import remote_run
from apass.instruments.provenance.history import Provenance
from apass.instruments.provenance.snapshot import Snapshot
from apass.instruments.support.change_tracker import ChangeTracker
from apass.util.identity_cache import IdentityCache

__all__ = ["ProvenanceInstrument"]


@pass_instrument
class ProvenanceInstrument(Displayed):
    """Keeps the passes that made, changed and removed each function and each node.

    Nodes are those that the optional method `nodes` of the adapter lists. Modules are compared only around passes that
    returned another module, function by function. A composite pass is recorded only for changes that it made itself.

    If a module is the result of an earlier run in the context, its histories continue. Otherwise they begin with the
    input of the outermost pass. After a failure they end with the last module that a pass returned. A worker process
    knows no earlier runs, so there they begin anew.

    Parameters:
        first: the numbers of the first outermost runs, for a twin in a worker.

    >>> import apass
    >>> provenance = ProvenanceInstrument()
    >>> def widen(func, mod, ctx):
    ...     return {**func, "pad": {"op": "Pad", "width": 1}}
    >>> Widen = apass.function_pass(widen, opt_level=0, name="Widen")
    >>> mod = {"main": {"conv": {"op": "Conv"}}}
    >>> _ = apass.run(Widen, mod, context=apass.PassContext(instruments=[provenance]))
    >>> print(provenance.render())
    main: from the input; changed by Widen
      conv  from the input
      pad   made by Widen

    """

    def __init__(self, *, first: Mapping[str | None, int] | None = None) -> None:
        self._positions = PositionTracker(first)
        self._tracker = ChangeTracker()
        self._snapshots = IdentityCache[Snapshot]()
        self._results: dict[str, Provenance] = {}
        self._lock = Lock()

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        return partial(ProvenanceInstrument, first=self._positions.reserve(remote_run()))

    def worker_records(self) -> Mapping[str, Provenance]:
        """Return the histories, for `merge_records` of the original."""
        return self.modules

    def merge_records(self, records: Mapping[str, Provenance]) -> None:
        """Add the histories of a twin."""
        with self._lock:
            self._results.update(records)

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Record the module."""
        run = current_run()
        if run is not None and self._positions.position(run) is None:
            self._positions.begin(run)
            self._tracker.begin(run, mod)

    async def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Compare the nodes, if the result is another module."""
        run = current_run()
        position = None if run is None else self._positions.position(run)
        if run is None or position is None:
            return
        before = self._tracker.end(run, mod)
        is_outermost = run.parent is None
        if before is not mod or is_outermost:
            record = partial(self._record, before, mod, position, is_outermost=is_outermost)
            await run_in_thread_if_safe(adapter_for(mod), mod, record)

    def run_after_pass_failed(self, mod: Any, info: PassInfo, error: BaseException) -> None:
        """Keep what passes did before the failure."""
        run = current_run()
        position = None if run is None else self._positions.position(run)
        if run is None or position is None:
            return
        latest = self._tracker.input(run)
        self._tracker.fail(run)
        if run.parent is None:
            latest = mod if latest is None else latest
            self._record(latest, latest, position, is_outermost=True)

    @property
    def modules(self) -> Mapping[str, Provenance]:
        """The histories of each module, by its name.

        A module without a name has that of its first outermost run, such as `(unnamed 1)`.
        """
        with self._lock:
            return dict(self._results)

    def provenance(self, module: str | None = None) -> Provenance:
        """Return the histories of one module.

        Parameters:
            module: its name; None for the only module.

        Raises:
            UnknownNodeError: if there is no such module, or several without a name given.

        """
        modules = self.modules
        if module is None and len(modules) == 1:
            return next(iter(modules.values()))
        if module is None or module not in modules:
            hint = did_you_mean(module or "", modules, listing="observed modules: ")
            wanted = "the name of a module is needed" if module is None else f"no pass ran on a module {module!r}"
            raise UnknownNodeError(f"{wanted}{hint or '; no pass has ended'}")
        return modules[module]

    def render(self) -> str:
        """Return the histories as text: a line for each function and each node."""
        modules = self.modules
        if len(modules) == 1:
            return next(iter(modules.values())).render()
        return "\n\n".join(f"{name}\n{item.render()}" for name, item in modules.items()) or "no pass has ended"

    def as_json(self) -> dict[str, Any]:
        """Return the histories as JSON values, by the name of the module."""
        return {"version": 1, "modules": {name: item.as_json() for name, item in self.modules.items()}}

    def _record(self, before: Any, after: Any, position: Position, *, is_outermost: bool) -> None:
        """Record the snapshot of a result, and publish that of an outermost pass."""
        with self._lock:
            known = self._snapshots.get(before)
        snapshot = Snapshot.of(_key(position), before) if known is None else known
        if after is not before:
            snapshot = snapshot.after(before, after, position)
        # The snapshot refers to nodes of the IR, and lasts as long as the module. What is published does not.
        published = snapshot.provenance() if is_outermost else None
        with self._lock:
            self._snapshots.keep(after, snapshot)
            if published is not None:
                self._results[snapshot.key] = published


def _key(position: Position) -> str:
    """Return the name of a module, or the number of its outermost run if it has none."""
    return f"(unnamed {position.steps[0][0] + 1})" if position.module is None else position.module
