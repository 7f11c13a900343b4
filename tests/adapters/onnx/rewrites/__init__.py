"""Tests of the rewrites of ONNX models."""
