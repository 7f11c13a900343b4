"""Names with control characters never reach the terminal or the logs as such."""

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import apass
from apass.instruments import DumpTree, PrintChanged, PrintIRAfter
from apass.instruments.live_view import LiveViewInstrument
from tests.helpers.command_line import apass as command
from tests.helpers.command_line import program
from tests.helpers.folders import files

HOSTILE = "m\x1b[31m\r\x9b2J\u202e[bold]x[/]\nfailed"
SHOWN = r"m\x1b[31m\r\x9b2J\u202e[bold]x[/]\nfailed"
UNSAFE = set("\x1b\r\x9b\u202e\x07")


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def failing() -> Iterator[None]:
    """Register a pass whose error has control characters."""

    @apass.register_pass("hostile.Fail")
    @apass.module_pass(opt_level=0, name=f"Fail {HOSTILE}")
    def fail(mod: Any, ctx: apass.PassContext) -> Any:
        ctx.diag_ctx.warning(HOSTILE)
        raise ValueError(f"no {HOSTILE}")

    yield
    apass.unregister_pass("hostile.Fail")


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize("options", [[], ["--log-level", "debug"], ["--timing"], ["--statistics"], ["--progress"]])
def test_output_of_opt_has_no_control_characters(options: list[str], tmp_path: Path) -> None:
    model = program(tmp_path / f"{HOSTILE.replace('/', '')}.relay")
    result = command("opt", model, "-p", "hostile.Fail", "-o", tmp_path / "out", *options)
    assert result.exit_code == 1
    assert not UNSAFE & set(result.output)
    assert SHOWN.replace("/", "") in result.stdout


@pytest.mark.usefixtures("failing")
def test_log_has_one_line_for_each_record(tmp_path: Path) -> None:
    model = program(tmp_path / f"{HOSTILE.replace('/', '')}.relay")
    result = command("opt", model, "-p", "hostile.Fail", "-o", tmp_path / "out", "--log-level", "debug")
    lines = [line for line in result.stderr.splitlines() if not line.startswith(("    ", "failed "))]
    heads = [line.split()[2] for line in lines]
    assert heads == ["DEBUG", "DEBUG", "ERROR", "ERROR"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["opt", HOSTILE],
        ["opt", "x.relay", "-p", f'A{{a="{HOSTILE}'],
        ["passes", HOSTILE],
        ["plan", "-p", HOSTILE],
        ["plan", "-p", "Sequential", "--disable", HOSTILE],
        ["plan", "-p", f"Sequential{{name={HOSTILE!a}}}"],
        ["replay", HOSTILE],
        ["reduce", HOSTILE],
        ["cache", "info", "--cache", "."],
    ],
)
def test_errors_have_no_control_characters(arguments: list[str]) -> None:
    result = command(*arguments)
    assert result.exit_code == 2
    assert not UNSAFE & set(result.output)


def test_plan_shows_escaped_names() -> None:
    result = command("plan", "-p", 'Sequential{name="a\\u001b[2J\\nrun  b"}')
    assert (result.exit_code, UNSAFE & set(result.output)) == (0, set())


def test_printed_ir_is_escaped_on_terminals() -> None:
    @apass.module_pass(opt_level=0, name=HOSTILE)
    def change(mod: dict[str, Any], ctx: apass.PassContext) -> dict[str, Any]:
        return {**mod, "g": HOSTILE}

    for make in (PrintChanged, PrintIRAfter):
        terminal, file = Terminal(), StringIO()
        for output in (terminal, file):
            context = apass.PassContext(instruments=[make(file=output)])
            apass.run(change, {"f": HOSTILE}, context=context)
        assert not (UNSAFE - {"\x1b"}) & set(terminal.getvalue())
        assert SHOWN.partition("\\n")[0] in terminal.getvalue()
        assert file.getvalue().splitlines()[0].endswith(SHOWN)


def test_live_view_shows_escaped_names() -> None:
    seen: list[str] = []

    @apass.module_pass(opt_level=0, name=HOSTILE)
    async def Watch(mod: Any, ctx: apass.PassContext) -> Any:
        with apass.waiting_for(HOSTILE):
            seen.extend(view.lines())
        return mod

    view = LiveViewInstrument(console=Console(file=StringIO()))
    apass.run(Watch, {"f": 1}, context=apass.PassContext(instruments=[view]))
    assert not UNSAFE & set("".join(seen))
    assert any(SHOWN in line for line in seen)


def test_dump_of_similar_function_names_differs(tmp_path: Path) -> None:
    @apass.module_pass(opt_level=0, name="Inner")
    def inner(mod: dict[str, Any], ctx: apass.PassContext) -> dict[str, Any]:
        return {**mod}

    @apass.function_pass(opt_level=0)
    async def Outer(func: Any, mod: Any, ctx: apass.PassContext) -> Any:
        await inner(mod)
        return func

    names = ["a/b", "a b", "../a", "a\x1b", "x" * 300]
    context = apass.PassContext(instruments=[DumpTree(tmp_path)])
    apass.run(Outer, dict.fromkeys(names, 1), context=context)
    dumped = [name for name in files(tmp_path) if name.endswith("Inner.txt")]
    assert len(dumped) == len(names)
    assert all(len(part) < 120 and part.isprintable() for name in dumped for part in Path(name).parts)
