"""The passes of other optimizers keep the meaning of models, and the input model."""

from itertools import product
from typing import Final

import anyio
import onnx_ir as ir
import pytest

import apass
from apass.adapters.onnx import ADAPTER
from apass.adapters.onnx.optimizers.onnxscript import rule_sets
from apass.adapters.onnx.outputs import Engine, Status, compare_outputs
from examples.optimize_onnx_corpus import Case
from tests.helpers.onnx_models import spread
from tests.helpers.peers import OPTIMIZERS, random_models, traps
from tests.helpers.rows import row

pytestmark = [pytest.mark.process, pytest.mark.slow]

ENGINES: Final[tuple[Engine, ...]] = ("reference", "onnxruntime")
RULE_SETS = [f"onnxscript.{name}" for name in rule_sets()]
ALL = [*OPTIMIZERS, "onnxscript.FuseForOnnx", "onnxscript.FuseForRuntime", *RULE_SETS]


async def optimized(name: str, model: ir.Model) -> ir.Model:
    """Return the result of a pass, which must not change its input model."""
    before = ADAPTER.fingerprint(model)
    result: ir.Model = await apass.get_pass(name)(model)
    assert ADAPTER.fingerprint(model) == before
    ADAPTER.verify(result)
    return result


# Each test has one event loop, and thereby one worker process, which imports the libraries.


def test_optimizers_keep_meanings_despite_traps() -> None:
    async def main() -> None:
        for name, (trap, model) in product(ALL, traps().items()):
            with row((name, trap)):
                result = await optimized(name, model)
                verdict = await compare_outputs(model, result, engines=ENGINES)
                assert verdict.status is Status.EQUAL, verdict

    anyio.run(main)


def test_optimizers_keep_random_outputs_random() -> None:
    async def main() -> None:
        for name, (operator, model) in product(OPTIMIZERS, random_models().items()):
            with row((name, operator)):
                result = await optimized(name, model)
                verdict = await compare_outputs(model, result, engines=ENGINES)
                assert result is model or verdict.status is Status.RANDOM, verdict

    anyio.run(main)


def test_optimizers_keep_meanings_of_real_models() -> None:
    async def main() -> None:
        for name in OPTIMIZERS:
            changed = [await keeps_meaning(name, case) for case in spread()[::6]]
            assert any(changed), name

    anyio.run(main)


async def keeps_meaning(name: str, case: Case) -> bool:
    """Check the result of a pass, and return whether it changed the model."""
    with row((name, case.name)):
        try:
            result = await optimized(name, case.model)
        except apass.errors.AdapterError:
            # onnxslim and onnxruntime do not support all operators.
            if name.startswith("onnxscript."):
                raise
            return False
        if result is case.model:
            return False
        for inputs, outputs in case.data:
            verdict = await compare_outputs(
                case.model, result, inputs, expected=outputs, rtol=case.rtol, engines=ENGINES
            )
            assert not verdict.changed, verdict
    return True
