"""`apass.run` on what is no pass, or under what is no context."""

from typing import Any

import anyio
import pytest

import apass
from apass import PassContext, module_pass


@module_pass(opt_level=0)
class Keep:
    def transform_module(self, mod: dict[str, int], ctx: PassContext) -> dict[str, int]:
        return mod


@pytest.mark.parametrize("given", ["Keep", None, Keep, [Keep()], len])
def test_what_is_no_pass_is_told(given: Any) -> None:
    with pytest.raises(TypeError, match=r"apass\.run takes a pass, not .*; make it one with module_pass"):
        apass.run(given, {"f": 1})


def test_what_is_no_context_is_told() -> None:
    made: Any = Keep()
    wrong: Any = {"opt_level": 3}
    with pytest.raises(TypeError, match="context must be a PassContext, not"):
        apass.run(made, {"f": 1}, context=wrong)


def test_none_is_no_module(anyio_backend: str) -> None:
    kept: Any = Keep()
    nothing: Any = None
    for pass_, name in ((kept, "Keep"), (apass.Sequential([kept]), "sequential")):
        with pytest.raises(TypeError, match=f"^pass '{name}' was given None, not a module; look at what the module"):
            anyio.run(pass_, nothing, backend=anyio_backend)
