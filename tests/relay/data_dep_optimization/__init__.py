"""Tests of optimizations that change a program and its parameters together."""
