"""`SharedLimits`: the limits of a service that several processes keep together."""

import json
import random
import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Any, Final, Self

import anyio

from apass.errors import BudgetSpentError, StoreError, StoreWarning
from apass.external.limit_stores import LimitStore
from apass.external.policy import Budget, Policy, Rate

__all__ = ["Charge", "SharedLimits"]

Charge = Callable[[Any, Any], None]
"""Charges a request and its answer to the budget."""

POLL_SECONDS: Final = 0.1
"""Seconds until a process asks again for a slot, of which none was free."""

RESERVED_SECONDS: Final = 0.1
"""Seconds for which a process may reserve the time of its next request.

If it waited for the time first, each request would be late, and the rate would not be reached.
"""

COLLISION_SECONDS: Final = 0.01
"""Seconds until a process repeats a change that collided with the change of another one, at most."""

LEAVE_SECONDS: Final = 1.0
"""Seconds in which a request that was cancelled or has failed may free its slot."""

GRACE_SECONDS: Final = 5.0
"""Seconds after the timeout of an attempt until its slot is free again, if its process was killed."""


@dataclass(frozen=True, slots=True)
class _State:
    """The state of the limits of a service, as a store keeps it."""

    full_at: float = 0.0
    """When a full burst is available again, in seconds since 1970."""
    spent: float = 0.0
    """What the requests of the period have cost."""
    since: float = 0.0
    """When the period began."""
    slots: dict[str, float] = field(default_factory=dict[str, float])
    """The running attempts, and when each ends at the latest."""

    @classmethod
    def parse(cls, name: str, text: str) -> Self:
        """Return the state that a text describes.

        Raises:
            StoreError: if it describes none.

        """
        try:
            return cls(**json.loads(text or "{}"))
        except (TypeError, ValueError) as error:
            raise StoreError(
                f"the shared limits of {name} are damaged: {error}; remove them from their store"
            ) from error

    def text(self) -> str:
        """Return the text for a store."""
        values = {"full_at": self.full_at, "spent": self.spent, "since": self.since, "slots": self.slots}
        return json.dumps(values, sort_keys=True)

    def without_ended(self, now: float) -> "_State":
        """Return the state without attempts whose processes have not ended them."""
        return replace(self, slots={slot: end for slot, end in self.slots.items() if end > now})

    def seconds_to_wait(self, rate: Rate, now: float) -> float:
        """Return the seconds until one more request is permitted."""
        return max(0.0, self.full_at - (rate.burst - 1) * rate.interval - now)

    def in_period(self, budget: Budget, now: float) -> "_State":
        """Return the state in the period of now."""
        is_over = not self.since or (budget.seconds is not None and now >= self.since + budget.seconds)
        return replace(self, spent=0.0, since=now) if is_over else self


class SharedLimits:
    """The rate, the concurrency and the budget of a service, in a store.

    The processes that use the store change a state by turns: each change is made only if the state is still the one
    that was read. The clock is that of the store. A slot of a process that was killed is free again when the attempt
    would have reached its timeout.

    Parameters:
        name: the name of the service.
        policy: the limits.
        store: keeps the state.

    """

    def __init__(self, name: str, policy: Policy, store: LimitStore) -> None:
        self._name = name
        self._policy = policy
        self._store = store
        # One waiter of this event loop asks the store, on behalf of all.
        self._queue = anyio.Lock()

    @asynccontextmanager
    async def permission(self) -> AsyncGenerator[Charge]:
        """Wait for the permission for one attempt, and hold its slot.

        Yield a function that charges the budget at the end.

        Raises:
            BudgetSpentError: if the budget is spent.
            StoreError: if the store cannot be used.

        """
        slot, cost = token_hex(8), 0.0
        budget = self._policy.budget

        def charge(request: Any, answer: Any) -> None:
            nonlocal cost
            # A state contains plain numbers only.
            cost += 0.0 if budget is None else float(budget.cost(request, answer))

        seconds: float | None = LEAVE_SECONDS
        is_held = False
        try:
            async with self._queue, self._store.session() as session:
                # If the request is cancelled now, the store may have made the change.
                is_held = True
                try:
                    wait = await self._begin(session, slot)
                except Exception:
                    is_held = False
                    raise
            await anyio.sleep(wait)
            yield charge
            seconds = None
        finally:
            if is_held:
                with anyio.CancelScope(shield=True):
                    await self._leave(slot, cost, seconds)

    async def _begin(self, session: LimitStore, slot: str) -> float:
        """Register an attempt, and return the seconds until it may begin."""
        while True:
            is_registered, seconds = await self._try(session, slot)
            if is_registered:
                return seconds
            await anyio.sleep(seconds)

    async def _try(self, session: LimitStore, slot: str) -> tuple[bool, float]:
        """Return whether an attempt is registered, and seconds to wait.

        They are the time until it may begin, or until the next try.
        """
        text, now = await session.read(self._name)
        state = _State.parse(self._name, text).without_ended(now)
        policy, wait = self._policy, 0.0
        if policy.budget is not None:
            state = state.in_period(policy.budget, now)
            if state.spent >= policy.budget.units:
                raise BudgetSpentError(f"{self._name} has spent {_spent_text(policy.budget, state, now)}")
        if policy.concurrency is not None and len(state.slots) >= policy.concurrency:
            return False, POLL_SECONDS * (1 + random.random())
        if policy.rate is not None:
            wait = state.seconds_to_wait(policy.rate, now)
            if wait > RESERVED_SECONDS:
                return False, wait - RESERVED_SECONDS / 2
            state = replace(state, full_at=max(state.full_at, now) + policy.rate.interval)
        if policy.timeout is not None and policy.concurrency is not None:
            state = replace(state, slots={**state.slots, slot: now + wait + policy.timeout + GRACE_SECONDS})
        if await session.swap(self._name, text, state.text()):
            return True, wait
        return False, COLLISION_SECONDS * random.random()

    async def _leave(self, slot: str, cost: float, seconds: float | None) -> None:
        """End an attempt, and charge its cost, within so many seconds."""
        if self._policy.concurrency is None and not cost:
            return
        try:
            with anyio.fail_after(seconds):
                async with self._store.session() as session:
                    while not await self._try_leave(session, slot, cost):  # noqa: ASYNC110  another process changes it
                        await anyio.sleep(COLLISION_SECONDS * random.random())
        except TimeoutError:
            pass  # a cancelled request had no answer, and its slot ends by itself
        except StoreError as error:
            # The answer is good. The slot ends by itself.
            warnings.warn(f"the end of a request to {self._name} is not counted: {error}", StoreWarning, stacklevel=2)

    async def _try_leave(self, session: LimitStore, slot: str, cost: float) -> bool:
        text, _ = await session.read(self._name)
        state = _State.parse(self._name, text)
        slots = {other: end for other, end in state.slots.items() if other != slot}
        if not cost and slots == state.slots:
            return True
        return await session.swap(self._name, text, replace(state, slots=slots, spent=state.spent + cost).text())


def _spent_text(budget: Budget, state: _State, now: float) -> str:
    """Return the budget that is spent, and when it is renewed."""
    text = f"its budget, {state.spent:,.6g} of {budget.units:,.6g} units"
    if budget.seconds is None:
        return f"{text}; give it a larger one"
    left = state.since + budget.seconds - now
    return f"{text} in {budget.seconds:,.6g} s; it is renewed in {left:,.0f} s"
