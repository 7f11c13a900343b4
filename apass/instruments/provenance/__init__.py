"""Which pass made, changed or removed each function and node, and which lost locations."""
