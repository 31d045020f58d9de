"""Hashes that are not ours: YAML cards, ONNX graphs, and functions or programs without gradients."""
