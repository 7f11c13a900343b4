"""`Service`: anything that answers questions, asked within the limits of a `Policy` and of the budget."""

import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import anyio
from anyio.lowlevel import current_token

from apass.core.context import PassContext, current_scope
from apass.core.deadline import Budget
from apass.core.run import functions_to_come
from apass.errors import BudgetExceededError, CircuitOpenError, HelperError, MissingExtraError, ServiceTimeoutError
from apass.external.circuit_breaker import Circuit
from apass.external.fair_share import Share, rounds
from apass.external.hedging import first_answer
from apass.external.policy import Policy, RetryOn
from apass.external.rate_limiter import RateLimiter
from apass.waits import waiting_for

try:
    import stamina

    from apass.external.retry_logging import quiet_retries
except ImportError as error:
    raise MissingExtraError(f"external helpers need stamina ({error}): pip install apass[external]") from error

__all__ = ["Counts", "Service"]

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a service has done on this event loop so far."""

    asked: int = 0
    """Questions."""
    answered: int = 0
    """Questions that got an answer."""
    attempts: int = 0
    """Requests that were begun, hedges among them."""
    hedges: int = 0
    """Requests that were begun because another one took long."""
    in_flight: int = 0
    """Requests at work."""
    waiting: int = 0
    """Questions that wait for a place."""


class Service(Generic[QuestionT, AnswerT]):
    """An async function from a question to its answer, asked as its policy says; `await service.ask(question)`.

    A question waits for a place among `concurrency` and for the `rate`, has `timeout` seconds for each of its
    `attempts`, and may be hedged. In a `PassContext(deadline=...)` it gets no more than its fair share of what is left,
    waits between attempts included: what is left when it begins, divided by the rounds still to come. So many rounds it
    takes to ask, `concurrency` at a time, this question, those that wait for a place, and one for each function of the
    pass at work whose body has not begun. What is cancelled leaves nothing behind.

    Parameters:
        ask: the async function.
        policy: how to ask (no limit but 30 seconds).
        name: what errors call it; by default the function's name.

    >>> async def main():
    ...     async def double(question):
    ...         return 2 * question
    ...     service = Service(double, Policy(concurrency=4), name="doubler")
    ...     return await service.ask(21), service.counts.answered
    >>> anyio.run(main)
    (42, 1)

    """

    def __init__(
        self,
        ask: Callable[[QuestionT], Awaitable[AnswerT]],
        policy: Policy | None = None,
        *,
        name: str | None = None,
    ) -> None:
        self.policy = Policy() if policy is None else policy
        """How to ask."""
        self.name = name or str(getattr(ask, "__name__", type(ask).__name__))
        """What errors call it."""
        self._ask = ask
        self._desks: WeakKeyDictionary[Any, _Desk] = WeakKeyDictionary()

    @property
    def counts(self) -> Counts:
        """What the service has done on this event loop so far."""
        return self._desk().counts

    async def ask(self, question: QuestionT, *, to_come: int | None = None) -> AnswerT:
        """Return the answer.

        Parameters:
            question: what to ask.
            to_come: how many questions come after this one, for its fair share of the budget; by default those that
                wait, and the functions of the pass at work whose bodies have not begun.

        Raises:
            ServiceTimeoutError: if the last attempt took too long.
            CircuitOpenError: if the helper failed so often that it is not asked.
            BudgetExceededError: if the question's share of the budget is used up.
            Exception: what the last attempt raised.

        """
        desk, budget = self._desk(), current_scope().budget
        desk.count(asked=1)
        with waiting_for(self.name):
            if budget is None:
                answer = await self._retried(desk, question, None, to_come)
            else:
                answer = await self._ask_within(budget, desk, question, to_come)
        desk.count(answered=1)
        return answer

    def seconds_to_retry(self, error: BaseException) -> bool | float:
        """Tell whether an error may pass by itself, so that the question is asked again; a number is when."""
        if not isinstance(error, Exception) or isinstance(error, BudgetExceededError | CircuitOpenError):
            return False
        on = self.policy.retry_on or self.passing_errors()
        return isinstance(error, on) if isinstance(on, type | tuple) else on(error)

    def passing_errors(self) -> RetryOn:
        """Return the errors that pass by themselves, where the policy does not say; a helper may know better."""
        return (OSError, HelperError)

    async def _ask_within(self, budget: Budget, desk: "_Desk", question: QuestionT, to_come: int | None) -> AnswerT:
        scope = anyio.CancelScope(deadline=anyio.current_time() + budget.left())
        share = Share(budget, scope)
        if budget.left():
            with scope:
                return await self._retried(desk, question, share, to_come)
        raise share.exceeded(self.name)

    async def _retried(self, desk: "_Desk", question: QuestionT, share: Share | None, to_come: int | None) -> AnswerT:
        if self.policy.attempts == 1:
            return await self._attempt(desk, question, share, to_come)
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
                return await self._attempt(desk, question, share, to_come)
        raise AssertionError("the last attempt returns or raises")

    def _may_retry(self, error: BaseException) -> bool | float:
        seconds = self.seconds_to_retry(error)
        return seconds if isinstance(seconds, bool) or seconds <= self.policy.backoff.maximum else False

    async def _attempt(self, desk: "_Desk", question: QuestionT, share: Share | None, to_come: int | None) -> AnswerT:
        desk.circuit.check()
        async with desk.place():
            if desk.rate is not None:
                await desk.rate.take()
            ticket = desk.circuit.enter()
            if share is not None:
                share.begin(desk.rounds_to_come(to_come))
            try:
                answer = await self._in_time(desk, question)
            except Exception as error:
                if self.seconds_to_retry(error) is False:
                    desk.circuit.answered()
                else:
                    desk.circuit.failed(error)
                raise
            except BaseException:
                desk.circuit.abandon(ticket)
                raise
            desk.circuit.answered()
            return answer

    async def _in_time(self, desk: "_Desk", question: QuestionT) -> AnswerT:
        limit, hedge_after = self.policy.timeout, self.policy.hedge_after
        with anyio.move_on_after(limit):
            if hedge_after is None:
                return await self._request(desk, question)
            return await first_answer(
                lambda: self._request(desk, question), lambda: self._hedge(desk, question), hedge_after
            )
        raise ServiceTimeoutError(f"{self.name} gave no answer within {limit:g} s")

    async def _request(self, desk: "_Desk", question: QuestionT) -> AnswerT:
        desk.count(attempts=1, in_flight=1)
        try:
            return await self._ask(question)
        finally:
            desk.count(in_flight=-1)

    def _hedge(self, desk: "_Desk", question: QuestionT) -> Awaitable[AnswerT] | None:
        """Return a second request, with a place of its own; None if it would have to wait for that."""
        place = desk.place_nowait()
        if place is None:
            return None
        desk.count(hedges=1)
        return self._request_at(desk, place, question)

    async def _request_at(self, desk: "_Desk", place: object, question: QuestionT) -> AnswerT:
        try:
            return await self._request(desk, question)
        finally:
            desk.limiter.release_on_behalf_of(place)

    def _desk(self) -> "_Desk":
        token = current_token().native_token
        if token not in self._desks:
            self._desks[token] = _Desk(self.name, self.policy)
        return self._desks[token]


class _Desk:
    """What a service has of one event loop: its places, its rate, its circuit and its counts."""

    def __init__(self, name: str, policy: Policy) -> None:
        self.limiter = anyio.CapacityLimiter(policy.concurrency or math.inf)
        self.rate = None if policy.rate is None else RateLimiter(policy.rate)
        self.circuit = Circuit(name, policy.breaker)
        self.counts = Counts()

    def count(self, **changes: int) -> None:
        """Add to some of the counts."""
        self.counts = replace(self.counts, **{name: getattr(self.counts, name) + by for name, by in changes.items()})

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None]:
        """Hold a place for one request."""
        # Not on behalf of the task: one task may ask again while it asks.
        borrower = object()
        self.count(waiting=1)
        try:
            await self.limiter.acquire_on_behalf_of(borrower)
        finally:
            self.count(waiting=-1)
        try:
            yield
        finally:
            self.limiter.release_on_behalf_of(borrower)

    def place_nowait(self) -> object | None:
        """Take a place, and one question of the rate, if both are free now; return what to release the place by."""
        if self.limiter.available_tokens < 1 or (self.rate is not None and not self.rate.take_nowait()):
            return None
        borrower = object()
        self.limiter.acquire_on_behalf_of_nowait(borrower)
        return borrower

    def rounds_to_come(self, to_come: int | None) -> int:
        """Return in how many rounds all are asked that are still to be."""
        waiting = self.counts.waiting + functions_to_come() if to_come is None else to_come
        at_once = self.limiter.total_tokens
        if at_once == math.inf:
            at_once = (PassContext.current().max_concurrency or at_once) + 1
        return rounds(waiting, at_once)
