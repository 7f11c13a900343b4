"""The tests of the adapters."""
