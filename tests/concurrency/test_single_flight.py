"""`SingleFlight`: concurrent callers with one key share one computation."""

import traceback
from collections import Counter
from functools import partial
from random import Random
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from apass import PassContext, analysis, function_pass, optimize_all
from apass.concurrency.single_flight import SingleFlight
from apass.errors import BudgetExceededError

pytestmark = pytest.mark.anyio


class Requests:
    """Requests whose computations wait for an event and are counted."""

    def __init__(self) -> None:
        self.flights = SingleFlight[str, str]()
        self.ready = anyio.Event()
        self.started: Counter[str] = Counter()
        self.results: list[str] = []

    async def request(self, key: str, scope: anyio.CancelScope | None = None) -> None:
        """Make a request within `scope`, and record the result or the error message."""

        async def compute() -> str:
            self.started[key] += 1
            await self.ready.wait()
            if key.startswith("bad"):
                raise ValueError(key)
            return key.upper()

        with scope or anyio.CancelScope():
            try:
                self.results.append(await self.flights.get(key, compute))
            except ValueError as error:
                self.results.append(f"error {error}")


async def test_concurrent_callers_share_one_computation() -> None:
    requests = Requests()
    async with anyio.create_task_group() as group:
        for index in range(100):
            group.start_soon(requests.request, f"k{index % 4}")
        await anyio.wait_all_tasks_blocked()
        assert len(requests.flights) == 4
        requests.ready.set()
    assert requests.started == {"k0": 1, "k1": 1, "k2": 1, "k3": 1}
    assert Counter(requests.results) == {"K0": 25, "K1": 25, "K2": 25, "K3": 25}
    assert len(requests.flights) == 0


async def test_error_reaches_every_caller_and_is_not_cached() -> None:
    requests = Requests()
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(requests.request, "bad")
        await anyio.wait_all_tasks_blocked()
        requests.ready.set()
    await requests.request("bad")
    assert (requests.results, requests.started["bad"]) == (["error bad"] * 4, 2)


@pytest.mark.parametrize("cancelled", [[0], [0, 1], [1], [2], [0, 2]])
async def test_cancelled_caller_does_not_fail_the_others(cancelled: list[int]) -> None:
    requests = Requests()
    scopes = [anyio.CancelScope() for _ in range(4)]
    async with anyio.create_task_group() as group:
        for scope in scopes:
            group.start_soon(requests.request, "k", scope)
            await anyio.wait_all_tasks_blocked()
        for index in cancelled:
            scopes[index].cancel()
            await anyio.wait_all_tasks_blocked()
        requests.ready.set()
    assert requests.results == ["K"] * (4 - len(cancelled))
    # Another caller computes again only if the computing caller was cancelled.
    assert requests.started["k"] in range(1 + (0 in cancelled), 2 + (0 in cancelled) * len(cancelled))


async def test_exceeded_deadline_does_not_fail_other_callers() -> None:
    flights = SingleFlight[str, int]()
    results: list[int] = []
    ready = anyio.Event()

    async def exceed() -> int:
        await ready.wait()
        raise BudgetExceededError("no time left")

    async def request_late() -> None:
        with pytest.raises(BudgetExceededError):
            await flights.get("k", exceed)

    async def compute() -> int:
        await checkpoint()
        return 5

    async def request_in_time() -> None:
        results.append(await flights.get("k", compute))

    async with anyio.create_task_group() as group:
        group.start_soon(request_late)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(request_in_time)
        group.start_soon(request_in_time)
        await anyio.wait_all_tasks_blocked()
        ready.set()
    assert results == [5, 5]


@pytest.mark.parametrize("seed", range(5))
async def test_random_cancellation_loses_no_caller(seed: int) -> None:
    random = Random(seed)
    flights = SingleFlight[int, int]()
    ended: Counter[str] = Counter()
    running: Counter[int] = Counter()

    async def compute(key: int) -> int:
        running[key] += 1
        try:
            assert running[key] == 1
            for _ in range(random.randrange(4)):
                await checkpoint()
            return key * 2
        finally:
            running[key] -= 1

    async def request(key: int, scope: anyio.CancelScope) -> None:
        with scope:
            assert await flights.get(key, lambda: compute(key)) == key * 2
            ended["served"] += 1
            return
        ended["cancelled"] += 1

    scopes = [anyio.CancelScope() for _ in range(200)]
    async with anyio.create_task_group() as group:
        for index, scope in enumerate(scopes):
            group.start_soon(request, index % 7, scope)
            if random.random() < 0.3:
                random.choice(scopes[: index + 1]).cancel()
            if random.random() < 0.3:
                await checkpoint()
    assert ended.total() == 200
    assert len(flights) == 0


class OddError(Exception):
    """An error that cannot be built from its own `args`."""

    def __init__(self, part: str, whole: str) -> None:
        super().__init__(f"{part} of {whole}")


class NumberedError(Exception):
    """An error whose text differs from that of every other instance."""

    def __str__(self) -> str:
        """Return a text that is unique to this object."""
        return f"error {id(self)}"


@analysis
async def Broken(_func: str) -> int:
    await anyio.wait_all_tasks_blocked()
    raise LookupError("no answer")


@function_pass(opt_level=0)
async def UseBroken(func: str, _mod: dict[str, str], ctx: PassContext) -> str:
    return func * await ctx.get(Broken, func)


async def errors_of(error: Exception) -> list[Exception]:
    """Return the errors of three concurrent callers if the computation raises `error`."""
    flights, caught = SingleFlight[str, str](), list[Exception]()

    async def fail() -> str:
        await anyio.wait_all_tasks_blocked()
        raise error

    async def request() -> None:
        try:
            await flights.get("key", fail)
        except Exception as copy:
            copy.add_note(f"caller {len(caught)}")
            caught.append(copy)

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(request)
    return caught


async def test_copies_have_cause_notes_and_traceback() -> None:
    error = ValueError("bad", 3)
    error.add_note("of the computation")
    error.__cause__ = OSError("below")
    caught = await errors_of(error)
    expected = (ValueError, ("bad", 3), error.__cause__)
    assert [(type(copy), copy.args, copy.__cause__) for copy in caught] == [expected] * 3
    assert [copy.__notes__ for copy in caught] == [["of the computation", f"caller {index}"] for index in range(3)]
    for copy in caught:
        # The frame that raised the original occurs once, although the copy was raised again.
        assert [frame.name for frame in traceback.extract_tb(copy.__traceback__)].count("fail") == 1


@pytest.mark.parametrize(
    ("kind", "args"),
    [
        (OddError, ("one", "two")),
        (FileNotFoundError, (2, "No such file", "x")),
        (UnicodeDecodeError, ("ascii", b"\xff", 0, 1, "no")),
        (partial(ImportError, name="x"), ("no",)),
        (KeyError, ("k",)),
    ],
    ids=["odd", "file", "unicode", "import", "key"],
)
async def test_errors_with_unusual_constructors_are_copied(kind: Any, args: tuple[Any, ...]) -> None:
    error = kind(*args)
    error.__dict__["hint"] = "look there"
    caught = await errors_of(error)
    copies: list[Any] = [(type(copy), str(copy), copy.__dict__["hint"]) for copy in caught]
    assert copies == [(type(error), str(error), "look there")] * 3
    assert [copy.__notes__ for copy in caught] == [[f"caller {index}"] for index in range(3)]


async def test_error_that_cannot_be_copied_is_shared() -> None:
    error = NumberedError()
    assert [caught is error for caught in await errors_of(error)] == [True] * 3


async def test_analysis_error_has_notes_of_its_caller_only() -> None:
    async with PassContext():
        outcomes = await optimize_all({f"m{n}": {"f": "x"} for n in range(3)}, UseBroken, errors="collect")
    notes = {
        name: [str(note) for note in getattr(outcome.error, "__notes__", ())] for name, outcome in outcomes.items()
    }
    assert notes == {f"m{n}": [f"in pass 'UseBroken', function 'f', module 'm{n}'"] for n in range(3)}


async def test_functions_of_a_module_raise_one_error() -> None:
    with pytest.raises(LookupError, match="no answer"):
        await UseBroken({"f": "x", "g": "x", "h": "x"})


async def test_none_is_a_shared_result() -> None:
    flights, computed = SingleFlight[str, None](), list[int]()

    async def compute() -> None:
        computed.append(1)
        await anyio.wait_all_tasks_blocked()

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(flights.get, "key", compute)
    assert computed == [1]
