"""`judge_in_worker`: concurrent comparisons share requests to worker processes."""

import pickle
from collections import deque
from dataclasses import dataclass, field
from math import inf
from typing import Final

from anyio import BrokenWorkerProcess, CancelScope, CapacityLimiter, Event, current_time
from anyio.lowlevel import RunVar

from apass.adapters.onnx.outputs.evaluation import Evaluation
from apass.adapters.onnx.outputs.judging import SECONDS, Finished, Pair, Started, judge_all
from apass.adapters.onnx.outputs.verdict import Status, Verdict
from apass.concurrency.processes.pool import run_in_worker

__all__ = ["judge_in_worker"]

MAX_FOLLOWER_SECONDS: Final = 2.0
"""Seconds for a step of a pair that another caller's request carries.

A pair that needs more time is tried again in a request of its own, so that it does not delay the other callers.
"""

MAX_BYTES: Final = 1 << 24
"""Maximum size of the models of a batch; one pair may exceed it."""


async def judge_in_worker(pair: Pair, time_limit: float, limiter: CapacityLimiter) -> Verdict:
    """Return the verdict of a worker process on two models.

    Callers of one event loop and one limiter share requests: while all tokens of the limiter are in use, their pairs
    are queued. A request then carries several pairs, as many as take about `SECONDS`.

    - A step that exceeds the time limit, or ends the process, fails only its own pair.
    - Pairs of a batch whose process died are tried again, each in a request of its own.
    - A cancellation kills the process only if it works on the pair.

    Parameters:
        pair: the models.
        time_limit: seconds for each step, after which its process is killed.
        limiter: limit of concurrent requests.

    Raises:
        Exception: any error that the comparison raised.

    """
    queues = _queues()
    queue = queues.setdefault(limiter, _Queue(limiter))
    queue.callers += 1
    try:
        return await queue.verdict(_Request(pair, time_limit))
    finally:
        queue.callers -= 1
        if not queue.callers:
            del queues[limiter]


@dataclass(slots=True, eq=False)
class _Request:
    """The pair of one caller."""

    pair: Pair
    time_limit: float
    woken: Event = field(default_factory=Event)
    """Set when there is an outcome, or when the caller is to lead a batch."""
    leads: bool = False
    """Whether the caller leads a batch, or is to lead the next one."""
    is_alone: bool = False
    """Whether the pair is tried in a request of its own."""
    is_abandoned: bool = False
    """Whether the caller was cancelled."""
    batch: "_Batch | None" = None
    """The batch that a worker works on."""
    outcome: Verdict | bytes | None = None
    """The outcome, or its pickle."""

    @property
    def size(self) -> int:
        """Size of the models in bytes."""
        return len(self.pair.before) + len(self.pair.after)


class _Queue:
    """The requests of one event loop that share a limiter."""

    def __init__(self, limiter: CapacityLimiter) -> None:
        self.callers = 0
        self._limiter = limiter
        self._waiting: deque[_Request] = deque()
        self._leaders = 0
        """Callers that run a batch, or wait for the limiter to run one."""
        self._cost = inf
        """Seconds of a comparison, a moving average."""

    async def verdict(self, request: _Request) -> Verdict:
        """Return the verdict on a pair, in a batch of this caller or of another one."""
        if self._leaders < self._limiter.total_tokens:
            self._leaders += 1
            request.leads = True
        else:
            await self._wait(request)
        if request.leads:
            await self._lead(request)
        outcome = pickle.loads(request.outcome) if isinstance(request.outcome, bytes) else request.outcome
        if isinstance(outcome, Exception):
            raise outcome
        assert isinstance(outcome, Verdict)
        return outcome

    async def _wait(self, request: _Request) -> None:
        """Return when the request has an outcome, or is to lead a batch."""
        self._waiting.append(request)
        try:
            await request.woken.wait()
        except BaseException:
            if request.leads:
                self._end_lead()
            elif request.batch is not None:
                request.batch.abandon(request)
            elif request in self._waiting:
                self._waiting.remove(request)
            raise

    async def _lead(self, request: _Request) -> None:
        """Run batches until the request has an outcome."""
        try:
            while request.outcome is None:
                async with self._limiter:
                    await self._run(_Batch([request, *self._followers(request)]))
        finally:
            self._end_lead()

    def _end_lead(self) -> None:
        self._leaders -= 1
        self._start_leaders()

    def _start_leaders(self) -> None:
        while self._waiting and self._leaders < self._limiter.total_tokens:
            self._leaders += 1
            request = self._waiting.popleft()
            request.leads = True
            request.woken.set()

    def _followers(self, request: _Request) -> list[_Request]:
        """Remove the other requests of a batch from the queue.

        Towards the end of the queue, batches become smaller, so that all leaders finish at about the same time.
        """
        count = 0 if request.is_alone else min(int(SECONDS / self._cost), -(-len(self._waiting) // (2 * self._leaders)))
        followers: list[_Request] = []
        size = request.size
        while len(followers) < count and not self._waiting[0].is_alone:
            size += self._waiting[0].size
            if size > MAX_BYTES:
                break
            followers.append(self._waiting.popleft())
        return followers

    async def _run(self, batch: "_Batch") -> None:
        """Run a batch, and return the requests without an outcome to the queue."""
        try:
            await batch.run()
        finally:
            for seconds in batch.costs:
                self._cost = seconds if self._cost == inf else (self._cost + seconds) / 2
            rest: list[_Request] = []
            for request in batch.requests:
                request.batch = None
                if request.outcome is None and not request.leads and not request.is_abandoned:
                    rest.append(request)
            self._waiting.extendleft(reversed(rest))
            self._start_leaders()


class _Batch:
    """Requests whose pairs one worker compares in turns."""

    def __init__(self, requests: list[_Request]) -> None:
        self.requests = requests
        self.costs: list[float] = []
        """Durations of the finished comparisons in seconds."""
        self._scope = CancelScope()
        self._current: tuple[_Request, Started] | None = None
        """The step that the worker works on."""
        for request in requests:
            request.batch = self

    def abandon(self, request: _Request) -> None:
        """Leave out a request of a cancelled caller; if it runs, kill the worker."""
        request.is_abandoned = True
        if self._current is not None and self._current[0] is request:
            self._scope.cancel()

    async def run(self) -> None:
        """Send the pairs to a worker, and note the outcomes."""
        try:
            with self._scope:
                await run_in_worker(judge_all, [item.pair for item in self.requests], on_message=self._on_message)
        except BrokenWorkerProcess as error:
            self._note_death(str(error))
        if self._scope.cancelled_caught and self._current is not None and not self._current[0].is_abandoned:
            request, started = self._current
            if _step_seconds(request) < request.time_limit:
                request.is_alone = True
            else:
                reason = f"the evaluation took longer than {request.time_limit:g} s"
                request.pair.lost[started.step] = Evaluation(None, error=reason, is_limited=True)

    def _note_death(self, reason: str) -> None:
        if len(self.requests) > 1:
            # An earlier pair may have damaged the process.
            for request in self.requests:
                request.is_alone = True
        elif self._current is not None:
            request, started = self._current
            # Linux kills a process if the memory of the machine is exhausted.
            request.pair.lost[started.step] = Evaluation(None, error=reason, is_limited="SIGKILL" in reason)
        else:
            # No worker can start.
            (request,) = self.requests
            reason = f"cannot create inputs: {reason}" if request.pair.inputs is None else reason
            request.outcome = Verdict(Status.NEITHER, reason)

    def _on_message(self, data: bytes) -> None:
        if not data.startswith(pickle.PROTO):
            # The messages of each call: the worker is ready, and has received the request.
            return
        message: Started | Finished = pickle.loads(data)
        request = self.requests[message.index]
        if isinstance(message, Finished):
            request.outcome = message.outcome
            request.woken.set()
            self.costs.append(message.seconds)
            self._current = None
            self._scope.deadline = inf
        else:
            # The time to start the worker and to import onnx does not count: a step starts after it.
            self._current = request, message
            self._scope.deadline = current_time() + _step_seconds(request)
            if request.is_abandoned:
                self._scope.cancel()


def _step_seconds(request: _Request) -> float:
    return request.time_limit if request.leads else min(request.time_limit, MAX_FOLLOWER_SECONDS)


_QUEUES: RunVar[dict[CapacityLimiter, _Queue]] = RunVar("apass_onnx_comparisons")


def _queues() -> dict[CapacityLimiter, _Queue]:
    """Return the queues of the running event loop."""
    try:
        return _QUEUES.get()
    except LookupError:
        queues: dict[CapacityLimiter, _Queue] = {}
        _QUEUES.set(queues)
        return queues
