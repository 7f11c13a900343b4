"""Messages of interactive sessions, whose definitions no other process can import."""

import subprocess
import sys
from typing import Any

import pytest

from apass.executors.pickling import dumps, loads

ANSWER = """
import sys
from apass.executors.pickling import dumps, loads
sys.stdout.buffer.write(dumps(loads(sys.stdin.buffer.read()), "the answer"))
"""


def defined(code: str, name: str) -> Any:
    """Return what a cell with this code defines."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(code, namespace)
    return namespace[name]


@pytest.fixture
def _session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)


@pytest.mark.process
@pytest.mark.usefixtures("_session")
@pytest.mark.parametrize("code", ["class Thing: size = 2", "def Thing(): return 2"])
def test_answer_of_worker_contains_no_code(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    thing = defined(code, "Thing")
    monkeypatch.setattr(sys.modules["__main__"], "Thing", thing, raising=False)
    sent = dumps([thing], "a thing")
    done = subprocess.run([sys.executable, "-c", ANSWER], input=sent, capture_output=True, check=True)
    # The session has sent its definition by value, and finds it by name in the answer.
    assert (b"cloudpickle" in sent, b"cloudpickle" in done.stdout) == (True, False)
    assert loads(done.stdout) == [thing]


@pytest.mark.usefixtures("_session")
def test_session_sends_importable_objects_by_name() -> None:
    sent = dumps([defined, {"f": 1}], "an object")
    assert b"cloudpickle" not in sent
    assert loads(sent) == [defined, {"f": 1}]


def test_program_sends_no_definitions() -> None:
    message = r"a thing cannot be sent to another process \(.*Thing.*\); define it at the top level of a module"
    with pytest.raises(Exception, match=message):
        dumps(defined("class Thing: pass", "Thing"), "a thing")
