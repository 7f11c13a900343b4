"""`ExecOnChange`: the command, its files and output, and the end of its process."""

import io
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import SocketAttribute

import apass
from apass.instruments import ExecOnChange
from tests.helpers.layers import own_imports

pytestmark = [pytest.mark.anyio, pytest.mark.process]

Module = dict[str, int]


class Add(apass.FunctionPass[Module, int], opt_level=0):
    """Add a number to each function."""

    amount: int = 0

    async def transform_function(self, func: int, mod: Module, ctx: apass.PassContext) -> int:
        await anyio.lowlevel.checkpoint()
        return func + self.amount


@apass.module_pass(opt_level=0)
def Copy(mod: Module, ctx: apass.PassContext) -> Module:
    return dict(mod)


SHOW = """
import sys
from pathlib import Path
files, words = [], []
for word in sys.argv[1:]:
    path = Path(word)
    words.append(f"{path.name}={path.read_text()!r}" if path.is_absolute() else word)
print(*words)
"""
"""Prints its arguments, and the contents of those that are files."""


def show(*words: str) -> list[str]:
    """Return the command that prints `words`."""
    return [sys.executable, "-c", SHOW, *words]


def names(folder: Path) -> list[str]:
    """Return the names of the files in a folder."""
    return [path.name for path in folder.iterdir()]


async def printed(pass_: apass.Pass[Module], mod: Module, command: list[str], **options: Any) -> str:
    """Return the output of a run on the module `m`."""
    file = io.StringIO()
    async with apass.PassContext(instruments=[ExecOnChange(command, file=file, **options)]):
        await apass.optimize_all({"m": mod}, pass_)
    return file.getvalue()


async def test_command_gets_both_texts_and_the_pass() -> None:
    text = await printed(apass.Sequential([Add(), Copy, Add(2)]), {"f": 1}, show())
    assert text == (
        "Command after: Add{amount=2} (module 'm')\nbefore.txt='f: 1\\n' after.txt='f: 3\\n' Add\n\n"
    )  # fmt: skip


async def test_placeholders_are_replaced_once_in_words() -> None:
    command = show("{module}:{pass}", "{after_model}", "{before_model}", "{other}")
    text = await printed(Add(1), {"{before}": 1}, command)
    assert text.splitlines()[1] == (
        """m:Add after_model.json='{"{before}": 2}' before_model.json='{"{before}": 1}' {other}"""
    )


class Listing(Module):
    """A module in files of lines."""


def write_lines(mod: Listing, path: Path) -> None:
    path.write_text("".join(f"{name} = {value}\n" for name, value in mod.items()))


class ListingAdapter(apass.plugins.BaseAdapter[Listing, int]):
    def functions(self, mod: Listing) -> Iterator[tuple[str, int]]:
        yield from mod.items()

    def replace(self, mod: Listing, updates: Mapping[str, int]) -> Listing:
        return Listing({**mod, **updates})


PLUGIN = apass.IRPlugin(adapter=ListingAdapter(), module_type=Listing, suffixes=(".lines", ".list"), save=write_lines)


async def test_models_are_files_of_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tests list the suffixes of all plug-ins.
    monkeypatch.setattr("apass.core.ir_plugin._REGISTERED", {})
    apass.register_plugin(PLUGIN)
    text = await printed(Add(1), Listing(f=1), show("{before_model}", "{after_model}"))
    assert text.splitlines()[1] == r"before_model.lines='f = 1\n' after_model.lines='f = 2\n'"


async def test_selection_limits_passes_modules_and_functions() -> None:
    mod = {"f": 1, "g": 2}
    assert await printed(Add(1), mod, show(), names=["Other"]) == ""
    assert await printed(Add(1), mod, show(), modules=["n"]) == ""
    assert await printed(Add(1), mod, show(), functions=["h"]) == ""
    text = await printed(Add(1), mod, show("{after}"), names=["A*"], modules=["m"], functions=["g"])
    assert text.splitlines()[1] == "after.txt='g:\\n3\\n'"


async def test_exit_status_and_error_output_are_printed() -> None:
    code = "import sys; print('out', flush=True); sys.exit('err\\x1b')"
    text = await printed(Add(1), {"f": 1}, [sys.executable, "-c", code])
    assert text == "Command after: Add{amount=1} (module 'm'), exit status 1\nout\nerr\x1b\n\n"
    assert await printed(Add(1), {"f": 1}, [sys.executable, "-c", ""]) == ""


async def test_missing_program_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"^the command 'no-such' is no program on PATH, and no executable"):
        ExecOnChange(["no-such", "-u"])
    with pytest.raises(TypeError, match=r"^command must be a list of a program and its arguments, got 'diff -u'$"):
        ExecOnChange("diff -u")


async def test_files_are_removed_after_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert str(tmp_path) in await printed(Add(1), {"f": 1}, [sys.executable, "-c", "import sys; print(sys.argv)"])
    assert names(tmp_path) == []


@pytest.mark.network
@pytest.mark.both_loops
async def test_cancelled_run_kills_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    listener: Any = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)
    code = f"import socket; socket.create_connection(('127.0.0.1', {port})).recv(1)"
    async with listener, anyio.create_task_group() as group:
        group.start_soon(partial(printed, Add(1), {"f": 1}, [sys.executable, "-c", code]))
        async with await listener.listeners[0].accept() as connection:
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True), pytest.raises(anyio.EndOfStream):
                await connection.receive()
    assert names(tmp_path) == []


def test_commands_need_no_extra() -> None:
    assert not [name for name in own_imports("instruments.exec_on_change") if name.startswith("external")]
