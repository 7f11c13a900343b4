"""Debug mode: finds mistakes in passes, each with its place in the user's code."""
