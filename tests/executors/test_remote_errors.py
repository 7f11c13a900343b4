"""Errors of workers as bytes."""

from apass import PassInfo
from apass.core.run import Run, RunNote
from apass.executors.remote_errors import failure_of


def test_serialized_error_keeps_its_own_notes() -> None:
    error = LookupError("no")
    note = RunNote("about a run", Run(PassInfo(opt_level=0, name="Fold"), None))
    error.add_note(note)
    received = failure_of(error).error()
    assert error.__notes__[0] is note
    assert (str(received), received.__notes__[0], type(received.__notes__[0])) == ("no", "about a run", str)
