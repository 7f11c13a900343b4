"""The concurrent map under every function pass: workers that share one list of items, on any event loop."""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextvars import Context, copy_context
from gc import get_referents
from operator import length_hint
from time import perf_counter
from typing import Any, Final, cast

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from apass.concurrency.coroutines import METER, finish_in, metered_task
from apass.concurrency.scheduler import Gate
from apass.concurrency.shielding import combine
from apass.core.run import RUN, Bodies, InlinePlace, Place, note_whereabouts

__all__ = ["close_all", "fan_out", "run_inline"]

Body = Callable[..., Any]
"""An async function, called with an item, the module and the context."""

PLENTY: Final = 16
"""Where more bodies than this begin in a round of the loop, one more worker is not needed yet."""

_PENDING: Final[Any] = object()


async def fan_out(body: Body, items: Sequence[Any], mod: Any, ctx: Any, bodies: Bodies, gate: Gate) -> list[Any]:
    """Run `body(item, mod, ctx)`, an async function, for each of `items` concurrently; return the results in order.

    The caller is one worker. It starts a second one when a body suspends, and that one a third before its own first
    body, and so on, while the gate has a slot and an item is left. So bodies that never suspend cost no task, and a
    nested fan-out never waits for a slot. Each body runs in a contextvars context that no other body has written to.
    Between bodies the loop gets its turns (see `Gate`).

    The first failure cancels the others. One error is raised as itself, several as one flat group, each with a note
    that says where. If the surrounding scope is cancelled as well, errors take precedence.
    """
    fan = _Fan(body, items, mod, ctx, bodies, gate)
    # A task group costs as much as ten bodies; one body needs none.
    await (fan.work_as_caller() if len(items) == 1 else fan.run())
    return fan.results()


class _Fan:
    """One fan-out at work."""

    def __init__(self, body: Body, items: Sequence[Any], mod: Any, ctx: Any, bodies: Bodies, gate: Gate) -> None:
        self.body = body
        self.items = items
        self.mod = mod
        self.ctx = ctx
        self.bodies = bodies
        self.gate = gate
        self.left = bodies.left = iter(range(len(items)))
        self.done: list[Any] = [_PENDING] * len(items)
        self.errors: list[BaseException] = []
        self.stray: BaseException | None = None
        self.group: TaskGroup | None = None
        self.helpers = 0

    def results(self) -> list[Any]:
        """Return the results, or raise what bodies raised."""
        if self.errors:
            raise combine("several functions failed", self.errors)
        # A body may end cancelled though no scope asked for it: it awaited something that somebody else cancelled.
        if self.stray is not None:
            raise self.stray
        return self.done

    async def run(self) -> None:
        """Work on the items with helpers, as many as there are slots."""
        try:
            async with anyio.create_task_group() as self.group:
                await self.work_as_caller()
        except anyio.get_cancelled_exc_class():
            if not self.errors:
                raise
        finally:
            self.gate.free += self.helpers

    async def work_as_caller(self) -> None:
        """Work in the caller's task, whose contextvars no body may touch."""
        place = Place(self.bodies)
        fresh = copy_context()
        fresh.run(RUN.set, place)
        try:
            await self.step(place, fresh, may_recruit=True)
        except BaseException as error:
            if not self.keep(error, place):
                raise

    async def help(self, left: int) -> None:
        """Work in a task of one's own, whose contextvars nobody else sees, and give the slot back.

        So bodies are simply awaited. Once one has left the contextvars changed, the next ones are stepped.
        """
        place = Place(self.bodies)
        # Only who has taken an item recruits: under a cancellation, helpers would start helpers without end.
        place.may_recruit = True
        RUN.set(place)
        fresh = copy_context()
        try:
            await self.wait_until_needed(left)
            while length_hint(self.left):
                await self.in_turn()
                if not await self.work(place):
                    await self.step(place, fresh)
        except BaseException as error:
            if not self.keep(error, place):
                raise
        finally:
            self.helpers -= 1
            self.gate.free += 1

    async def work(self, place: Place) -> bool:
        """Take one item after the other until none is left, the turn is over, or contextvars are not as they were.

        Return whether they are.
        """
        body, items, mod, ctx, gate, done = self.body, self.items, self.mod, self.ctx, self.gate, self.done
        untouched = _variables(copy_context())
        for index in self.left:
            place.index = index
            if place.may_recruit:
                place.may_recruit = self.recruit()
            done[index] = await body(items[index], mod, ctx)
            if _variables(copy_context()) is not untouched:
                return False
            # If others have taken items meanwhile, this body was suspended, and the loop has had its turn.
            if perf_counter() > gate.turn_ends and index + 1 + length_hint(self.left) == len(items):
                break
        return True

    async def step(self, place: Place, fresh: Context, *, may_recruit: bool = False) -> None:
        """Work until no item is left, each time in another copy of `fresh`, as the last body may have changed it."""
        while length_hint(self.left):
            await self.in_turn()
            context = fresh.copy()
            work = self.work(place)
            try:
                trap = context.run(work.send, None)
            except StopIteration:
                continue
            # A body has suspended: from now on, another worker is of use.
            if may_recruit:
                may_recruit = False
                place.may_recruit = fresh.run(self.recruit)
            await finish_in(context, work, trap)

    async def in_turn(self) -> None:
        """Return once the turn has time left."""
        if perf_counter() > self.gate.turn_ends:
            await self.gate.next_turn()

    async def wait_until_needed(self, left: int) -> None:
        """Return after a round of the loop in which the workers began few bodies, beginning with `left` items.

        As long as they get through many, one more is of no use: a task costs more than to begin several bodies.
        """
        while left - length_hint(self.left) > PLENTY:
            left = length_hint(self.left)
            await checkpoint()

    async def help_metered(self, left: int) -> None:
        """Do as `help`, while a pass that is timed waits for the result."""
        await metered_task(self.help(left))

    def recruit(self) -> bool:
        """Send for one more worker if an item is left and a slot is free; return whether to try again later."""
        left = length_hint(self.left)
        if self.group is None or not left:
            return False
        if self.gate.free < 1:
            return True
        self.gate.free -= 1
        self.helpers += 1
        self.group.start_soon(self.help_metered if METER.get() else self.help, left, name="apass helper")
        return False

    def keep(self, error: BaseException, place: Place) -> bool:
        """Keep what is an error of the body at work and cancel the others; return whether it is one."""
        rest = self.without_cancellation(error)
        if rest is None:
            return False
        note_whereabouts(rest, place.run())
        self.errors.append(rest)
        if self.group is not None:
            self.group.cancel_scope.cancel()
        return True

    def without_cancellation(self, error: BaseException) -> BaseException | None:
        """Return what is an error of the body; None for a cancellation, and for a coroutine being closed."""
        cancellation = (anyio.get_cancelled_exc_class(), GeneratorExit)
        if isinstance(error, cancellation):
            self.stray = error
            return None
        if isinstance(error, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", error)
            rest = group.split(cancellation)[1]
            return group if rest is not None and len(rest.exceptions) == len(group.exceptions) else rest
        return error


async def run_inline(
    body: Callable[..., Any], names: Sequence[str], items: Sequence[Any], mod: Any, ctx: Any, bodies: Bodies, gate: Gate
) -> dict[str, Any]:
    """Run a plain function on each of `items`, one after the other, and return what it gave back, by name, if new.

    "New" is whatever is not the item itself. Each body runs in a copy of the caller's contextvars. Between bodies the
    loop gets its turns.
    """
    left = iter(items)
    place = InlinePlace(bodies, left)
    fresh = copy_context()
    fresh.run(RUN.set, place)
    changed: dict[str, Any] = {}
    try:
        for name, item in zip(names, left, strict=False):
            result = fresh.copy().run(body, item, mod, ctx)
            if result is not item:
                changed[name] = result
            if perf_counter() > gate.turn_ends:
                await gate.next_turn()
    except BaseException as error:
        close_all(changed.values())
        if not isinstance(error, anyio.get_cancelled_exc_class()):
            note_whereabouts(error, place.run())
        raise
    return changed


def close_all(results: Iterable[object]) -> None:
    """Close coroutines that a plain function returned and that nobody will await."""
    for result in results:
        if isinstance(result, Coroutine):
            result.close()


def _variables(context: Context) -> object:
    """Return the immutable map in which CPython holds a context's variables: another object after any change."""
    referents = get_referents(context)
    return referents[-1] if referents else object()
