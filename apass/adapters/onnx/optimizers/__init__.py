"""The passes of other ONNX optimizers: `onnxscript.*`, `onnxslim.*` and `ort.*`.

Each module here registers the passes of one library. Only the passes of that library need it.
"""
