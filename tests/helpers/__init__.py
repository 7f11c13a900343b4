"""Helpers for the tests: passes, instruments, clocks and programs."""
