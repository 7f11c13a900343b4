"""Concurrent optimization of many modules, with journals to resume a run."""
