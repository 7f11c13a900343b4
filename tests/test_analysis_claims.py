"""Which of several claims of a pass is found out first: the one that was asked first."""

from functools import partial

import pytest

from apass import PassContext, VerifyError, analysis, function_pass

pytestmark = pytest.mark.anyio


def count(more: int, func: str) -> int:
    return len(func) + more


async def test_the_claim_that_was_asked_first_is_found_out_first() -> None:
    asked = [analysis(name=f"A{place}")(partial(count, place)) for place in range(20)]

    @function_pass(opt_level=0, preserves=asked)
    async def Claim(func: str, _mod: dict[str, str], ctx: PassContext) -> str:
        for one in asked:
            await ctx.get(one, func)
        return f"{func}!"

    with pytest.raises(VerifyError, match="claims to preserve A0, but that was 1 and is 2"):
        async with PassContext(strict=True):
            await Claim({"f": "x"})
