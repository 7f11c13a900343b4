"""The arena: optimizers of ONNX models, compared on models from the package index."""
