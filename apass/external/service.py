"""`Service`: asks an async function within the limits of a policy and a deadline."""

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Generic, TypeVar
from weakref import WeakKeyDictionary

import anyio
from anyio.lowlevel import current_token

from apass.concurrency.work_limits import uncounted
from apass.core.context import PassContext, current_scope, waiting_for
from apass.core.deadline import Deadline
from apass.core.questions import Question, answer_to, tagged_codec
from apass.core.run import functions_to_come
from apass.errors import (
    BudgetExceededError,
    BudgetSpentError,
    CircuitOpenError,
    HelperError,
    MissingExtraError,
    ServiceTimeoutError,
    StoreError,
)
from apass.external.circuit_breaker import Circuit
from apass.external.fair_share import Share, rounds
from apass.external.hedging import first_answer
from apass.external.limit_stores import LocalLimits, limit_store
from apass.external.policy import Policy, RetryOn
from apass.external.rate_limiter import RateLimiter
from apass.external.shared_limits import Charge, SharedLimits

try:
    import stamina

    from apass.external.retry_logging import quiet_retries
except ImportError as _error:
    raise MissingExtraError(f"external helpers need stamina ({_error}): pip install 'apass[external]'") from _error

__all__ = ["Service", "ServiceCounts"]

RequestT = TypeVar("RequestT")
AnswerT = TypeVar("AnswerT")

_PERMANENT: Final = (BudgetExceededError, BudgetSpentError, CircuitOpenError, StoreError)
"""Errors of the limits, after which a request is not sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCounts:
    """Counts of a service on this event loop."""

    asked: int = 0
    """Requests, which are calls of `ask`."""
    answered: int = 0
    """Requests that received an answer."""
    attempts: int = 0
    """Attempts, hedges included."""
    hedges: int = 0
    """Attempts started because another one was slow."""
    in_flight: int = 0
    """Running attempts."""
    waiting: int = 0
    """Requests that wait for a concurrency slot."""


class Service(Generic[RequestT, AnswerT]):
    """A client of an async function from a request to its answer, within a policy.

    Call `await service.ask(request)`. A request waits for one of `concurrency` slots and for the `rate`. Each of its
    `attempts` has `timeout` seconds, and may be hedged.

    In a `PassContext(deadline=...)`, a request gets a fair share of the remaining time, waits between attempts
    included. The share is the remaining time at the start of the first attempt, divided by the remaining rounds. With
    `concurrency` requests at a time, this is the number of rounds for these requests:

    - this request
    - the requests that wait for a slot
    - one for each function of the current pass whose body has not started

    A cancelled request releases everything that it holds.

    Parameters:
        ask: the async function.
        policy: the limits. The default has a timeout of 30 seconds and no other limit.
        name: the name in error messages. The default is the function's name.
        types: dataclasses and enums that answers may contain, for recorded answers (see `AnswerRecorder`).
        is_recorded: whether answers are recorded; False for a service that does the work of a pass itself, such as a
            compiler.

    >>> async def main():
    ...     async def double(request):
    ...         return 2 * request
    ...     service = Service(double, Policy(concurrency=4), name="doubler")
    ...     return await service.ask(21), service.counts.answered
    >>> anyio.run(main)
    (42, 1)

    """

    def __init__(
        self,
        ask: Callable[[RequestT], Awaitable[AnswerT]],
        policy: Policy | None = None,
        *,
        name: str | None = None,
        types: Iterable[type] = (),
        is_recorded: bool = True,
    ) -> None:
        self.is_recorded: Final = is_recorded
        """Whether answers are recorded, and given again in a replay."""
        self.codec: Final = tagged_codec(types)
        """Converts answers that are recorded."""
        self.policy: Policy = Policy() if policy is None else policy
        """The limits of the service."""
        self.name: str = name or str(getattr(ask, "__name__", type(ask).__name__))
        """The name in error messages."""
        self._ask = ask
        self._loop_states: WeakKeyDictionary[Any, _LoopState] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        # What belongs to an event loop stays in its process.
        return {name: value for name, value in vars(self).items() if name != "_loop_states"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _loop_states=WeakKeyDictionary())

    @property
    def counts(self) -> ServiceCounts:
        """The counts of the service on this event loop."""
        return self._loop_state().counts

    async def ask(self, request: RequestT, *, to_come: int | None = None) -> AnswerT:
        """Send a request, and return the answer.

        Parameters:
            request: the argument of the async function.
            to_come: how many requests follow this one, for its fair share of the deadline. The default is the waiting
                requests plus the functions of the current pass whose bodies have not started.

        Raises:
            ServiceTimeoutError: if the last attempt exceeded its timeout.
            CircuitOpenError: if the circuit is open after repeated failures.
            BudgetExceededError: if the request used up its share of the deadline.
            BudgetSpentError: if the requests have cost as much as the budget of the policy.
            StoreError: if the shared limits cannot be read.
            Exception: any exception of the last attempt.

        """
        context = current_scope().state
        if self.is_recorded and (context.answers is not None or context.hooks.answers):
            question = Question("service", self.name, request)
            return await answer_to(context, question, partial(self._ask_now, request, to_come), self.codec)
        return await self._ask_now(request, to_come)

    async def _ask_now(self, request: RequestT, to_come: int | None) -> AnswerT:
        state, deadline = self._loop_state(), current_scope().deadline
        state.count(asked=1)
        with waiting_for(self.name):
            if deadline is None:
                response = await self._ask_with_retries(state, request, None, to_come)
            else:
                response = await self._ask_within(deadline, state, request, to_come)
        state.count(answered=1)
        return response

    def seconds_to_retry(self, error: BaseException) -> bool | float:
        """Return whether a request that failed with this error is retried.

        A number is the delay before the next attempt in seconds.
        """
        if not isinstance(error, Exception) or isinstance(
            error, BudgetExceededError | BudgetSpentError | CircuitOpenError | StoreError
        ):
            return False
        on = self.policy.retry_on or self.passing_errors()
        return isinstance(error, on) if isinstance(on, type | tuple) else on(error)

    def passing_errors(self) -> RetryOn:
        """Return the transient errors, for policies without `retry_on`."""
        return (OSError, HelperError)

    async def _ask_within(
        self, deadline: Deadline, state: "_LoopState", request: RequestT, to_come: int | None
    ) -> AnswerT:
        scope = anyio.CancelScope(deadline=anyio.current_time() + deadline.left())
        share = Share(deadline, scope)
        if deadline.left():
            with scope:
                return await self._ask_with_retries(state, request, share, to_come)
        raise share.exceeded(self.name)

    async def _ask_with_retries(
        self, state: "_LoopState", request: RequestT, share: Share | None, to_come: int | None
    ) -> AnswerT:
        if self.policy.attempts == 1:
            return await self._attempt(state, request, share, to_come)
        backoff = self.policy.backoff
        quiet_retries()
        async for attempt in stamina.retry_context(
            self._may_retry,
            attempts=self.policy.attempts,
            timeout=None,
            wait_initial=backoff.initial,
            wait_max=backoff.maximum,
            wait_jitter=backoff.jitter,
        ):
            with attempt:
                return await self._attempt(state, request, share, to_come)
        raise AssertionError("the last attempt returns or raises")

    def _may_retry(self, error: BaseException) -> bool | float:
        seconds = self.seconds_to_retry(error)
        return seconds if isinstance(seconds, bool) or seconds <= self.policy.backoff.maximum else False

    async def _attempt(
        self, state: "_LoopState", request: RequestT, share: Share | None, to_come: int | None
    ) -> AnswerT:
        state.circuit.check()
        async with state.slot() as charge:
            token = state.circuit.enter()
            if share is not None:
                share.begin(state.rounds_to_come(to_come))
            try:
                response = await self._attempt_with_timeout(state, request)
            except Exception as error:
                if self.seconds_to_retry(error) is False:
                    state.circuit.answered()
                else:
                    state.circuit.failed(error)
                raise
            except BaseException:
                state.circuit.abandon(token)
                raise
            state.circuit.answered()
            charge(request, response)
            return response

    async def _attempt_with_timeout(self, state: "_LoopState", request: RequestT) -> AnswerT:
        limit, hedge_after = self.policy.timeout, self.policy.hedge_after
        with anyio.move_on_after(limit):
            if hedge_after is None:
                return await self._call(state, request)
            return await first_answer(
                lambda: self._call(state, request), lambda: self._hedge(state, request), hedge_after
            )
        raise ServiceTimeoutError(f"{self.name} did not answer within {limit:g} s")

    async def _call(self, state: "_LoopState", request: RequestT) -> AnswerT:
        state.count(attempts=1, in_flight=1)
        try:
            return await self._ask(request)
        finally:
            state.count(in_flight=-1)

    def _hedge(self, state: "_LoopState", request: RequestT) -> Awaitable[AnswerT] | None:
        """Return a second attempt with its own slot, or None if no slot is free."""
        slot = state.try_acquire_slot()
        if slot is None:
            return None
        state.count(hedges=1)
        return self._call_and_release(state, slot, request)

    async def _call_and_release(self, state: "_LoopState", slot: object, request: RequestT) -> AnswerT:
        try:
            return await self._call(state, request)
        finally:
            state.limiter.release_on_behalf_of(slot)

    def _loop_state(self) -> "_LoopState":
        token = current_token().native_token
        if token not in self._loop_states:
            self._loop_states[token] = _LoopState(self.name, self.policy)
        return self._loop_states[token]


def _no_charge(_request: Any, _answer: Any) -> None:
    """Charge nothing."""


class _LoopState:
    """State of a service in one event loop: slots, rate, circuit and counts."""

    def __init__(self, name: str, policy: Policy) -> None:
        self.limiter = anyio.CapacityLimiter(policy.concurrency or math.inf)
        self.rate = None if policy.rate is None or policy.shared is not None else RateLimiter(policy.rate)
        self.limits: SharedLimits | None = None
        if policy.shared is not None:
            self.limits = SharedLimits(name, policy, limit_store(str(policy.shared)))
        elif policy.budget is not None:
            self.limits = SharedLimits(name, Policy(budget=policy.budget), LocalLimits())
        self.circuit = Circuit(name, policy.breaker)
        self.counts = ServiceCounts()

    def count(self, **increments: int) -> None:
        """Add to the named counts."""
        self.counts = replace(self.counts, **{name: getattr(self.counts, name) + by for name, by in increments.items()})

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[Charge]:
        """Hold a concurrency slot for one attempt, which the rate permits.

        Yield a function that charges the budget.
        """
        # The borrower is not the task, because one task may hold several slots.
        borrower = object()
        async with AsyncExitStack() as stack:
            # Like the timeout of an attempt, the timeout of a pass does not count the time in a queue.
            with uncounted():
                self.count(waiting=1)
                try:
                    await self.limiter.acquire_on_behalf_of(borrower)
                finally:
                    self.count(waiting=-1)
                stack.callback(self.limiter.release_on_behalf_of, borrower)
                if self.rate is not None:
                    await self.rate.take()
                charge: Charge = _no_charge
                if self.limits is not None:
                    charge = await stack.enter_async_context(self.limits.permission())
            yield charge

    def try_acquire_slot(self) -> object | None:
        """Acquire a slot, and permission from the rate limiter, if both are available now.

        Return the borrower with which to release the slot, or None.
        """
        if self.limiter.available_tokens < 1 or (self.rate is not None and not self.rate.take_nowait()):
            return None
        borrower = object()
        self.limiter.acquire_on_behalf_of_nowait(borrower)
        return borrower

    def rounds_to_come(self, to_come: int | None) -> int:
        """Return the number of rounds for the remaining requests, including this one."""
        waiting = self.counts.waiting + functions_to_come() if to_come is None else to_come
        at_once = self.limiter.total_tokens
        if at_once == math.inf:
            at_once = (PassContext.current().max_concurrency or at_once) + 1
        return rounds(waiting, at_once)
