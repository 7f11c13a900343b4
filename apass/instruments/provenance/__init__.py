"""The passes that touched each function and node, or lost their locations."""
