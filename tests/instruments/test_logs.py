"""`LoggingInstrument`: the events, their fields, and their rendering by structlog."""

import json
import logging
from io import StringIO

import anyio
import anyio.lowlevel
import pytest
import structlog

import apass
from apass.instruments import LoggingInstrument
from tests.helpers.crowd import Module
from tests.helpers.log_records import listening


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
async def test_each_pass_logs_start_and_end() -> None:
    with listening() as log:
        async with apass.PassContext(instruments=[LoggingInstrument()]):
            await apass.optimize_all({"net": {"main": 1}}, apass.Sequential([Ask]))
    outer = {"pass_name": "sequential", "pass_path": "0:sequential", "module_name": "net"}
    ask = {"pass_name": "Ask", "pass_path": "0:sequential/0:Ask", "module_name": "net"}
    nap = {"pass_name": "Nap", "pass_path": "0:sequential/0:Ask@main/0:Nap", "module_name": "net", "function": "main"}
    assert log.events() == [
        ("apass.pass", "DEBUG", "pass_started", outer),
        ("apass.pass", "DEBUG", "pass_started", ask),
        ("apass.pass", "DEBUG", "pass_started", nap),
        ("apass.pass", "INFO", "pass_finished", nap | {"changed": False}),
        ("apass.pass", "INFO", "pass_finished", ask | {"changed": True}),
        ("apass.pass", "INFO", "pass_finished", outer | {"changed": True}),
    ]
    assert all(vars(item)["seconds"] > 0 for item in log.records if item.getMessage() == "pass_finished")


@pytest.mark.anyio
async def test_only_the_innermost_failure_record_has_the_error() -> None:
    with listening(logging.WARNING) as log:
        async with apass.PassContext(instruments=[LoggingInstrument()]):
            outcomes = await apass.optimize_all({"net": {"main": 13}}, apass.Sequential([Ask]), errors="collect")
    fields = {"module_name": "net", "error": "ValueError: unlucky"}
    ask = {"pass_name": "Ask", "pass_path": "0:sequential/0:Ask"}
    assert log.events() == [
        ("apass.function", "ERROR", "function_failed", fields | ask | {"function": "main"}),
        ("apass.pass", "ERROR", "pass_failed", fields | ask),
        ("apass.pass", "ERROR", "pass_failed", fields | {"pass_name": "sequential", "pass_path": "0:sequential"}),
    ]
    errors = [item.exc_info and item.exc_info[1] for item in log.records]
    assert errors == [outcomes["net"].error, None, None]


@pytest.mark.anyio
async def test_module_pass_error_is_on_its_own_record() -> None:
    @apass.module_pass(opt_level=0)
    def Fail(mod: Module, ctx: apass.PassContext) -> Module:
        raise ValueError("no")

    with listening() as log:
        async with apass.PassContext(instruments=[LoggingInstrument()]):
            await apass.optimize_all([{"f": 1}], apass.Sequential([Fail]), errors="collect")
    assert [
        (vars(item)["pass_name"], item.exc_info is not None) for item in log.records if item.levelname == "ERROR"
    ] == [
        ("Fail", True),
        ("sequential", False),
    ]


@pytest.mark.anyio
async def test_structlog_renders_the_fields_as_keys() -> None:
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
