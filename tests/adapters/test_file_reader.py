"""Files that a process of its own reads, one after the other."""

from pathlib import Path

import pytest

from apass.adapters import file_reader
from apass.adapters.file_reader import read_in_process
from apass.errors import AdapterError

pytestmark = [pytest.mark.process]

STATE = """
import os, sys
data = sys.stdin.buffer.read()
seen = sys.__dict__.setdefault("seen", [])
seen.append(data)
if data == b"abort" or (data == b"abort if reused" and len(seen) > 1):
    os.abort()
if data == b"fail":
    sys.exit("cannot read it")
os.write(1, b"noise of a library")
sys.stdout.buffer.write(b"%d %d %b" % (os.getpid(), len(seen), " ".join(sys.argv[1:]).encode()))
"""
"""Writes its process, how many requests it has had, and its arguments."""


def read(data: bytes, *arguments: str) -> list[str]:
    answer = read_in_process(STATE, arguments, data, library="Library", path=Path("some.file"))
    return answer.decode().split()


def test_process_reads_the_next_file() -> None:
    first, second, third = read(b"", "next"), read(b"x" * 100_000, "next"), read(b"", "other", "arguments")
    assert second == [first[0], str(int(first[1]) + 1), "next"]
    assert third[0] != first[0]
    assert third[2:] == ["other", "arguments"]


def test_crash_names_the_file() -> None:
    with pytest.raises(AdapterError, match=r"Library crashed when it read some\.file \(exit status -6\); the file is"):
        read(b"abort", "crash")
    with pytest.raises(AdapterError, match=r"\(exit status 1\): cannot read it; the file is damaged"):
        read(b"fail", "crash")
    assert read(b"fine", "crash")[1] == "1"


def test_crash_of_used_process_is_tried_again() -> None:
    first = read(b"", "again")
    assert read(b"abort if reused", "again") != first
    assert read(b"", "again")[1] == "2"


def test_process_that_waited_too_long_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_reader, "IDLE_SECONDS", 0.0)
    assert [read(b"", "idle")[1], read(b"", "idle")[1]] in (["1", "1"], ["1", "2"])


def test_late_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_reader, "MAX_SECONDS", 0.1)
    program = "import time; time.sleep(60)"
    with pytest.raises(AdapterError, match=r"Library did not read some\.file within 0\.1 seconds"):
        read_in_process(program, [], b"", library="Library", path=Path("some.file"))
