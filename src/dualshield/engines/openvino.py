"""The OpenVINO engine: the fastest forward pass on a CPU."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import sys
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from dualshield._common.extras import require_extra
from dualshield._common.folders import cache_folder
from dualshield.engines.engine import Reads, network_after
from dualshield.errors import InputError
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.frontend import Expansion

logger = logging.getLogger(__name__)

# Streams compute different batches in parallel, which scales better than many threads on one small batch. Few
# streams, because batches still in flight when a sequential test stops are wasted.
MAX_STREAMS = 4


class OpenVinoEngine:
    """Runs the network compiled by OpenVINO for the CPU, in float32; compared with torch on creation."""

    name = "openvino"

    def __init__(self, hash_: PerceptualHash, batch_size: int, *, reads: Reads = "core") -> None:
        ov = openvino_runtime()
        self.batch_size = batch_size
        self.reads = reads
        front_end = hash_.front_end
        self._shape = (self.batch_size, *(front_end.core_shape if reads == "core" else front_end.shape))
        runtime = ov.Core()
        file = cache_file(hash_, ov.__version__, batch_size)
        cached = read_cached(runtime, file)
        if (cached is None or not self._compile(runtime, cached, hash_)) and not self._compile(
            runtime, _convert(ov, hash_, file, batch_size), hash_
        ):
            raise InputError(f"hash {hash_.name}: OpenVINO does not reproduce torch's margins; use engine torch")

    def _compile(self, runtime: Any, model: Any, hash_: PerceptualHash) -> bool:
        """Compile the model; return whether its margins agree with torch's."""
        if self.reads == "core":
            _prepend(model, hash_.front_end.expansion(), self._shape)
        streams = min(MAX_STREAMS, torch.get_num_threads())
        self._in_flight = streams + 1
        self._model = runtime.compile_model(model, "CPU", options(streams))
        self._idle: list[Any] = []
        probe = torch.linspace(-30, 30, math.prod(self._shape[1:])).sin().view(1, *self._shape[1:])
        with torch.inference_mode():
            expected: torch.Tensor = network_after(self.reads, hash_).to("cpu")(probe)
        found = next(self.run([probe]))
        tolerance = 1e-3 * float(expected.abs().max()) + 1e-6
        return found.shape == expected.shape and float((found - expected).abs().max()) <= tolerance

    def run(self, batches: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
        waiting: deque[tuple[Any, int]] = deque()
        try:
            for batch in batches:
                if len(waiting) == self._in_flight:
                    yield self._collect(waiting)
                # Two runs may interleave (paired noise), so a request belongs to one batch until collected.
                request = self._idle.pop() if self._idle else self._model.create_infer_request()
                request.start_async({0: self._padded(batch)})
                waiting.append((request, len(batch)))
            while waiting:
                yield self._collect(waiting)
        finally:
            # If the consumer stops early, requests are in flight; they must finish before they are reused.
            while waiting:
                self._collect(waiting)

    def _padded(self, batch: torch.Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
        missing = self.batch_size - len(batch)
        if missing:
            batch = torch.cat([batch, batch.new_zeros(missing, *self._shape[1:])])
        return np.ascontiguousarray(batch.numpy(), dtype=np.float32)

    def _collect(self, waiting: deque[tuple[Any, int]]) -> torch.Tensor:
        request, count = waiting.popleft()
        request.wait()
        margins = torch.from_numpy(request.get_output_tensor(0).data[:count].copy())
        self._idle.append(request)
        return margins


def openvino_runtime() -> Any:
    """Import OpenVINO with its telemetry disabled."""
    # OpenVINO reports imports and conversions to an analytics service if its telemetry package is installed.
    # Hide that package for privacy: OpenVINO then uses its own stub, which sends nothing.
    sys.modules.setdefault("openvino_telemetry", cast(Any, None))
    with require_extra("openvino", "engine openvino", otherwise="use engine torch"):
        import openvino
    return openvino


def options(streams: int) -> dict[str, Any]:
    """Return the OpenVINO options for compiling a network."""
    return {
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": streams,
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),  # the same setting as for torch
        # With pinning, the threads of several processes would all run on the first cores.
        "ENABLE_CPU_PINNING": False,
    }


def _prepend(model: Any, expansion: Expansion, shape: tuple[int, ...]) -> None:
    """Prepend the expansion to a converted network, so that only small cores are passed to OpenVINO."""
    from openvino import opset13 as ops

    rows, cols, colour, offset = (ops.constant(t.numpy()) for t in expansion.buffers())
    cores = ops.parameter(list(shape), np.float32, name="core")
    mixed = ops.einsum([colour, cores], "ck,bkhw->bchw")
    image = ops.matmul(ops.matmul(rows, mixed, False, False), cols, False, True)
    features = model.get_parameters()[0]
    features.output(0).replace(ops.add(image, offset).output(0))
    model.remove_parameter(features)
    model.add_parameters([cores])
    model.validate_nodes_and_infer_types()


def read_cached(runtime: Any, file: Path) -> Any:
    """Return the cached model of an earlier run, or None if there is none or it is damaged."""
    try:
        return runtime.read_model(file) if file.exists() else None
    except RuntimeError as error:
        logger.info("ignoring the cached model %s: %s", file.name, error)
        return None


def _convert(ov: Any, hash_: PerceptualHash, file: Path, batch_size: int) -> Any:
    # Only for this batch size: tracing an ONNX graph may turn its sizes into constants.
    shape = (batch_size, *hash_.front_end.shape)
    network = hash_.network.to("cpu")
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # tracing warns about shapes, which are constant here
        try:
            model = ov.convert_model(network, example_input=torch.zeros(shape), input=[shape])
        except Exception as error:
            reason = str(error).strip().splitlines()[-1].strip(" -")[:200]
            raise InputError(f"hash {hash_.name}: OpenVINO cannot convert it ({reason}); use engine torch") from error
    keep(ov, model, file)
    return model


def keep(ov: Any, model: Any, file: Path) -> None:
    """Cache a converted model; log and continue if it cannot be written."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # Write to a temporary file first, so that an interrupted run leaves no partial model.
        partial = file.with_name(f"{file.stem}.{os.getpid()}.xml")
        ov.save_model(model, partial, compress_to_fp16=False)
        partial.with_suffix(".bin").replace(file.with_suffix(".bin"))
        partial.replace(file)
    except OSError as error:
        logger.info("cannot cache the converted model: %s", error)


def cache_file(hash_: PerceptualHash, ov_version: str, batch_size: int, kind: str = "") -> Path:
    """Return the cache file of the converted network (or its ``kind``); the name is a digest of all it depends on."""
    digest = hashlib.sha256()
    for part in (
        hash_.name,
        hash_.version,
        str((batch_size, *hash_.front_end.shape)),
        repr(hash_.network),
        str(sorted(hash_.weights.items())),  # distinguishes two ONNX graphs with equal tensors
        torch.__version__,
        ov_version,
        *([kind] if kind else []),
    ):
        digest.update(part.encode() + b"\0")
    for name, tensor in hash_.network.state_dict().items():
        digest.update(name.encode() + np.ascontiguousarray(tensor.cpu().numpy()).tobytes())
    return cache_folder() / "engines" / f"{hash_.name}-{digest.hexdigest()[:24]}.xml"
