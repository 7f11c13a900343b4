"""Helpers for the tests of Relay: programs, evaluation and checks."""
