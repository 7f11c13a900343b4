"""Scans, statistics and einsum."""
