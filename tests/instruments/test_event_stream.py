"""`events()`: the stream of events of a run, and `EventInstrument`."""

import json
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, Sequential
from apass.instruments import Event, EventInstrument, EventKind, EventStream, events

pytestmark = pytest.mark.anyio

Module = dict[str, int]


@apass.function_pass(opt_level=0)
async def Halve(func: int, mod: Module, ctx: PassContext) -> int:
    ctx.remark(apass.Remark.passed("Halved", "half as much"))
    with apass.waiting_for("the answer"):
        await checkpoint()
    return func // 2


@apass.module_pass(opt_level=0)
def Keep(mod: Module, ctx: PassContext) -> Module:
    return mod


@apass.module_pass(opt_level=0)
def Fail(mod: Module, ctx: PassContext) -> Module:
    raise ValueError("no")


def short(event: Event) -> str:
    """Return an event as one line without times."""
    function = "" if event.function is None else f"@{event.function}"
    details = event.remark or (f"{event.what} {event.is_over}" if event.what else "") or event.error or ""
    text = details.message if isinstance(details, apass.Remark) else repr(details) if event.error else str(details)
    return f"{event.kind} {event.path}{function} {event.is_body:d}{event.changed:d} {text}".rstrip()


async def collected(pipeline: apass.Pass[Module], mod: Module, stream: EventStream, name: str = "m") -> list[Event]:
    """Return the events of a run, read while it runs."""
    found: list[Event] = []

    async def read() -> None:
        found.extend([event async for event in stream])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        with suppress(ValueError):
            await pipeline.run(mod, name=name, ctx=PassContext(instruments=[stream]))
    return found


async def test_stream_has_every_event_in_order() -> None:
    found = await collected(Sequential([Halve, Keep]), {"f": 8}, events())
    assert [short(event) for event in found] == [
        "started 0:sequential 00",
        "started 0:sequential/0:Halve 00",
        "started 0:sequential/0:Halve@f 10",
        "remark 0:sequential/0:Halve@f 10 half as much",
        "waiting 0:sequential/0:Halve@f 10 the answer False",
        "waiting 0:sequential/0:Halve@f 10 the answer True",
        "changed 0:sequential/0:Halve@f 11",
        "finished 0:sequential/0:Halve@f 11",
        "changed 0:sequential/0:Halve 01",
        "finished 0:sequential/0:Halve 01",
        "started 0:sequential/1:Keep 00",
        "finished 0:sequential/1:Keep 00",
        "changed 0:sequential 01",
        "finished 0:sequential 01",
    ]
    assert {event.module for event in found} == {"m"}
    assert [event.time for event in found] == sorted(event.time for event in found)


async def test_failure_has_one_origin() -> None:
    found = await collected(Sequential([Fail]), {"f": 8}, events(kinds=["failed"]))
    assert [(short(event), event.is_origin) for event in found] == [
        ("failed 0:sequential/0:Fail 00 ValueError('no')", True),
        ("failed 0:sequential 00 ValueError('no')", False),
    ]


async def test_kinds_select_events() -> None:
    stream = events(kinds=["changed"], functions=False)
    wanted: list[bool] = []

    @apass.module_pass(opt_level=0)
    def Look(mod: Module, ctx: PassContext) -> Module:
        wanted.append(ctx.wants_remarks)
        return {"f": 1}

    found = await collected(Sequential([Halve, Look]), {"f": 8}, stream)
    assert [short(event) for event in found] == [
        "changed 0:sequential/0:Halve 01",
        "changed 0:sequential/1:Look 01",
        "changed 0:sequential 01",
    ]
    assert wanted == [False]


async def test_kinds_may_be_an_iterator() -> None:
    kinds: list[EventKind] = ["finished"]
    found = await collected(Keep, {"f": 8}, events(kinds=iter(kinds)))
    assert [event.kind for event in found] == ["finished"]


async def test_slow_reader_loses_the_oldest_events() -> None:
    stream = events(limit=3, kinds=["finished"], functions=False)
    async with PassContext(instruments=[stream]):
        for _ in range(5):
            await Keep({})
    assert [event.path async for event in stream] == ["2:Keep", "3:Keep", "4:Keep"]
    assert stream.dropped == 2


async def test_stream_ends_with_the_last_context() -> None:
    stream = events(kinds=["finished"])
    async with PassContext(instruments=[stream]):
        async with PassContext(instruments=[stream]):
            await Keep({})
        assert [await anext(stream)]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anext, stream)
            await anyio.wait_all_tasks_blocked()
            await Keep({})
    assert [event async for event in stream] == []


async def test_stream_ends_after_override_in_repeated_context() -> None:
    stream, ctx = events(kinds=["finished"]), PassContext()
    async with ctx, ctx:
        await ctx.override_instruments([stream])
        await Keep({})
    with anyio.fail_after(60):
        assert [event.path async for event in stream] == ["0:Keep"]


async def test_stream_may_be_used_again() -> None:
    stream = events(kinds=["finished"])
    for number in range(2):
        async with PassContext(instruments=[stream]):
            await Keep({})
        assert [event.path async for event in stream] == [f"{number}:Keep"]


@pytest.mark.both_loops
async def test_cancelled_reader_loses_no_event() -> None:
    stream = events(kinds=["finished"])
    async with PassContext(instruments=[stream]):
        with anyio.move_on_after(0):
            await anext(stream)
        await Keep({})
    assert [event.path async for event in stream] == ["0:Keep"]


async def test_stream_listed_twice_has_events_once() -> None:
    once, twice = events(), events()
    found = await collected(Halve, {"f": 8}, once)
    await Halve.run({"f": 8}, name="m", ctx=PassContext(instruments=[twice, twice]))
    assert [short(event) async for event in twice] == [short(event) for event in found]


@pytest.mark.process
async def test_events_of_a_worker_are_the_same() -> None:
    pipeline = Sequential([Halve, Keep])
    here, there = events(), events()
    found = await collected(pipeline, {"f": 8}, here, "m")
    async with PassContext(instruments=[there]), apass.executors.ProcessExecutor() as executor:
        await apass.optimize_all({"m": {"f": 8}}, pipeline, executor=executor)
    remote = [event async for event in there]
    assert [short(event) for event in remote] == [short(event) for event in found]
    assert {event.run for event in remote} == {None}


async def read(stream: EventStream, found: list[Event]) -> None:
    """Read a stream to its end."""
    found.extend([event async for event in stream])


async def test_events_of_another_thread_wake_reader() -> None:
    stream, found = events(), list[Event]()
    context = PassContext(instruments=[stream])
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, stream, found)
            await anyio.wait_all_tasks_blocked()
            await anyio.to_thread.run_sync(lambda: apass.run(Keep, {"f": 1}, context=context))
    assert [short(event) for event in found] == ["started 0:Keep 00", "finished 0:Keep 00"]


async def test_run_continues_when_loop_of_reader_has_ended() -> None:
    stream = events(kinds=["finished"])

    async def read_in_vain() -> None:
        with anyio.move_on_after(0):
            await anext(stream)

    async with PassContext(instruments=[stream]):
        await anyio.to_thread.run_sync(anyio.run, read_in_vain)
        await Keep({})
    assert [event.path async for event in stream] == ["0:Keep"]


class Refuse:
    """Raises on entry."""

    def enter_pass_ctx(self) -> None:
        """Raise an error."""
        raise ValueError("no entry")


class Stay:
    """Raises on exit."""

    def exit_pass_ctx(self) -> None:
        """Raise an error."""
        raise ValueError("no exit")


@pytest.mark.parametrize("other", [Refuse(), Stay()])
@pytest.mark.parametrize("is_first", [False, True])
async def test_stream_ends_when_another_instrument_fails(other: object, is_first: bool) -> None:
    stream, found = events(), list[Event]()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, stream, found)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(ValueError, match="no e"):
                async with PassContext(instruments=[stream, other] if is_first else [other, stream]):
                    pass
    assert found == []


@pytest.mark.parametrize(("old", "new"), [([Stay()], []), ([], [Refuse()])])
async def test_stream_ends_when_override_fails(old: list[object], new: list[object]) -> None:
    stream, found = events(), list[Event]()
    with anyio.fail_after(60):
        async with PassContext(instruments=old) as ctx, anyio.create_task_group() as tasks:
            tasks.start_soon(read, stream, found)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(ValueError, match="no e"):
                await ctx.override_instruments([*new, stream])
    assert found == []


async def test_instrument_handles_modules() -> None:
    seen: list[tuple[str, Any]] = []

    class Watch(EventInstrument):
        reads_modules = True

        async def _later(self, event: Event, subject: Any) -> None:
            await checkpoint()
            seen.append((event.kind, subject))

        def handle(self, event: Event, subject: Any) -> Awaitable[None] | None:
            return self._later(event, subject)

    async with PassContext(instruments=[Watch(body_kinds=())]):
        await Sequential([Keep])({"f": 1})
    assert seen == [(kind, {"f": 1}) for kind in ("started", "started", "finished", "finished")]


async def test_events_are_values_of_json() -> None:
    found = await collected(Sequential([Halve, Fail]), {"f": 8}, events())
    values = [json.loads(json.dumps(event.as_json())) for event in found]
    place = {"module": "m", "pass": "Halve", "path": "0:sequential/0:Halve", "function": "f", "body": True}
    assert [{key: value for key, value in item.items() if key not in ("time", "seconds")} for item in values[2:8]] == [
        {"kind": "started", **place},
        {"kind": "remark", **place, "remark": "passed Halved: half as much"},
        {"kind": "waiting", **place, "what": "the answer", "over": False},
        {"kind": "waiting", **place, "what": "the answer", "over": True},
        {"kind": "changed", **place},
        {"kind": "finished", **place, "changed": True},
    ]
    assert values[-1]["error"] == "ValueError: no"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "limit must be an int of at least 1, got 0"),
        ({"kinds": "failed"}, "kinds must be a list of kinds, got 'failed'; write ['failed']"),
        ({"kinds": 5}, "kinds must be a list of kinds, got 5; write ['started']"),
        ({"kinds": ["xfailed"]}, "unknown kind of events 'xfailed'; did you mean 'failed'?"),
        (
            {"kinds": [5]},
            "unknown kind of events 5; kinds are changed, failed, finished, remark, started, waiting",
        ),
    ],
)
def test_invalid_options_are_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"kind|limit") as caught:
        events(**options)
    assert str(caught.value) == message
