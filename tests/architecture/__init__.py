"""Tests of the structure of the code: layers, names and prose."""
