"""The `IRPlugin` of ONNX files that Relay passes optimize.

A model is imported when it is read, and exported when it is written. The version of its operators, its IR version and
the names of its outputs are kept, and so is its metadata.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from apass.core.ir_plugin import Comparison, IRPlugin, Measures
from apass.errors import AdapterError
from apass.relay.integration.plugin import PLUGIN
from apass.relay.ir.module import IRModule
from apass.relay.type_inference.infer import infer_module

__all__ = ["THROUGH_RELAY", "exported_model", "imported_model"]

_SOURCES: Final[WeakKeyDictionary[IRModule, Path]] = WeakKeyDictionary()
"""The files that modules were read from, for the comparison of outputs with the original model."""


_METADATA: Final = ("doc_string", "domain", "metadata_props", "model_version")
"""The fields of a model of onnx_ir that describe it."""


def _names() -> Any:
    """Return the module with the names of attributes of `main`."""
    # The exporter needs onnx, an extra.
    from apass.relay.backend.onnx import model

    return model


def _load(path: Path) -> IRModule:
    """Read an ONNX model, with its weights as constants.

    Raises:
        AdapterError: if the file is no model, or has outputs that Relay would change.
        OpNotImplementedError: if the importer does not support a part of it.

    """
    # The adapter has clear errors for files that are no models.
    from apass.adapters.onnx import external_files, load_model

    mod = imported_model(load_model(path), {_names().EXTERNAL: 1} if external_files(path) else {})
    _SOURCES[mod] = path
    return mod


def imported_model(source: Any, facts: Mapping[str, object] | None = None) -> IRModule:
    """Return a model of onnx_ir as a module, with its weights as constants.

    Attributes of `main` record what `exported_model` needs to restore the interface of the model.

    Parameters:
        source: the model.
        facts: further attributes of `main`.

    Raises:
        AdapterError: if the model has outputs that Relay would change.
        OpNotImplementedError: if the importer does not support a part of it.

    """
    # onnx is an extra.
    import onnx_ir

    from apass.adapters.onnx import model_proto
    from apass.relay.frontend import from_onnx

    for output in source.graph.outputs:
        if output.type is not None and not isinstance(output.type, onnx_ir.TensorType):
            raise AdapterError(
                f"output {output.name!r} of the model is no tensor, which Relay passes cannot keep; optimize the "
                "model with passes of ONNX, such as onnx.Default"
            )
    mod, _ = from_onnx(model_proto(source), freeze_params=True)
    names = _names()
    attrs: dict[str, object] = {
        names.OUTPUTS: "\n".join(output.name for output in source.graph.outputs),
        names.IR_VERSION: source.ir_version,
        names.NAME: source.graph.name or "main",
        **(facts or {}),
    }
    dims = [
        f"{axis} {dim.value} {value.name}"
        for value in (*source.graph.inputs, *source.graph.outputs)
        for axis, dim in enumerate(value.shape or ())
        if isinstance(dim, onnx_ir.SymbolicDim) and dim.value and not set(dim.value) & {" ", "\n"}
    ]
    if dims:
        attrs[names.DIMS] = "\n".join(dims)
    metadata = {field: value for field in _METADATA if (value := getattr(source, field))}
    if metadata:
        attrs[names.METADATA] = json.dumps(metadata)
    if "" in source.opset_imports:
        attrs[names.OPSET] = source.opset_imports[""]
    return infer_module(mod.with_functions({"main": mod["main"].with_attr(attrs)}))


def exported_model(mod: IRModule, opset_version: int | None = None) -> Any:
    """Return a module as a model of onnx_ir.

    Parameters:
        mod: the module.
        opset_version: the version of ONNX's operators; None for that of the model that the module is from.

    Raises:
        OpNotImplementedError: if a part of the module has no ONNX form.

    """
    # onnx is an extra.
    import onnx_ir

    from apass.relay.backend import to_onnx

    name = mod["main"].attrs.get(_names().NAME)
    proto = to_onnx(mod, name=name if isinstance(name, str) else "main", opset_version=opset_version)
    model = cast("Any", onnx_ir.from_proto)(proto)
    text = mod["main"].attrs.get(_names().METADATA)
    for field, value in json.loads(text).items() if isinstance(text, str) else ():
        if field == "metadata_props":
            model.metadata_props.update(value)
        elif field in _METADATA:
            setattr(model, field, value)
    return model


def _companions(path: Path) -> list[Path]:
    """Return the files with the external data of an ONNX model."""
    # onnx is an extra.
    from apass.adapters.onnx import external_files

    return external_files(path)


def _save(mod: IRModule, path: Path, prepared: Any) -> None:
    # onnx is an extra.
    from apass.adapters.onnx import save_model

    save_model(exported_model(mod), path, prepared, external=bool(mod["main"].attrs.get(_names().EXTERNAL)))


async def _compare_outputs(before: IRModule, after: IRModule) -> Comparison:
    """Run the source model and the exported result on the same inputs, and compare."""
    # onnx is an extra.
    from apass.adapters.onnx import load_model
    from apass.adapters.onnx.outputs import compare_outputs

    path = _SOURCES.get(before)
    original = exported_model(before) if path is None else load_model(path)
    verdict = await compare_outputs(original, exported_model(after), engines=("onnxruntime", "reference"))
    return verdict.comparison


async def _measure(mods: Sequence[IRModule]) -> Sequence[Measures]:
    """Return the sizes and latencies of the exported modules."""
    # onnx is an extra.
    from apass.adapters.onnx.plugin import measure

    return await measure([exported_model(mod) for mod in mods])


THROUGH_RELAY: Final[IRPlugin[IRModule]] = replace(
    PLUGIN,
    suffixes=(".onnx",),
    load=_load,
    save=None,
    save_files=_save,
    companions=_companions,
    compare_outputs=_compare_outputs,
    measure=_measure,
    copies_unchanged=True,
)
"""The plug-in that reads ONNX files as Relay modules, and writes such modules as ONNX files."""
