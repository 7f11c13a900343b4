"""Tests of the passes of Relay."""
