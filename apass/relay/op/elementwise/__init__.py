"""Elementwise operators: each output element depends on one index of the inputs."""
