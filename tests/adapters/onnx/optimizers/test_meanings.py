"""The passes of other optimizers keep the meaning of models, and the input model."""

from typing import Final

import anyio
import onnx_ir as ir
import pytest

import apass
from apass.adapters.onnx import ADAPTER
from apass.adapters.onnx.optimizers.onnxscript import rule_sets
from apass.adapters.onnx.outputs import Engine, Status, compare_outputs
from tests.helpers.onnx_models import spread
from tests.helpers.peers import OPTIMIZERS, random_models, traps

pytestmark = [pytest.mark.process, pytest.mark.slow]

ENGINES: Final[tuple[Engine, ...]] = ("reference", "onnxruntime")
RULE_SETS = [f"onnxscript.{name}" for name in rule_sets()]
ALL = [*OPTIMIZERS, "onnxscript.FuseForOnnx", "onnxscript.FuseForRuntime", *RULE_SETS]
LIBRARIES = ["onnxscript", "onnxslim", "ort"]


async def optimized(name: str, model: ir.Model) -> ir.Model:
    """Return the result of a pass, which must not change its input model."""
    before = ADAPTER.fingerprint(model)
    result: ir.Model = await apass.get_pass(name)(model)
    assert ADAPTER.fingerprint(model) == before
    ADAPTER.verify(result)
    return result


@pytest.mark.parametrize("library", LIBRARIES)
def test_optimizers_keep_meanings_despite_traps(library: str) -> None:
    async def main() -> None:
        for name in (name for name in ALL if name.startswith(f"{library}.")):
            for trap, model in traps().items():
                result = await optimized(name, model)
                verdict = await compare_outputs(model, result, engines=ENGINES)
                assert verdict.status is Status.EQUAL, (name, trap, verdict)

    anyio.run(main)


@pytest.mark.parametrize("library", LIBRARIES)
def test_optimizers_keep_random_outputs_random(library: str) -> None:
    async def main() -> None:
        for name in (name for name in OPTIMIZERS if name.startswith(f"{library}.")):
            for operator, model in random_models().items():
                result = await optimized(name, model)
                verdict = await compare_outputs(model, result, engines=ENGINES)
                assert result is model or verdict.status is Status.RANDOM, (name, operator, verdict)

    anyio.run(main)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_keeps_meanings_of_real_models(name: str) -> None:
    async def main() -> int:
        changed = 0
        for case in spread()[::6]:
            try:
                result = await optimized(name, case.model)
            except apass.AdapterError:
                # onnxslim and onnxruntime do not support all operators.
                if name.startswith("onnxscript."):
                    raise
                continue
            changed += result is not case.model
            for inputs, outputs in case.data if result is not case.model else ():
                verdict = await compare_outputs(
                    case.model, result, inputs, expected=outputs, rtol=case.rtol, engines=ENGINES
                )
                assert not verdict.changed, (case.name, verdict)
        return changed

    assert anyio.run(main) > 0
