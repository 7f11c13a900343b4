"""IR nodes: expressions, types, functions, data types, attributes and modules."""
