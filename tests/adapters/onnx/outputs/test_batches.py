"""Comparisons that share the requests to worker processes."""

import pickle
from collections.abc import Callable
from math import inf
from typing import Any

import anyio
import numpy as np
import pytest
from anyio import BrokenWorkerProcess, CapacityLimiter

from apass.adapters.onnx import ADAPTER
from apass.adapters.onnx.outputs import Status, Verdict, batches, judging
from apass.adapters.onnx.outputs.batches import judge_in_worker
from apass.adapters.onnx.outputs.evaluation import Evaluation
from apass.adapters.onnx.outputs.judging import Finished, Pair, Started, judge, judge_all
from apass.concurrency.processes.pool import run_in_worker
from tests.helpers.onnx_models import endless, model_of

RELU = ADAPTER.dumps(model_of("g (float[4] a) => (float[4] x) { x = Relu(a) }"))
SAME = ADAPTER.dumps(model_of("h (float[4] a) => (float[4] x) { x = Relu(a) }"))
ABS = ADAPTER.dumps(model_of("g (float[4] a) => (float[4] x) { x = Abs(a) }"))
ENDLESS = ADAPTER.dumps(endless())
ONE = np.array([1, -2, 3, 4], np.float32)
ENDS_PROCESS = b"cos\n_exit\n(I3\ntR."
"""The pickle of a value whose unpickling ends the process."""


def pair(before: bytes = RELU, after: bytes = SAME, inputs: bytes | None = None, **options: Any) -> Pair:
    """Return a pair, by default one that is equal."""
    return Pair(before, after, inputs, None, None, 1e-7, 0, options.pop("engines", ("reference",)), **options)


class Comparisons:
    """Comparisons that are queued in a given order, and run one request at a time.

    The first one runs alone, because its cost is not known. Then each request carries more than one.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests: list[list[Pair]] = []
        self.verdicts: dict[str, Verdict | Exception] = {}
        self.scopes: dict[str, anyio.CancelScope] = {}
        self.on_start: Callable[[Pair], None] = lambda _: None
        self.limiter = CapacityLimiter(1)

        async def run_recorded(func: Any, pairs: list[Pair], on_message: Callable[[bytes], None]) -> Any:
            self.requests.append(pairs)

            def receive(data: bytes) -> None:
                on_message(data)
                message = pickle.loads(data) if data[:1] == b"\x80" else None
                if isinstance(message, Started):
                    self.on_start(pairs[message.index])

            return await run_in_worker(func, pairs, on_message=receive)

        monkeypatch.setattr(batches, "run_in_worker", run_recorded)
        # However slow the machine is.
        monkeypatch.setattr(batches, "SECONDS", 1e6)
        monkeypatch.setattr(batches, "MAX_FOLLOWER_SECONDS", inf)

    async def run(self, pairs: dict[str, Pair], time_limit: float = inf) -> None:
        """Compare the pairs."""
        await self.limiter.acquire_on_behalf_of(self)
        async with anyio.create_task_group() as group:
            for name, item in pairs.items():
                group.start_soon(self._judge, name, item, time_limit)
                await anyio.wait_all_tasks_blocked()
            self.limiter.release_on_behalf_of(self)

    async def _judge(self, name: str, item: Pair, time_limit: float) -> None:
        with anyio.CancelScope() as self.scopes[name]:
            try:
                self.verdicts[name] = await judge_in_worker(item, time_limit, self.limiter)
            except Exception as error:
                self.verdicts[name] = error

    def statuses(self) -> dict[str, Status]:
        """Return the status of each verdict."""
        return {name: verdict.status for name, verdict in self.verdicts.items() if isinstance(verdict, Verdict)}


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> Comparisons:
    """Return comparisons that share requests."""
    return Comparisons(monkeypatch)


@pytest.mark.process
@pytest.mark.anyio
async def test_queued_pairs_share_a_request(comparisons: Comparisons) -> None:
    pairs = {str(index): pair(after=ABS if index % 2 else SAME) for index in range(9)}
    await comparisons.run(pairs)
    expected = {name: Status.DIFFERENT if int(name) % 2 else Status.EQUAL for name in pairs}
    assert comparisons.statuses() == expected
    assert [len(request) for request in comparisons.requests[:2]] == [1, 5]
    assert comparisons.limiter.borrowed_tokens == 0


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.anyio
async def test_pair_that_dies_fails_alone(comparisons: Comparisons) -> None:
    dying = pair(inputs=ENDS_PROCESS)
    await comparisons.run({"first": pair(), "lead": pair(), "dies": dying, "rest": pair(), "end": pair(after=ABS)})
    verdict = comparisons.verdicts.pop("dies")
    assert isinstance(verdict, Verdict)
    assert (verdict.status, verdict.reason) == (Status.NEITHER, "the worker process died (exit status 3)")
    assert comparisons.statuses() == {
        "first": Status.EQUAL,
        "lead": Status.EQUAL,
        "rest": Status.EQUAL,
        "end": Status.DIFFERENT,
    }
    # In a batch, then alone until both evaluations are known to be lost.
    assert [len(request) for request in comparisons.requests if dying in request] == [3, 1, 1, 1]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.anyio
async def test_time_limit_ends_only_its_pair(comparisons: Comparisons) -> None:
    pairs = {"first": pair(), "lead": pair(), "endless": pair(after=ENDLESS), "rest": pair(), "end": pair()}
    await comparisons.run(pairs, time_limit=2.0)
    verdict = comparisons.verdicts.pop("endless")
    assert isinstance(verdict, Verdict)
    assert (verdict.status, verdict.reason) == (Status.LIMITED, "after: the evaluation took longer than 2 s")
    assert set(comparisons.statuses().values()) == {Status.EQUAL}


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.anyio
async def test_slow_follower_gets_its_own_request(comparisons: Comparisons, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MAX_FOLLOWER_SECONDS", 0.5)
    slow = pair(after=ENDLESS)

    def on_start(item: Pair) -> None:
        if item is slow and len(comparisons.requests[-1]) == 1:
            comparisons.scopes["slow"].cancel()

    comparisons.on_start = on_start
    await comparisons.run({"first": pair(), "lead": pair(), "slow": slow, "rest": pair()})
    assert comparisons.statuses() == dict.fromkeys(("first", "lead", "rest"), Status.EQUAL)
    assert comparisons.requests.count([slow]) == 1


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("endless", ["lead", "follower"])
@pytest.mark.both_loops
async def test_cancellation_ends_only_its_pair(comparisons: Comparisons, endless: str) -> None:
    pairs = {name: pair() for name in ("first", "lead", "follower", "rest")}
    pairs[endless] = pair(before=ENDLESS)

    def on_start(item: Pair) -> None:
        if item is pairs[endless] and item.before == ENDLESS:
            comparisons.scopes[endless].cancel()

    comparisons.on_start = on_start
    await comparisons.run(pairs)
    assert comparisons.statuses() == {name: Status.EQUAL for name in pairs if name != endless}
    assert comparisons.limiter.borrowed_tokens == 0


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.anyio
async def test_error_reaches_only_its_caller(comparisons: Comparisons) -> None:
    unknown = pair(engines=("nothing",))
    await comparisons.run({"first": pair(), "lead": pair(), "unknown": unknown, "rest": pair()})
    error = comparisons.verdicts.pop("unknown")
    assert (type(error), error.args if isinstance(error, Exception) else ()) == (KeyError, ("nothing",))
    assert comparisons.statuses() == dict.fromkeys(("first", "lead", "rest"), Status.EQUAL)


@pytest.mark.anyio
@pytest.mark.parametrize(("inputs", "prefix"), [(None, "cannot create inputs: "), (b"", "")])
async def test_verdict_names_worker_that_cannot_start(
    monkeypatch: pytest.MonkeyPatch, inputs: bytes | None, prefix: str
) -> None:
    async def fail(*_args: Any, **_options: Any) -> None:
        raise BrokenWorkerProcess("the worker process died (SIGSEGV)")

    monkeypatch.setattr(batches, "run_in_worker", fail)
    verdict = await judge_in_worker(pair(inputs=inputs), 1.0, CapacityLimiter(1))
    assert verdict == Verdict(Status.NEITHER, f"{prefix}the worker process died (SIGSEGV)")


def test_worker_leaves_pairs_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[bytes] = []
    monkeypatch.setattr(judging, "SECONDS", 0.0)
    judge_all([pair(), pair()], messages.append)
    *started, finished = map(pickle.loads, messages)
    assert [message.index for message in started] == [0, 0]
    assert isinstance(finished, Finished)
    assert pickle.loads(finished.outcome).status is Status.EQUAL


def test_judge_reports_each_step() -> None:
    steps: list[tuple[str, str]] = []
    judge(pair(after=ABS, engines=("reference", "onnxruntime")), steps.append)
    assert steps == [
        ("reference", "before"),
        ("reference", "after"),
        ("reference", "before again"),
        ("onnxruntime", "before"),
        ("onnxruntime", "after"),
        ("onnxruntime", "before optimized by it"),
        ("onnxruntime", "before again"),
    ]
    steps.clear()
    judge(pair(after=RELU, inputs=pickle.dumps([ONE])), steps.append)
    assert steps == [("reference", "before")]


@pytest.mark.parametrize(
    ("step", "status", "reason"),
    [
        (("reference", "before"), Status.ONLY_AFTER, "before: lost"),
        (("reference", "after"), Status.ONLY_BEFORE, "after: lost"),
    ],
)
def test_lost_step_is_not_repeated(step: tuple[str, str], status: Status, reason: str) -> None:
    steps: list[tuple[str, str]] = []
    verdict = judge(pair(lost={step: Evaluation(None, error="lost")}), steps.append)
    assert (verdict.status, verdict.reason) == (status, reason)
    assert step not in steps


def test_outcome_that_cannot_be_pickled_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: Any) -> Verdict:
        raise ValueError(lambda: None)

    monkeypatch.setattr(judging, "judge", fail)
    messages: list[bytes] = []
    judge_all([pair()], messages.append)
    assert isinstance(pickle.loads(pickle.loads(messages[0]).outcome), Exception)
