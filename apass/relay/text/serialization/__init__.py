"""Programs as JSON, in the format of TVM 0.8."""
