"""OnnxModule: executes the graph node by node; a trial run decides whether images can share a batch."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from dualshield.errors import CardError
from dualshield.hashes.external.onnx._node import OPERATORS, Node, OperatorError, numbers, sizes
from dualshield.hashes.external.onnx.load import ADVICE, first_line, input_of, nodes_of, read_model, refusal, tensor_of

# Image sides to try for a model that does not fix its input size.
TRIAL_SIDES = (64, 224, 256, 299, 384)
PROBE_BATCH = 3
PROBE_TOLERANCE = 1e-4


class OnnxModule(torch.nn.Module):
    """An ONNX graph executed node by node in torch; differentiable, any batch size.

    The first dimension of the input and of the result is the batch. `batched` says whether a whole
    batch runs at once; a model that would mix the images of a batch runs them one by one.
    """

    input_name: str
    input_shape: tuple[int | None, ...]
    batched: bool
    _kind: Tensor

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self._path = Path(path)
        model = read_model(self._path)
        self.input_name, self.input_shape, dtype = input_of(self._path, model)
        # An empty buffer that follows .to(), .half() and .double(), to track the dtype of the weights.
        self.register_buffer("_kind", torch.empty(0, dtype=dtype), persistent=False)
        self._output: str = model.graph.output[0].name
        self._constants: dict[str, Tensor] = {}
        self._buffer_of: dict[str, str] = {}
        nodes = nodes_of(self._path, model, self._output)
        needed = {name for node in nodes for name in node.inputs}
        for tensor in model.graph.initializer:
            if tensor.name in needed:
                self._keep(tensor.name, tensor_of(self._path, tensor))
        self._nodes = self._fold(nodes)
        self._spent = self._last_uses()
        self._wide = self._widening_candidates()
        with torch.no_grad():
            self.batched = self._probe()

    def forward(self, features: Tensor) -> Tensor:
        """Return the first output of the graph for a batch of inputs, one row per input."""
        if not torch.jit.is_tracing():  # type: ignore[attr-defined,no-untyped-call]
            return self._forward(features)
        with warnings.catch_warnings():
            # A trace has a fixed shape, so sizes are meant to become constants.
            warnings.simplefilter("ignore", torch.jit.TracerWarning)  # type: ignore[attr-defined]
            return self._forward(features)

    def _forward(self, features: Tensor) -> Tensor:
        shape = sizes(features)
        fits = len(shape) == len(self.input_shape) and all(
            want in (None, got) for want, got in zip(self.input_shape[1:], shape[1:], strict=True)
        )
        if not fits:
            wanted = ", ".join(str(size or "any") for size in ("batch", *self.input_shape[1:]))
            raise refusal(self._path, f"the model takes inputs of shape ({wanted}), not {tuple(shape)}")
        features = features.to(self._kind.dtype)
        if shape[0] == 0:
            return self._forward(features.new_zeros([1, *shape[1:]]))[:0]
        if self.batched and shape[0] > 1:
            return self._run(features)
        return _joined([self._run(image) for image in torch.split(features, 1)])

    def _run(self, features: Tensor, learned: set[int] | None = None) -> Tensor:
        """Execute the graph; `learned` collects the nodes that had to be widened."""
        values = {self.input_name: features}
        batch = int(features.shape[0])
        for index, node in enumerate(self._nodes):
            args = [self._value(name, values) for name in node.inputs]
            if batch > 1 and index in self._wide and _widen(node, args, batch) and learned is not None:
                learned.add(index)
            values.update(self._call(node, args))
            for name in self._spent[index]:
                del values[name]
        return values[self._output]

    def _value(self, name: str, values: dict[str, Tensor]) -> Tensor | None:
        if not name:
            return None
        if name in values:
            return values[name]
        return self._buffers[self._buffer_of[name]] if name in self._buffer_of else self._constants[name]

    def _call(self, node: Node, args: list[Tensor | None]) -> dict[str, Tensor]:
        try:
            result = OPERATORS[node.op](node, *args)
            results = [result] if isinstance(result, Tensor) else list(result)
            if len(results) < len(node.outputs):
                raise ValueError(f"gives {len(results)} outputs, not {len(node.outputs)}")
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            reason = first_line(error)
            advice = f"; {ADVICE}" if isinstance(error, OperatorError) else ""
            raise refusal(self._path, f"node {node.name} ({node.op}): {reason}{advice}") from error
        return {name: value for name, value in zip(node.outputs, results, strict=False) if name}

    def _keep(self, name: str, value: Tensor) -> None:
        """Store a constant: floats as buffers, which move with the module; the rest in main memory."""
        if not value.is_floating_point():
            self._constants[name] = value
            return
        self._buffer_of[name] = f"value_{len(self._buffer_of)}"
        self.register_buffer(self._buffer_of[name], value)

    def _fold(self, nodes: list[Node]) -> list[Node]:
        """Compute the nodes that do not depend on the input, and return the others."""
        left, known = [], {"", *self._constants, *self._buffer_of}
        for node in nodes:
            if not known.issuperset(node.inputs):
                left.append(node)
                continue
            with torch.no_grad():
                results = self._call(node, [self._value(name, {}) for name in node.inputs])
            for name, value in results.items():
                self._keep(name, value)
                known.add(name)
        used = {name for node in left for name in node.inputs}
        if not left or self.input_name not in used:
            raise refusal(self._path, "the output does not depend on the input")
        self._constants = {name: value for name, value in self._constants.items() if name in used}
        for name in [name for name in self._buffer_of if name not in used]:
            delattr(self, self._buffer_of.pop(name))
        return left

    def _last_uses(self) -> list[list[str]]:
        """Return for each node the values that are not needed after it."""
        seen, spent = {self._output}, []
        for node in reversed(self._nodes):
            here = {name for name in (*node.inputs, *node.outputs) if name} - seen
            spent.append([n for n in here if n not in self._constants and n not in self._buffer_of])
            seen |= here
        return spent[::-1]

    def _widening_candidates(self) -> frozenset[int]:
        """Return the nodes on the path of the image data that may have a batch size of 1 built in."""
        found, data = set(), {self.input_name}
        for index, node in enumerate(self._nodes):
            if node.op == "Shape" or data.isdisjoint(node.inputs):
                continue
            data.update(node.outputs)
            if node.op == "Concat" or (node.op in ("Reshape", "Resize") and node.inputs[0] in data):
                found.add(index)
        return frozenset(found) if self.input_shape[0] == 1 else frozenset()

    def _probe(self) -> bool:
        """Run the model once; return whether a batch gives the same results as its images alone."""
        failure: CardError | None = None
        for shape in self._trial_shapes():
            generator = torch.Generator().manual_seed(20)
            images = torch.rand([PROBE_BATCH, *shape], generator=generator, dtype=torch.float64)
            # Images of different brightness, because some models cannot distinguish plain noise images.
            powers = torch.tensor([1.0, 3.0, 1 / 3]).reshape([PROBE_BATCH] + [1] * len(shape))
            images = images.pow(powers).to(self._kind.dtype)
            try:
                alone = _joined([self._run(image) for image in torch.split(images, 1)])
            except CardError as error:
                failure = failure or error
                if isinstance(error.__cause__, OperatorError):
                    raise
                continue
            return self._agrees(images, alone)
        if failure is not None and None not in self.input_shape[1:]:
            if self.input_shape[0] not in (None, 1):
                hint = f"it declares a batch of {self.input_shape[0]}, export it for a batch of any size"
                raise CardError(f"{failure}; {hint}") from failure
            raise failure
        return False

    def _trial_shapes(self) -> Iterator[list[int]]:
        inner = self.input_shape[1:]
        for side in TRIAL_SIDES if None in inner else TRIAL_SIDES[:1]:
            # An unknown first size before others is taken for the colour channels.
            yield [size or (3 if i == 0 and len(inner) > 2 else side) for i, size in enumerate(inner)]

    def _agrees(self, images: Tensor, alone: Tensor) -> bool:
        learned: set[int] = set()
        try:
            batch = self._run(images, learned)
        except CardError:
            return False
        self._wide = frozenset(learned)
        if batch.shape != alone.shape or not alone.numel():
            return False
        batch, alone = (result.double().reshape(PROBE_BATCH, -1) for result in (batch, alone))
        allowed = PROBE_TOLERANCE * alone.abs().amax(1)
        # If the results were equal, a model that mixes its images would go unnoticed.
        unlike = (alone - alone.roll(1, 0)).abs().amax(1)
        return bool(((batch - alone).abs().amax(1) <= allowed).all() and (unlike > 10 * allowed).all())


def _joined(results: list[Tensor]) -> Tensor:
    """Join the results of single runs, whether or not the model keeps the batch dimension."""
    if results[0].dim() and int(results[0].shape[0]) == 1:
        return torch.cat(results)
    return torch.stack(results)


def _widen(node: Node, args: list[Tensor | None], batch: int) -> bool:
    """Adapt a node that was exported for one image to a batch; return whether that was needed."""
    if node.op == "Concat":
        parts = [part for part in args if part is not None]
        counts = {int(part.shape[0]) if part.dim() else 0 for part in parts}
        if counts != {1, batch} or node.integer("axis", 0) % parts[0].dim() == 0:
            return False
        args[:] = [part.expand(batch, *sizes(part)[1:]) for part in parts]
        return True
    data, position = args[0], 1 if node.op == "Reshape" else 3
    target = numbers(args[position]) if len(args) > position else []
    if data is None or target[:1] != [1] or sizes(data)[:1] != [batch] or "axes" in node.attrs:
        return False
    args[position] = torch.tensor([batch, *target[1:]], dtype=torch.int64)
    return True
