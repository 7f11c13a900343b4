"""Tests of what is found out about Relay programs."""
