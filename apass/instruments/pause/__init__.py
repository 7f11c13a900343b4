"""Pauses between passes: breakpoints, stepping, and `PauseInstrument`."""
