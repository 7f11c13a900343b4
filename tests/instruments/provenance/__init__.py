"""Tests of the instruments that follow nodes."""
