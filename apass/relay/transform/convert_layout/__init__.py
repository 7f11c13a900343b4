"""`ConvertLayout`, and the rewriter that propagates layouts through a program."""
