"""The page that `ReportInstrument` writes: what is recorded of a run, and the page made of it, which stands alone."""
