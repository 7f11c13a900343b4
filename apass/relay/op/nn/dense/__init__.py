"""Matrix products and biases."""
