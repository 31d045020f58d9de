"""Third-party hashes: YAML cards, ONNX graphs, and functions or programs without gradients."""
