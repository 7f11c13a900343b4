"""The screen of the debugger, driven by keys."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

import apass
from tests.helpers.command_line import program
from tests.helpers.debuggers import debugging

# Textual runs on asyncio only.
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

FIRST_SCREEN = """\
 m.relay: paused before sequential (interrupt)
 0:sequential
▼ > m.relay                          Module  Diff  Breakpoints  Output
└ ▼ ‖ sequential                    ╸━━━━━━╺━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
  ├ · FoldConstant                   IRModule  1 function
  └ · debugger.Note                    #[version = "0.0.5"]
                                       main  4 lines
                                         def @main(%x: int32) -> int32 {
                                           %0 = add(2 /* ty=int32 */, 3 /* ty=int32 */) /* t
                                           add(%x, %0) /* ty=int32 */
                                         }
────────────────────────────────────────────────────────────────────────────────────────────
 module   task        now
 m.relay  sequential  paused"""

DIFF_SCREEN = """\
 m.relay: paused after FoldConstant (next)
 0:sequential/0:FoldConstant
▼ > m.relay                          Module  Diff  Breakpoints  Output
└ ▼ > sequential                    ━━━━━━━━╸━━━━╺━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
  ├ ▼ ‖ FoldConstant                 main  +1 -2
  │ └ = InferType                      @@ -1,4 +1,3 @@
  └ · debugger.Note                     def @main(%x: int32) -> int32 {
                                       -  %0 = add(2 /* ty=int32 */, 3 /* ty=int32 */) /* ty
                                       -  add(%x, %0) /* ty=int32 */
                                       +  add(%x, 5 /* ty=int32 */) /* ty=int32 */
                                        }
────────────────────────────────────────────────────────────────────────────────────────────
 module   task          now
 m.relay  FoldConstant  paused"""

LAST_SCREEN = """\
 finished
 0 models left; others run
▼ ✓ m.relay                          Module  Diff  Breakpoints  Output
└ ▼ ✓ sequential                    ━━━━━━━━━━━━━━━━━━━━━━━━━━━╸━━━━━━╺━━━━━━━━━━━━━━━━━━━━━
  ├ ▼ ✓ FoldConstant                noted
  │ └ = InferType
  └ = debugger.Note"""

PIPELINE = "FoldConstant,debugger.Note"
DOORS: list[anyio.Event] = []


@apass.register_pass
@apass.module_pass(opt_level=0, name="debugger.Note")
def Note(mod: Any, ctx: apass.PassContext) -> Any:
    print("noted")
    return mod


@apass.register_pass
@apass.module_pass(opt_level=0, name="debugger.Fail")
def Fail(mod: Any, ctx: apass.PassContext) -> Any:
    raise ValueError("no\x1b[2J")


@apass.register_pass
@apass.module_pass(opt_level=0, name="debugger.Hold")
async def Hold(mod: Any, ctx: apass.PassContext) -> Any:
    with apass.waiting_for("a door"):
        await DOORS[-1].wait()
    return mod


@apass.register_pass
@apass.module_pass(opt_level=0, name="debugger.Await")
async def Await(mod: Any, ctx: apass.PassContext) -> Any:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    return await future


@pytest.fixture
def door() -> anyio.Event:
    """Return the event that the pass waits for."""
    DOORS.append(anyio.Event())
    return DOORS[-1]


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the program of the editor; it has the file in `path`."""
    script = tmp_path / "editor.py"
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")
    return script


def edits(script: Path, code: str) -> None:
    """Set what the editor does with the text `text`."""
    script.write_text(
        f"import pathlib, sys\npath = pathlib.Path(sys.argv[1])\ntext = path.read_text()\npath.write_text({code})\n"
    )


@pytest.mark.slow
async def test_screens_of_a_run(model: Path) -> None:
    async with debugging([model], PIPELINE, size=(92, 20)) as debugger:
        assert debugger.text.startswith(FIRST_SCREEN)
        await debugger.press("s", "n", "d")
        assert debugger.text.startswith(DIFF_SCREEN)
        debugger.open_tab("output")
        await debugger.press("c")
        assert debugger.text.startswith(LAST_SCREEN)


@pytest.mark.slow
async def test_keys_resume(model: Path) -> None:
    async with debugging([model], PIPELINE, "pass:debugger.Note") as debugger:
        lines = [debugger.first_line]
        for key in "sssfksc":
            await debugger.press(key)
            lines.append(debugger.first_line)
        assert lines == [
            "m.relay: paused before sequential (interrupt)",
            "m.relay: paused before FoldConstant (step)",
            "m.relay: paused before InferType (step)",
            "m.relay: paused after InferType (step)",
            "m.relay: paused after FoldConstant (finish)",
            "m.relay: paused before debugger.Note (next)",
            "m.relay: paused after debugger.Note (step)",
            "finished",
        ]
        assert debugger.session.done == list(debugger.session.jobs)
        await debugger.press("s")
        assert debugger.message == "no module is paused; all models have ended"


@pytest.mark.slow
async def test_skipped_pass_changes_nothing(model: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    async with debugging([model], PIPELINE, output=output) as debugger:
        await debugger.press("s", "k", "c")
    assert "add(2" in (output / "m.relay").read_text()


@pytest.mark.slow
async def test_edited_module_goes_on(model: Path, tmp_path: Path, editor: Path) -> None:
    edits(editor, "text.replace('3 /*', '40 /*')")
    output = tmp_path / "out"
    async with debugging([model], PIPELINE, output=output) as debugger:
        await debugger.press("s", "e")
        assert debugger.first_line == "m.relay: paused before FoldConstant (replace)"
        assert debugger.message == "the module was replaced"
        assert "+  %0 = add(2 /* ty=int32 */, 40" in debugger.shown("diff")
        await debugger.press("c")
    assert "add(%x, 42)" in (output / "m.relay").read_text().replace(" /* ty=int32 */", "")


@pytest.mark.slow
async def test_broken_text_is_edited_again(model: Path, editor: Path) -> None:
    edits(editor, "text.replace('(%x, ', '(%x ')")
    async with debugging([model], PIPELINE) as debugger:
        await debugger.press("e")
        assert debugger.message.startswith("the text is no module; press e to edit it again: ")
        edits(editor, "text.replace('(%x ', '(%x, ')")
        await debugger.press("e")
        assert debugger.message == "the module is unchanged"
        assert debugger.first_line == "m.relay: paused before sequential (interrupt)"


@pytest.mark.slow
async def test_editor_errors_are_shown(model: Path, editor: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edits(editor, "sys.exit(3)")
    async with debugging([model], PIPELINE) as debugger:
        await debugger.press("e")
        assert debugger.message.endswith("failed with status 3; nothing was changed")
        monkeypatch.setenv("EDITOR", "/missing/editor")
        await debugger.press("e")
        assert debugger.message == ("cannot start the editor '/missing/editor': No such file or directory; set EDITOR")
        monkeypatch.setenv("EDITOR", "vi 'a")
        await debugger.press("e")
        assert debugger.message == 'cannot parse $EDITOR "vi \'a": No closing quotation; quote it as for a shell'


@pytest.mark.slow
async def test_rerun_takes_options(model: Path) -> None:
    async with debugging([model], "Repeat{times=1}(FoldConstant)", "pass:Repeat") as debugger:
        await debugger.press("c", "r")
        await debugger.answer("times=x")
        assert "expected int | None" in debugger.message
        await debugger.press("r")
        await debugger.answer("times=2")
        assert debugger.first_line == "m.relay: paused after Repeat (next)"
        assert [strip.count("FoldConstant") for strip in debugger.text.splitlines()].count(1) == 2
        await debugger.press("r", "escape")
        assert debugger.first_line == "m.relay: paused after Repeat (next)"


@pytest.mark.slow
async def test_reproducer_is_written(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "saved state"
    async with debugging([model], PIPELINE) as debugger:
        await debugger.press("s", "w")
        await debugger.answer(str(folder))
        assert debugger.message == f"written: {folder}; to run it: apass replay '{folder}'"
        await debugger.press("w")
        await debugger.answer(str(model / "below"))
        assert debugger.message.startswith(f"cannot write {model}/below: ")
    assert (await apass.replay(folder)).verdict is apass.debugging.Verdict.SUCCEEDS


@pytest.mark.slow
async def test_breakpoints_are_added_and_removed(model: Path) -> None:
    async with debugging([model], PIPELINE) as debugger:
        assert debugger.shown("breakpoints") == "no breakpoints; press b to add one"
        await debugger.press("b")
        await debugger.answer("changed:main")
        assert (debugger.message, debugger.shown("breakpoints")) == ("added changed:main", "changed:main")
        await debugger.press("b")
        await debugger.answer("changd:main")
        assert debugger.message.endswith("did you mean 'changed'?")
        await debugger.press("c")
        assert debugger.first_line == "m.relay: paused after FoldConstant (changed:main)"
        await debugger.press("b")
        await debugger.answer("changed:main")
        assert debugger.message == "removed changed:main"


@pytest.mark.slow
async def test_run_goes_on_behind_a_prompt(model: Path, door: anyio.Event) -> None:
    async with debugging([model], "debugger.Hold,debugger.Note", "pass:debugger.Note") as debugger:
        await debugger.press_at_once("c", "b")
        door.set()
        await debugger.opened(1)
        await debugger.answer("error")
        assert debugger.first_line == "m.relay: paused before debugger.Note (pass:debugger.Note)"


@pytest.mark.slow
async def test_error_of_pass_is_shown_as_text(model: Path) -> None:
    async with debugging([model], "debugger.Fail", "error") as debugger:
        await debugger.press("c")
        assert debugger.first_line == "m.relay: paused after the error of debugger.Fail (error)"
        assert debugger.message == "ValueError: no\\x1b[2J"
        await debugger.press("c")
        assert debugger.first_line == "finished: 1 model failed"
        assert "✗ m.relay" in debugger.text
    assert isinstance(debugger.session.errors["m.relay"], ValueError)


@pytest.mark.slow
async def test_foreign_cancellation_fails_the_model(model: Path) -> None:
    async with debugging([model], "debugger.Await") as debugger:
        await debugger.press("c")
        assert debugger.first_line == "finished: 1 model failed"
    assert isinstance(debugger.session.errors["m.relay"], apass.errors.PassCancelledError)


@pytest.mark.slow
async def test_waiting_pass_is_shown(model: Path, door: anyio.Event) -> None:
    async with debugging([model], "debugger.Hold,debugger.Note", "wait:0.01") as debugger:
        await debugger.press("c")
        assert debugger.first_line == "m.relay: paused during the wait of debugger.Hold (wait:0.01)"
        await debugger.press("k")
        assert debugger.first_line == "m.relay: paused before debugger.Note (next)"


@pytest.mark.slow
async def test_end_of_wait_ends_pause(model: Path, door: anyio.Event) -> None:
    async with debugging([model], "debugger.Hold", "wait:0.01") as debugger:
        await debugger.press("c")
        door.set()
        await debugger.ended()
        assert debugger.first_line == "finished"


@pytest.mark.slow
@pytest.mark.parametrize("key", ["r", "w"])
async def test_answer_is_for_the_asking_pause(key: str, model: Path, tmp_path: Path, door: anyio.Event) -> None:
    breakpoints = ("wait:0.01", "pass:debugger.Note")
    async with debugging([model], "debugger.Hold,debugger.Note", *breakpoints) as debugger:
        await debugger.press("c")
        assert debugger.first_line == "m.relay: paused during the wait of debugger.Hold (wait:0.01)"
        await debugger.press_at_once(key)
        door.set()
        later = "m.relay: paused before debugger.Note (pass:debugger.Note)"
        await debugger.shows(later)
        await debugger.answer(str(tmp_path / "x"))
        assert debugger.message == "the pause has ended meanwhile; nothing was done"
        assert debugger.first_line == later


@pytest.mark.slow
async def test_other_modules_stop(model: Path, tmp_path: Path) -> None:
    models = [model, program(tmp_path / "n.relay")]
    async with debugging(models, PIPELINE, others="stop") as debugger:
        await debugger.press("s")
        assert "waits for a" in debugger.text
        await debugger.press("o")
        assert debugger.message == "during a pause, other modules run"
        assert debugger.session.pauses.others == "run"


@pytest.mark.slow
async def test_paused_modules_are_shown_in_turn(model: Path, tmp_path: Path) -> None:
    models = [model, program(tmp_path / "n.relay")]
    async with debugging(models, PIPELINE, "module:*") as debugger:
        await debugger.opened(2)
        first = debugger.first_line
        await debugger.press("m")
        second = debugger.first_line
        assert {first.split(":")[0], second.split(":")[0]} == {"m.relay", "n.relay"}
        await debugger.press("c")
        assert debugger.first_line == first


@pytest.mark.slow
async def test_interrupt_pauses_running_module(model: Path, door: anyio.Event) -> None:
    async with debugging([model], "debugger.Hold,debugger.Note") as debugger:
        await debugger.press_at_once("c", "p")
        assert debugger.message == "pausing at the next pass"
        door.set()
        await debugger.settled()
        assert debugger.first_line == "m.relay: paused after debugger.Hold (interrupt)"


@pytest.mark.slow
async def test_quit_cancels_what_runs(model: Path, door: anyio.Event) -> None:
    async with debugging([model], "debugger.Hold") as debugger:
        await debugger.press_at_once("c", "q")
    assert debugger.session.unfinished == 1
    assert debugger.session.is_over


@pytest.mark.slow
async def test_unreadable_model_fails_alone(model: Path, tmp_path: Path) -> None:
    broken = program(tmp_path / "broken.relay", "def")
    async with debugging([broken, model], PIPELINE) as debugger:
        await debugger.press("c")
        assert debugger.first_line == "finished: 1 model failed"
    assert list(debugger.session.errors) == ["broken.relay"]


@pytest.mark.slow
async def test_question_mark_lists_keys(model: Path) -> None:
    async with debugging([model], PIPELINE, size=(100, 30)) as debugger:
        await debugger.press("question_mark")
        assert "o  let other modules run during a pause, or stop them" in debugger.text
        await debugger.press("escape")
        assert "let other modules run" not in debugger.text
