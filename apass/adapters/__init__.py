"""Adapters to IRs.

An adapter is imported when the first module of its type is used.
"""

from apass.util import moved_modules

moved_modules.install(
    {
        "apass.adapters.onnx_outputs": ["apass.adapters.onnx.outputs"],
        "apass.adapters.onnx_passes": ["apass.adapters.onnx.passes"],
    }
)
