"""Failures of which a result shows nothing are reported to its cache."""

from apass.core.failures import note_failure, watch_failures


def test_failure_is_noted_in_all_active_watches() -> None:
    with watch_failures() as outer:
        with watch_failures() as inner:
            pass
        note_failure()
    note_failure()
    assert (outer.seen, inner.seen) == (True, False)
