"""ONNX models as torch modules: differentiable, traceable, for any batch size.

The file is read once (load), constant subgraphs are folded at load time, and the rest is executed node by node
(graph) with one small torch function per operator (elementwise, reductions, resize, shapes, windows).
"""

# Importing these modules registers their operators.
from dualshield.hashes.external.onnx import _elementwise as elementwise
from dualshield.hashes.external.onnx import _reductions as reductions
from dualshield.hashes.external.onnx import _resize as resize
from dualshield.hashes.external.onnx import _shapes as shapes
from dualshield.hashes.external.onnx import _windows as windows
from dualshield.hashes.external.onnx._graph import OnnxModule

__all__ = ["OnnxModule", "elementwise", "reductions", "resize", "shapes", "windows"]
