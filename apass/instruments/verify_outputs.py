"""`VerifyOutputsInstrument`: compares outputs before and after each pass."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock
from typing import Any, Final

from apass.core.instrument import pass_instrument
from apass.core.ir_plugin import Comparison, GivenInputs, IRPlugin, compare_outputs, plugin_for, prove_equal
from apass.core.module_diff import changes_text
from apass.core.pass_info import PassInfo
from apass.core.run import current_run
from apass.errors import OutputsChangedError
from apass.instruments.honest_change import HonestChangeInstrument
from apass.instruments.support.change_tracker import ChangeTracker

__all__ = ["VerifyOutputsInstrument"]


@pass_instrument
class VerifyOutputsInstrument:
    """Names the first pass that changes the outputs of a module.

    The module before and the module after a pass are run on the same seeded inputs, by the `compare_outputs` of the
    `IRPlugin`. If the outputs differ, the pass ends with an OutputsChangedError. It is then the first such pass,
    because the outputs of all passes before it were equal. A pass that calls others, such as Sequential, is checked for
    its own changes only.

    With a `ReproducerInstrument` in the context, the pass gets a reproducer folder, which `apass.reduce` makes smaller
    as long as the outputs differ in the same way.

    If outputs cannot be compared, the pass continues. Reasons are that the pass converts the module to another IR, or
    that the plug-in cannot run the module. A pass that changes its input in place ends with a VerifyError, as with a
    `HonestChangeInstrument`: the module before it is lost.

    Parameters:
        prove: whether to search for a proof first, by the `prove_equal` of the plug-in. Outputs are compared only if
            there is neither a proof nor a counterexample. The solver needs the extra `prove`.
        inputs: shapes or values of the inputs; by default, the plug-in finds random ones.

    >>> import apass
    >>> from apass import relay
    >>> def double(func, mod, ctx):
    ...     return relay.Function(func.params, relay.add(func.body, func.body))
    >>> Double = apass.function_pass(double, opt_level=0, name="Double")
    >>> x = relay.var("x", shape=(2,), dtype="int32")
    >>> mod = relay.IRModule.from_expr(relay.Function([x], x))
    >>> try:
    ...     apass.run(Double, mod, context=apass.PassContext(instruments=[VerifyOutputsInstrument()]))
    ... except apass.errors.OutputsChangedError as error:
    ...     print(str(error).splitlines()[0])
    pass 'Double' changed the outputs: the result differs by up to 1 in 2 of 2 elements, where magnitudes reach 2

    """

    def __init__(self, *, prove: bool = False, inputs: GivenInputs | None = None) -> None:
        self._given = inputs
        self.mode: Final = "prove" if prove else "each"
        """`prove` or `each`, as for `apass opt --verify-outputs`."""
        self._tracker = ChangeTracker()
        self._changes = HonestChangeInstrument()
        self._results: Counter[tuple[str, str]] = Counter()
        self._lock = Lock()

    @property
    def results(self) -> Mapping[tuple[str, str], int]:
        """How often each check had which result, by the name of the pass and the result.

        A result is a text such as `"outputs equal"` or `"proved for all arguments"`.
        """
        with self._lock:
            return dict(self._results)

    def worker_records(self) -> Mapping[tuple[str, str], int]:
        """Return the results, for `merge_records` of the original."""
        return self._results

    def merge_records(self, records: Mapping[tuple[str, str], int]) -> None:
        """Add the results of a twin."""
        with self._lock:
            self._results.update(records)

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        return partial(VerifyOutputsInstrument, prove=self.mode == "prove", inputs=self._given)

    async def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Record the module, and its fingerprint."""
        run = current_run()
        if run is not None:
            self._tracker.begin(run, mod)
            await self._changes.run_before_pass(mod, info)

    async def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Compare the outputs of the input and of the result.

        Raises:
            OutputsChangedError: if they differ.
            VerifyError: if the pass changed its input in place.
            MissingExtraError: if the solver is not installed.

        """
        run = current_run()
        before = mod if run is None else self._tracker.end(run, mod)
        await self._changes.run_after_pass(mod, info)
        if before is mod:
            return
        plugin = plugin_for(before)
        if plugin_for(mod) is not plugin:
            return
        comparison = await self._compare(plugin, before, mod)
        with self._lock:
            self._results[info.name, comparison.text] += 1
        if comparison.changed:
            reason = comparison.text.removeprefix("outputs changed: ")
            raise OutputsChangedError(f"pass {info.name!r} changed the outputs: {reason}{changes_text(before, mod)}")

    async def _compare(self, plugin: IRPlugin[Any], before: Any, after: Any) -> Comparison:
        """Prove that two modules are equivalent, or compare their outputs."""
        if self.mode == "each":
            return await compare_outputs(plugin, before, after, given=self._given)
        proof = await prove_equal(plugin, before, after)
        if proof.equal is not None:
            return Comparison(not proof.equal, proof.text)
        comparison = await compare_outputs(plugin, before, after, given=self._given)
        proved = f"; proved for all arguments: {', '.join(proof.proved)}" if proof.proved else ""
        return Comparison(comparison.changed, f"{comparison.text}{proved}; no proof: {proof.text}")

    def run_after_pass_failed(self, mod: Any, info: PassInfo, error: BaseException) -> None:
        """Forget the module."""
        run = current_run()
        if run is not None:
            self._tracker.fail(run)
            self._changes.run_after_pass_failed(mod, info, error)
