"""Properties that hold for every pipeline: cancellation and laws of the runner."""
