"""Tools to define operators: the registry, type relations, attributes and layouts."""
