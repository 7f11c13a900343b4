"""The exporter to ONNX; `to_onnx` imports it on its first call."""

from apass.errors import MissingExtraError

try:
    import onnx
except ImportError as _error:
    raise MissingExtraError(f"to_onnx needs onnx ({_error}): pip install 'apass[onnx]'") from _error

__all__ = ["onnx"]
