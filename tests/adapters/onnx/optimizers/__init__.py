"""Tests of the passes of other optimizers."""
