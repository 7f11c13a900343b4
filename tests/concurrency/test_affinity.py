"""Cores that threads are pinned to, and cores that are kept free."""

import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from apass.concurrency.processes.affinity import last_core, pinned_to, reserved
from tests.helpers.measured_runs import affinity, affinity_of_all_threads

pytestmark = pytest.mark.skipif(last_core() is None, reason="threads cannot be pinned to one of several cores")

ALL = affinity() if hasattr(os, "sched_getaffinity") else frozenset[int]()
LAST = max(ALL, default=0)
FIRST = min(ALL, default=0)


@contextmanager
def other_thread() -> Generator[int]:
    """Run a thread during the block, and yield its id."""
    started, ended = threading.Event(), threading.Event()
    ids: list[int] = []

    def run() -> None:
        ids.append(threading.get_native_id())
        started.set()
        ended.wait()

    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    try:
        yield ids[0]
    finally:
        ended.set()
        thread.join()


def cores_of(thread: int) -> frozenset[int]:
    return frozenset(os.sched_getaffinity(thread))


def test_last_core_is_the_same_while_reserved() -> None:
    assert last_core() == LAST
    with reserved(LAST):
        assert last_core() == LAST


def test_reserved_core_is_left_by_all_threads() -> None:
    with other_thread(), suppress(OSError), reserved(LAST):
        assert affinity_of_all_threads() == {ALL - {LAST}}
        raise OSError("failed")
    assert affinity_of_all_threads() == {ALL}


@pytest.mark.process
def test_processes_keep_off_the_reserved_core() -> None:
    code = "import os; print(sorted(os.sched_getaffinity(0)))"
    with reserved(LAST):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{sorted(ALL - {LAST})}\n"


def test_threads_started_meanwhile_get_all_cores() -> None:
    with ExitStack() as stack:
        with reserved(LAST):
            thread = stack.enter_context(other_thread())
            assert cores_of(thread) == ALL - {LAST}
        assert cores_of(thread) == ALL


def test_reservations_may_be_nested_and_overlap() -> None:
    first, second = ExitStack(), ExitStack()
    first.enter_context(reserved(LAST))
    with reserved(LAST):
        pass
    second.enter_context(reserved(LAST))
    first.close()
    assert affinity() == ALL - {LAST}
    second.close()
    assert affinity() == ALL


def test_reservations_of_two_cores_end_in_any_order() -> None:
    if len(ALL) < 3:
        pytest.skip("there are only two cores")
    first, second = ExitStack(), ExitStack()
    first.enter_context(reserved(LAST))
    second.enter_context(reserved(FIRST))
    first.close()
    assert affinity() == ALL - {FIRST}
    second.close()
    assert affinity() == ALL


def test_own_pins_of_threads_are_kept() -> None:
    with other_thread() as before, other_thread() as meanwhile:
        os.sched_setaffinity(before, {LAST})
        with reserved(LAST):
            # There is no other core for it.
            assert cores_of(before) == {LAST}
            os.sched_setaffinity(meanwhile, {LAST})
        assert cores_of(before) == cores_of(meanwhile) == {LAST}
        os.sched_setaffinity(before, {FIRST})
        with reserved(LAST):
            assert cores_of(before) == {FIRST}
        assert cores_of(before) == {FIRST}


def test_concurrent_reservations_restore_the_affinity() -> None:
    def reserve() -> None:
        for _ in range(20):
            with reserved(LAST):
                pass

    threads = [threading.Thread(target=reserve) for _ in range(4)]
    with reserved(LAST):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert affinity() == ALL - {LAST}
    assert affinity_of_all_threads() == {ALL}


def test_pinned_process_gets_its_cores_back() -> None:
    started: list[int] = []
    with other_thread() as thread:
        os.sched_setaffinity(thread, {FIRST})
        with ExitStack() as stack:
            with suppress(OSError), pinned_to(LAST):
                assert affinity_of_all_threads() == {frozenset({LAST})}
                started.append(stack.enter_context(other_thread()))
                raise OSError("failed")
            assert [affinity(), cores_of(thread), *map(cores_of, started)] == [ALL, {FIRST}, ALL]


def test_no_core_changes_nothing() -> None:
    with reserved(None), pinned_to(None):
        assert affinity() == ALL
