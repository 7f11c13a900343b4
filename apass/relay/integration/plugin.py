"""The `IRPlugin` of Relay, and that of ONNX files that are converted to Relay."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from apass.core.ir_plugin import Comparison, IRPlugin, Proof
from apass.relay.integration.adapter import ADAPTER
from apass.relay.interpreter.compare_outputs import difference, random_arguments
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import Call
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.parser import parse
from apass.relay.text.printing.printer import astext
from apass.relay.type_inference.infer import infer_module

__all__ = ["FROM_ONNX", "PLUGIN", "onnx_companions"]


def _load(path: Path) -> IRModule:
    return parse(path.read_text(encoding="utf-8"), str(path))


def _save(mod: IRModule, path: Path) -> None:
    path.write_text(astext(mod), encoding="utf-8")


def _count_calls(mod: IRModule) -> int:
    return sum(isinstance(node, Call) for func in mod.functions.values() for node in post_order(func))


def _compare_outputs(before: IRModule, after: IRModule) -> Comparison:
    """Evaluate both modules on the same random arguments, and compare."""
    try:
        arguments = random_arguments(before["main"])
    except (KeyError, ValueError) as error:
        return Comparison(False, f"outputs not compared: {error}")
    found = difference(evaluate(before, *arguments), evaluate(after, *arguments))
    return Comparison(bool(found), found or "outputs equal")


async def _prove_equal(before: IRModule, after: IRModule) -> Proof:
    """Search for a proof that the main functions compute the same."""
    # Few runs prove anything.
    from apass.external.solver import prove_in_worker

    data = ADAPTER.dumps(before), ADAPTER.dumps(after)
    return await prove_in_worker("apass.relay.equivalence.search", *data)


def _load_onnx(path: Path) -> IRModule:
    """Read an ONNX model, with its weights as constants."""
    # Relay without ONNX does not need these modules.
    from apass.relay.frontend import from_onnx

    mod, _ = from_onnx(path, freeze_params=True)
    return infer_module(mod)


def onnx_companions(path: Path) -> list[Path]:
    """Return the files with the external data of an ONNX model."""
    # onnx is an extra.
    from apass.adapters.onnx import external_files

    return external_files(path)


PLUGIN: Final = IRPlugin(
    adapter=ADAPTER,
    module_type=IRModule,
    suffixes=(".relay",),
    load=_load,
    save=_save,
    default_pipeline="relay.Default",
    size=_count_calls,
    compare_outputs=_compare_outputs,
    prove_equal=_prove_equal,
    copies_unchanged=False,
)
"""The plug-in: modules in text files."""

FROM_ONNX: Final = replace(PLUGIN, load=_load_onnx, companions=onnx_companions)
"""The plug-in that reads ONNX files as Relay modules."""
