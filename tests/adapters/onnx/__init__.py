"""Tests of `apass/adapters/onnx`."""
