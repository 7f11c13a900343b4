"""Scenarios with the events that TVM emits, and the player that plays them on apass."""
