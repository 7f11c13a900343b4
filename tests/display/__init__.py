"""Tests of the display in notebooks and terminals."""
