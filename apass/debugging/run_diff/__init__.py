"""Comparison of two recorded runs: `RecordedRun`, `RunDiff` and their displays."""
