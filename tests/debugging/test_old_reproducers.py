"""Reproducers written by revision 29831d6 are still replayed.

The classes of modules have moved since.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import apass

DATA = Path(__file__).parent / "data"

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def failing_pass() -> Iterator[list[Any]]:
    """Register the pass that failed; give the modules that it gets."""
    modules: list[Any] = []

    @apass.module_pass(opt_level=0, name="legacy.Fail")
    def fail(mod: Any, ctx: apass.PassContext) -> Any:
        modules.append(mod)
        raise ValueError("as of old")

    apass.register_pass("legacy.Fail", lambda: fail)
    yield modules
    apass.unregister_pass("legacy.Fail")


@pytest.mark.parametrize("kind", ["dict", "relay", "onnx"])
async def test_old_reproducer_fails_the_same_way(kind: str, failing_pass: list[Any]) -> None:
    result = await apass.replay(DATA / kind)
    assert (result.verdict, len(failing_pass)) == (apass.Verdict.SAME, 1)
