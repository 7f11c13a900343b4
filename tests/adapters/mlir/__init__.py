"""Tests of the MLIR adapter."""
