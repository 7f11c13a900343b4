"""`LoggingInstrument`: the events, their fields, and what structlog makes of them."""

import json
import logging
from collections.abc import Generator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import structlog

import apass
from apass.instruments import LoggingInstrument
from tests.instruments.crowd import Module, crowd, failing, run_crowd

FIELDS = ("pass_name", "pass_path", "module_name", "function", "changed", "error")


class Keep(logging.Handler):
    """Keeps records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.records.append(record)

    def events(self) -> list[tuple[Any, ...]]:
        """Return logger, level, message and fields of each record, without times."""
        shown: list[tuple[Any, ...]] = []
        for one in self.records:
            told = {key: vars(one)[key] for key in FIELDS if vars(one).get(key) is not None}
            shown.append((one.name, one.levelname, one.getMessage(), told))
        return shown


@contextmanager
def listening(level: int = logging.DEBUG, handler: logging.Handler | None = None) -> Generator[Keep]:
    """Listen to the logger `apass`."""
    logger, keep = logging.getLogger("apass"), Keep()
    logger.addHandler(handler or keep)
    logger.setLevel(level)
    try:
        yield keep
    finally:
        logger.removeHandler(handler or keep)
        logger.setLevel(logging.NOTSET)


@apass.module_pass(opt_level=0)
async def Nap(mod: Module, ctx: apass.PassContext) -> Module:
    await anyio.lowlevel.checkpoint()
    return mod


@apass.function_pass(opt_level=0)
async def Ask(func: int, mod: Module, ctx: apass.PassContext) -> int:
    await Nap(mod)
    if func == 13:
        raise ValueError("unlucky")
    return func + 1


@pytest.mark.anyio
async def test_each_pass_is_an_event_at_its_start_and_its_end() -> None:
    with listening() as keep:
        async with apass.PassContext(instruments=[LoggingInstrument()]):
            await apass.optimize_all({"net": {"main": 1}}, apass.Sequential([Ask]))
    outer = {"pass_name": "sequential", "pass_path": "0:sequential", "module_name": "net"}
    ask = {"pass_name": "Ask", "pass_path": "0:sequential/0:Ask", "module_name": "net"}
    nap = {"pass_name": "Nap", "pass_path": "0:sequential/0:Ask@main/0:Nap", "module_name": "net", "function": "main"}
    assert keep.events() == [
        ("apass.pass", "DEBUG", "pass_started", outer),
        ("apass.pass", "DEBUG", "pass_started", ask),
        ("apass.pass", "DEBUG", "pass_started", nap),
        ("apass.pass", "INFO", "pass_finished", nap | {"changed": False}),
        ("apass.pass", "INFO", "pass_finished", ask | {"changed": True}),
        ("apass.pass", "INFO", "pass_finished", outer | {"changed": True}),
    ]
    assert all(vars(one)["seconds"] > 0 for one in keep.records if one.getMessage() == "pass_finished")


@pytest.mark.anyio
async def test_a_failure_is_logged_where_it_is_from_with_the_error_and_above_without() -> None:
    with listening(logging.WARNING) as keep:
        async with apass.PassContext(instruments=[LoggingInstrument()]):
            outcomes = await apass.optimize_all({"net": {"main": 13}}, apass.Sequential([Ask]), errors="collect")
    told = {"module_name": "net", "error": "ValueError: unlucky"}
    ask = {"pass_name": "Ask", "pass_path": "0:sequential/0:Ask"}
    assert keep.events() == [
        ("apass.function", "ERROR", "function_failed", told | ask | {"function": "main"}),
        ("apass.pass", "ERROR", "pass_failed", told | ask),
        ("apass.pass", "ERROR", "pass_failed", told | {"pass_name": "sequential", "pass_path": "0:sequential"}),
    ]
    errors = [one.exc_info and one.exc_info[1] for one in keep.records]
    assert errors == [outcomes["net"].error, None, None]


@pytest.mark.anyio
async def test_an_error_of_a_module_pass_is_on_its_own_record() -> None:
    @apass.module_pass(opt_level=0)
    def Fail(mod: Module, ctx: apass.PassContext) -> Module:
        raise ValueError("no")

    with listening() as keep:
        async with apass.PassContext(instruments=[LoggingInstrument()]):
            await apass.optimize_all([{"f": 1}], apass.Sequential([Fail]), errors="collect")
    assert [(vars(one)["pass_name"], one.exc_info is not None) for one in keep.records if one.levelname == "ERROR"] == [
        ("Fail", True),
        ("sequential", False),
    ]


@pytest.mark.anyio
async def test_what_is_cancelled_is_a_warning() -> None:
    begun = anyio.Event()

    @apass.function_pass(opt_level=0)
    async def Forever(func: int, mod: Module, ctx: apass.PassContext) -> int:
        begun.set()
        await anyio.sleep_forever()
        return func

    mod: Module = {"f": 1}
    with listening(logging.WARNING) as keep:
        async with (
            apass.PassContext(instruments=[LoggingInstrument()]),
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(Forever, mod)
            await begun.wait()
            tasks.cancel_scope.cancel()
    assert [(one.levelname, one.getMessage(), one.exc_info) for one in keep.records] == [
        ("WARNING", "function_failed", None),
        ("WARNING", "pass_failed", None),
    ]


@pytest.mark.anyio
async def test_structlog_has_the_fields_as_keys() -> None:
    file = StringIO()
    handler = logging.StreamHandler(file)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(sort_keys=True),
            ],
        )
    )
    with listening(logging.INFO, handler):
        async with apass.PassContext(instruments=[LoggingInstrument()]):
            await apass.optimize_all({"net": {"main": 1}}, Nap)
    (line,) = file.getvalue().splitlines()
    shown = json.loads(line)
    assert shown.pop("seconds") > 0
    assert shown == {
        "event": "pass_finished",
        "level": "info",
        "pass_name": "Nap",
        "pass_path": "0:Nap",
        "module_name": "net",
        "function": None,
        "changed": False,
    }


@pytest.mark.anyio
async def test_two_hundred_modules_at_once_log_as_one_after_the_other() -> None:
    logs: list[list[str]] = []
    failed: list[set[str]] = []
    for limit in (None, 1):
        with listening() as keep:
            failed.append(failing(await run_crowd([LoggingInstrument()], limit=limit)))
        fine = [one for one in keep.events() if one[3]["module_name"] not in failed[-1]]
        logs.append(sorted(map(str, fine)))
        outermost = [one for one in keep.records if vars(one)["pass_path"] == "0:sequential"]
        ends = [vars(one)["module_name"] for one in outermost if one.getMessage() == "pass_failed"]
        assert sorted(ends) == sorted(failed[-1])
        assert len(outermost) == 2 * len(crowd())
    assert (logs[0], failed[0]) == (logs[1], failed[1])
