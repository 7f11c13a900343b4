"""`Place`: the line of the user that raised an error."""

from apass.core.places import place_of_error
from apass.core.tracebacks import RemoteTraceback


def raised(cause: BaseException | None = None) -> ValueError:
    try:
        raise ValueError("no") from cause
    except ValueError as error:
        return error


def test_place_is_the_innermost_line_of_the_user() -> None:
    place = place_of_error(raised())
    assert place is not None
    assert (place.file, str(place).endswith("test_places.py:9")) == (__file__, True)
    assert place_of_error(ValueError("never raised")) is None


def test_place_of_worker_is_in_its_traceback() -> None:
    error = ValueError("no")
    error.add_note('  File "not/the.py", line 1')
    error.add_note(RemoteTraceback('raised in process 3:\n  File "my/pass.py", line 7, in f\n    raise'))
    assert str(place_of_error(error)) == "my/pass.py:7"


def test_place_of_cause_is_found_in_a_cycle() -> None:
    outer = ValueError("no")
    outer.__cause__ = outer
    assert place_of_error(outer) is None
    outer.__cause__ = raised(outer)
    assert place_of_error(outer) is not None
