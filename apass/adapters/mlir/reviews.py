"""What the passes of `mlir-opt`, and their options, reach besides the module.

It was read in the sources of LLVM 22. An option that is text and is not listed here counts as `Outside.UNKNOWN`; see
`apass.plugins.reviewed`.
"""

from collections.abc import Mapping
from typing import Final

from apass.core.outside import Outside

__all__ = ["HARMLESS", "OPTIONS", "PASSES", "reviews_of"]

PASSES: Final[Mapping[str, Outside]] = {
    # A target attribute of the module may name files to link; ptxas and lld run.
    "gpu-lower-to-nvvm-pipeline": Outside.PROGRAMS,
    "gpu-lower-to-xevm-pipeline": Outside.PROGRAMS,
    "gpu-module-to-binary": Outside.PROGRAMS,
    # `transform.apply_registered_pass` in the module names any pass, with options.
    "transform-interpreter": Outside.CODE,
}
"""The passes that reach outside with any options."""

OPTIONS: Final[Mapping[str, Mapping[str, Outside]]] = {
    "composite-fixed-point-pass": {"pipeline": Outside.CODE},
    "inline": {"default_pipeline": Outside.CODE, "op_pipelines": Outside.CODE},
    "nvvm-attach-target": {"l": Outside.FILES, "ptxas_cmd_options": Outside.PROGRAMS},
    "rocdl-attach-target": {"l": Outside.FILES},
    "snapshot-op-locations": {"filename": Outside.FILES},
    "sparsifier": {"gpu_triple": Outside.PROGRAMS},
    "transform-preload-library": {"transform_library_paths": Outside.FILES},
    "xevm-attach-target": {"cmd_options": Outside.PROGRAMS, "l": Outside.FILES},
}
"""The options that reach outside, by pass."""

HARMLESS: Final[Mapping[str, str]] = {
    "amdgpu-emulate-atomics": "chipset",
    "arith-emulate-unsupported-floats": "source_types target_type",
    "canonicalize": "disable_patterns enable_patterns",
    "composite-fixed-point-pass": "name",
    "convert-amdgpu-to-rocdl": "chipset",
    "convert-arith-to-amdgpu": "chipset",
    "convert-gpu-to-nvvm": "allowed_dialects",
    "convert-gpu-to-rocdl": "allowed_dialects chipset",
    "convert-math-to-rocdl": "chipset",
    "convert-to-emitc": "filter_dialects",
    "convert-to-llvm": "filter_dialects",
    "gpu-kernel-outlining": "data_layout_str",
    "gpu-map-parallel-loops": "mapping_policy",
    "map-memref-spirv-storage-class": "client_api",
    "math-expand-ops": "ops",
    "math-extend-to-supported-types": "extra_types target_type",
    "nvvm-attach-target": "chip features module triple",
    "one-shot-bufferize": "analysis_heuristic dialect_filter no_analysis_func_filter",
    "print-ir": "label",
    "rocdl-attach-target": "abi chip features module triple",
    "set-llvm-module-datalayout": "data_layout",
    "snapshot-op-locations": "tag",
    "sparsifier": "gpu_chip gpu_features gpu_format",
    "spirv-attach-target": "caps client_api device_type exts module vendor ver",
    "symbol-privatize": "exclude",
    "tosa-attach-target": "extensions_ profiles",
    "xegpu-propagate-layout": "layout_kind",
    "xevm-attach-target": "chip module triple",
}
"""The options that are text and reach nothing, by pass."""


def reviews_of(name: str) -> Mapping[str, Outside | None]:
    """Return what the options of a pass reach, for those that are text."""
    return {**dict.fromkeys(HARMLESS.get(name, "").split()), **OPTIONS.get(name, {})}
