"""Benchmarks of apass.

`python -m benchmarks` runs all, `python -m benchmarks.FILE` those of one file.
"""
