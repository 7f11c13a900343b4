"""`InPlacePass`: a pass that changes a private copy of the module."""

from abc import abstractmethod
from collections.abc import Awaitable

from apass.concurrency.coroutines import await_once, is_awaitable
from apass.core.adapter import ModT, adapter_for, commit, exact_fingerprint
from apass.core.context import PassContext, current_scope
from apass.errors import PassResultError
from apass.passes.base import ModulePass
from apass.passes.draft import Draft, take_draft

__all__ = ["InPlacePass"]


class InPlacePass(ModulePass[ModT]):
    """A pass over a mutable IR, which changes a private copy of the module in place.

    Use it for the passes of other libraries, which change their argument. The input of the pass stays as it is, also
    after an error or a cancellation, and the result is another module, or the input itself if nothing changed.

    Consecutive passes of this kind in a Sequential share one copy, made before the first of them that has work. Each
    makes its own copy if an instrument reads modules, or if the pass has an `on_error` or an `executor`. A module that
    the caller donates (`await pass_(mod, donate=True)`) is not copied at all.

    With `DebugInstrument(strict=True)`, the runner compares fingerprints, and raises PassResultError if a pass changed
    the module and returned False.

    >>> import anyio
    >>> from apass.core.pass_info import PassInfo
    >>> class Rename(InPlacePass[dict[str, str]]):
    ...     info = PassInfo(opt_level=1, name="Rename")
    ...     def has_work(self, mod):
    ...         return "old" in mod
    ...     def transform_in_place(self, mod, ctx):
    ...         mod["new"] = mod.pop("old")
    ...         return True
    >>> module = {"old": "x"}
    >>> anyio.run(Rename(), module), module
    ({'new': 'x'}, {'old': 'x'})

    """

    changes_in_place = True

    @property
    def keeps_input(self) -> bool:
        """Whether the input must stay as it is until the pass ends."""
        return self.on_error != "raise" or self.executor is not None

    def has_work(self, mod: ModT) -> bool:
        """Return False if the pass would change nothing; `mod` is read only.

        It is called first, because it is cheaper than a copy.
        """
        return True

    @abstractmethod
    def transform_in_place(self, mod: ModT, ctx: PassContext) -> bool | Awaitable[bool]:
        """Change `mod`, a private copy, and return whether it changed.

        May be `async def`.
        """

    def transform_module(self, mod: ModT, ctx: PassContext) -> ModT | Awaitable[ModT]:
        """Call `transform_in_place` on a private copy, if there is work."""
        return self.change_copy(mod, ctx) if self.has_work(mod) else mod

    def change_copy(self, mod: ModT, ctx: PassContext) -> ModT | Awaitable[ModT]:
        """Return a copy that `transform_in_place` has changed, or else `mod`."""
        draft = take_draft(self)
        # A hook that keeps the module must not see it change.
        if draft is not None and current_scope().state.hooks.reads_modules:
            draft.forget()
            draft = None
        adapter = adapter_for(mod)
        before = exact_fingerprint(adapter, mod) if ctx.run_settings.strict else ""
        if draft is not None and draft.value is mod and not (self.keeps_input and draft.private is mod):
            private: ModT = draft.private
            # If this pass fails, the copy is of no use to the next one.
            draft.forget()
        else:
            private = adapter.isolate(mod, [name for name, _ in adapter.functions(mod)])
        outcome = self.transform_in_place(private, ctx)
        if not is_awaitable(outcome):
            return self._finished(outcome, mod, private, before, draft)

        async def finish_later() -> ModT:
            changed = await await_once(outcome, f"transform_in_place of pass {self.info.name!r}")
            return self._finished(changed, mod, private, before, draft)

        return finish_later()

    def _finished(self, changed: object, mod: ModT, private: ModT, before: str, draft: Draft | None) -> ModT:
        """Return `private` as a new module if it has changed, or else `mod`.

        Raises:
            PassResultError: if `changed` is no bool, or False although the fingerprint is not `before`.

        """
        adapter = adapter_for(mod)
        if not isinstance(changed, bool):
            raise PassResultError(
                f"transform_in_place of pass {self.info.name!r} returned {changed!r}; return True if the module "
                "changed, else False"
            )
        if before and not changed and exact_fingerprint(adapter, private) != before:
            raise PassResultError(f"pass {self.info.name!r} changed the module, but returned False; return True")
        if changed:
            current_scope().state.analyses.changed_in_place(func for _, func in adapter.functions(private))
            mod = private = commit(adapter, private)
        if draft is not None:
            draft.keep(mod, private)
        return mod
