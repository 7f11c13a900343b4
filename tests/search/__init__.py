"""Tests of the search for pipelines."""
