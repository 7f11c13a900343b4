"""What all who ask at once are told when the computation fails: the same, and each its own."""

import traceback
from functools import partial
from typing import Any

import anyio
import pytest

from apass import PassContext, analysis, function_pass, optimize_all
from apass.concurrency.single_flight import SingleFlight

pytestmark = pytest.mark.anyio


class OddError(Exception):
    """Cannot be made from its own `args`."""

    def __init__(self, part: str, whole: str) -> None:
        super().__init__(f"{part} of {whole}")


class NumberedError(Exception):
    """No two of them are alike."""

    def __str__(self) -> str:
        """Return what tells it from all others."""
        return f"error {id(self)}"


@analysis
async def Broken(_func: str) -> int:
    await anyio.wait_all_tasks_blocked()
    raise LookupError("no answer")


@function_pass(opt_level=0)
async def Ask(func: str, _mod: dict[str, str], ctx: PassContext) -> str:
    return func * await ctx.get(Broken, func)


async def errors_of(error: Exception) -> list[Exception]:
    """Return what three get who ask at once for what fails with `error`."""
    flights, caught = SingleFlight[str, str](), list[Exception]()

    async def fail() -> str:
        await anyio.wait_all_tasks_blocked()
        raise error

    async def ask() -> None:
        try:
            await flights.get("key", fail)
        except Exception as one:
            one.add_note(f"asker {len(caught)}")
            caught.append(one)

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(ask)
    return caught


async def test_each_has_a_copy_with_cause_notes_and_traceback() -> None:
    error = ValueError("bad", 3)
    error.add_note("of the computation")
    error.__cause__ = OSError("below")
    caught = await errors_of(error)
    assert [(type(one), one.args, one.__cause__) for one in caught] == [(ValueError, ("bad", 3), error.__cause__)] * 3
    assert [one.__notes__ for one in caught] == [["of the computation", f"asker {place}"] for place in range(3)]
    for one in caught:
        # Where it was raised is there once, whoever raised it again.
        assert [frame.name for frame in traceback.extract_tb(one.__traceback__)].count("fail") == 1


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
async def test_so_has_each_that_is_made_in_a_way_of_its_own(kind: Any, args: tuple[Any, ...]) -> None:
    error = kind(*args)
    error.__dict__["hint"] = "look there"
    caught = await errors_of(error)
    told: list[Any] = [(type(one), str(one), one.__dict__["hint"]) for one in caught]
    assert told == [(type(error), str(error), "look there")] * 3
    assert [one.__notes__ for one in caught] == [[f"asker {place}"] for place in range(3)]


async def test_what_cannot_be_copied_is_shared() -> None:
    error = NumberedError()
    assert [one is error for one in await errors_of(error)] == [True] * 3


async def test_an_error_of_an_analysis_says_where_it_was_asked_and_nothing_of_the_others() -> None:
    async with PassContext():
        outcomes = await optimize_all({f"m{n}": {"f": "x"} for n in range(3)}, Ask, errors="collect")
    notes = {name: [str(note) for note in getattr(one.error, "__notes__", ())] for name, one in outcomes.items()}
    assert notes == {f"m{n}": [f"in pass 'Ask', function 'f', module 'm{n}'"] for n in range(3)}


async def test_in_one_module_it_is_one_error_for_all_functions() -> None:
    with pytest.raises(LookupError, match="no answer"):
        await Ask({"f": "x", "g": "x", "h": "x"})
