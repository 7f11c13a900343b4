"""The front end for ONNX; `apass.relay.frontend.from_onnx` imports it when the first model comes."""

from apass.errors import MissingExtraError

try:
    import onnx
except ImportError as error:
    raise MissingExtraError(f"from_onnx needs onnx ({error}): pip install 'apass[onnx]'") from error

__all__ = ["onnx"]
