"""Relay's adapter, and the reductions of Relay modules for `apass.reduce`."""
