"""An ONNX model as a torch module: differentiable, traceable, for any batch size.

The file is read once (load), what depends on no input is computed at load time, and the rest is executed node by node
(graph) with one small torch function per operator (elementwise, reductions, resize, shapes, windows).
"""

# Importing a module of operators enters them in the table.
from dualshield.hashes.onnx import elementwise, reductions, resize, shapes, windows
from dualshield.hashes.onnx.graph import OnnxModule

__all__ = ["OnnxModule", "elementwise", "reductions", "resize", "shapes", "windows"]
