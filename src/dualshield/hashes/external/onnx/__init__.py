"""An ONNX model as a torch module: differentiable, traceable, for any batch size.

The file is read once (load), what depends on no input is computed at load time, and the rest is executed node by node
(graph) with one small torch function per operator (elementwise, reductions, resize, shapes, windows).
"""

# Importing a module of operators enters them in the table.
from dualshield.hashes.external.onnx import _elementwise as elementwise
from dualshield.hashes.external.onnx import _reductions as reductions
from dualshield.hashes.external.onnx import _resize as resize
from dualshield.hashes.external.onnx import _shapes as shapes
from dualshield.hashes.external.onnx import _windows as windows
from dualshield.hashes.external.onnx._graph import OnnxModule

__all__ = ["OnnxModule", "elementwise", "reductions", "resize", "shapes", "windows"]
