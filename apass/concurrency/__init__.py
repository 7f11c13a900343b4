"""Tools for asyncio and trio, independent of passes.

They cover scheduling, coroutines, shielding and processes.
"""
