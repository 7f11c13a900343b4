"""How a pass runs: hooks around its work, the fan-out over functions, error policy and result cache."""
