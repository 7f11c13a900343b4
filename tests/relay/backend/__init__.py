"""Tests of the export of Relay to ONNX, and of the executor onnxruntime."""
