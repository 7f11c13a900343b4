"""Scenarios with the events that TVM emits, and a player that runs them in apass."""
