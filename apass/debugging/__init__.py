"""Tools that find the cause of a failure: `bisect`, `reduce` and `replay`."""
