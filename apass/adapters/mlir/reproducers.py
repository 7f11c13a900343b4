"""Reproducers of `mlir-opt` as passes of apass."""

import re
from typing import Final

from apass.adapters.mlir.module import MLIRModule
from apass.core.context import PassContext
from apass.core.outside import Outside
from apass.core.pass_info import PassInfo
from apass.errors import AdapterError
from apass.passes.base import ModulePass
from apass.passes.sequential import Sequential
from apass.pipelines.parser import parse_pipeline

__all__ = ["RunReproducer", "read_mlir_reproducer"]

_METADATA: Final = re.compile(r"\{-#.*?#-\}", re.DOTALL)
_PIPELINE: Final = re.compile(r'mlir_reproducer:\s*\{.*?pipeline:\s*"((?:[^"\\]|\\.)*)"', re.DOTALL)
_BRACE: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}]')


def read_mlir_reproducer(mod: MLIRModule) -> tuple[MLIRModule, Sequential[MLIRModule]]:
    """Return the module and the passes of a reproducer that `mlir-opt` wrote.

    `mlir-opt --mlir-pass-pipeline-crash-reproducer=FILE` writes a module, and the pipeline as its metadata.

    Raises:
        AdapterError: if the module has no such metadata.
        PipelineSyntaxError: if the pipeline names an unknown pass or option.

    """
    metadata = _METADATA.search(mod.text)
    pipeline = None if metadata is None else _PIPELINE.search(metadata.group())
    if metadata is None or pipeline is None:
        name = mod.source or "the module"
        raise AdapterError(f"{name} is no reproducer of mlir-opt: it has no mlir_reproducer metadata")
    rest = _without_reproducer(metadata.group())
    text = f"{mod.text[: metadata.start()].rstrip()}\n{rest}{mod.text[metadata.end() :].lstrip()}"
    return MLIRModule(text, mod.source), parse_pipeline("mlir:" + re.sub(r"\\(.)", r"\1", pipeline[1]))


def _without_reproducer(metadata: str) -> str:
    """Return the metadata of a file without the pipeline; "" if nothing is left."""
    for key in ("mlir_reproducer", "external_resources"):
        match = re.search(rf"\b{key}:\s*\{{", metadata)
        if match is None or (key == "external_resources" and metadata[match.end() :].lstrip()[:1] != "}"):
            continue
        end, depth = match.end(), 1
        for token in _BRACE.finditer(metadata, match.end()):
            depth += (token[0] == "{") - (token[0] == "}")
            end = token.end()
            if not depth:
                break
        before, after = metadata[: match.start()].rstrip(), metadata[end:].lstrip()
        # One of the commas around it goes as well.
        metadata = f"{before.removesuffix(',')}\n{after if before.endswith(',') else after.removeprefix(',')}"
    return "" if re.fullmatch(r"\{-#\s*#-\}", metadata) else f"{metadata}\n"


class RunReproducer(ModulePass[MLIRModule]):
    """Runs the pipeline that a reproducer of `mlir-opt` contains on its module.

    Each pass runs as one of apass. With `--reproducer`, the pass that fails therefore writes a reproducer of apass.
    """

    info = PassInfo(0, "mlir.Reproducer")
    outside = Outside.CODE

    async def transform_module(self, mod: MLIRModule, ctx: PassContext) -> MLIRModule:
        """Run the passes of the reproducer.

        Raises:
            AdapterError: if the module is no reproducer.

        """
        module, pipeline = read_mlir_reproducer(mod)
        return await pipeline(module)
