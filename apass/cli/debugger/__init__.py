"""The debugger in a terminal, `apass debug`."""
