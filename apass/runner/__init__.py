"""How a pass runs: hooks, fan-out over functions, error policy, result cache."""
