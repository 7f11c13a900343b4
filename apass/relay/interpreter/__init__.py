"""The evaluator: lowers programs to register code and runs it on numpy."""
