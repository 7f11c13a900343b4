"""PartialEvaluate: compute the static parts of a program."""
