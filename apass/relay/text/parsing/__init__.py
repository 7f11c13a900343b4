"""The parser: grammar, parser driver and node builders."""
