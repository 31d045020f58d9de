"""Hashes without code: a YAML card that describes an ONNX or TorchScript model, or a program.

    name: my-hash
    version: "1"
    model: model.onnx            # or a TorchScript .pt; paths are relative to the card
    sha256: 3f2a…                # optional: refuse any other model file
    bits: 96
    threshold: 0.2               # optional bit error rate
    input:
      size: [224, 224]           # height, width that the model takes
      resize_to: [256, 256]      # optional: resize to this, then crop the centre
      filter: bilinear           # optional: box, bilinear, bicubic, lanczos
      colour: rgb                # optional: rgb, bgr, grey
      mean: [0.485, 0.456, 0.406]   # optional, of pixels in [0, 1]
      std: [0.229, 0.224, 0.225]    # optional
    projection:                  # optional: margins = matrix (output - mean)
      matrix: pca.npy            # (bits, outputs)
      mean: means.npy            # optional, (outputs,)

A bit is 1 if its margin is above 0.

A program (command.py) has ``command`` in place of model, sha256, input and projection:

    name: their-hash
    bits: 64
    command: [./phash, "{file}"]  # program and arguments, no shell; without {file} the PNG is sent to standard input
    timeout: 10                  # optional, seconds per image
    side: 256                    # optional: width and height of the PNG; default 512

Relative paths are relative to the card: a program with a slash in it, and arguments that begin with ./ or ../. Such a
card runs the program with your rights: use only cards that you trust.
"""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import nn

from dualshield.errors import CardError, InputError
from dualshield.hashes.external._card_fields import Card, card_error, is_finite, read_yaml, reason, shown
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.hashes.threshold import DEFAULT_THRESHOLD
from dualshield.images.axes import Filter
from dualshield.images.frontend import FrontEnd
from dualshield.images.space import CANONICAL_SIZE
from dualshield.weights.numpy_files import read_numbers

COMMON_FIELDS = {"name", "version", "bits", "threshold", "about"}
MODEL_FIELDS = COMMON_FIELDS | {"model", "sha256", "input", "projection"}
COMMAND_FIELDS = COMMON_FIELDS | {"command", "timeout", "side"}
INPUT_FIELDS = {"size", "resize_to", "filter", "colour", "mean", "std"}
MAX_BITS = 65536
MIN_STD = 1e-6


class Projected(nn.Module):
    """``matrix (model(x) - mean)``, or the flattened output itself."""

    def __init__(self, model: nn.Module, matrix: torch.Tensor | None, mean: torch.Tensor | None) -> None:
        super().__init__()
        self.model = model
        self.matrix: torch.Tensor | None
        self.mean: torch.Tensor | None
        self.register_buffer("matrix", matrix)
        self.register_buffer("mean", mean)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.model(features).flatten(1)
        if self.mean is not None:
            out = out - self.mean
        return out if self.matrix is None else out @ self.matrix.T


def runs_code(file: Path) -> bool:
    """Return whether a card runs a program or a TorchScript model, with the rights of the user; ONNX is only data."""
    data = read_yaml(file)
    return not isinstance(data, dict) or "command" in data or not _is_onnx(Path(str(data.get("model"))))


def _is_onnx(path: Path) -> bool:
    return path.suffix.lower() == ".onnx"


def load_card(file: Path) -> PerceptualHash:
    """Return the hash that a card describes, after a trial run that finds wrong shapes early."""
    data = read_yaml(file)
    is_command = isinstance(data, dict) and "command" in data
    card = Card(file, data, COMMAND_FIELDS if is_command else MODEL_FIELDS)
    name = card.text("name")
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", name):
        raise card.wrong(
            "name", f"expected up to 64 lower-case letters, digits, dots, dashes, underscores, got {shown(name)}"
        )
    bits = card.whole("bits", MAX_BITS)
    threshold = card.numbers("threshold", [DEFAULT_THRESHOLD])[0]
    if not 0 <= threshold < 0.5:
        raise card.wrong("threshold", f"expected a bit error rate in [0, 0.5), got {threshold}")
    version = card.data.get("version", "1")
    if not isinstance(version, str) and not is_finite(version):
        raise card.wrong("version", f"expected text, got {shown(version)}")
    about = card.text("about", f"from the card {file.name}")
    if is_command:
        return _load_command(card, name=name, version=str(version), bits=bits, threshold=threshold, about=about)
    front_end = _front_end(card)
    model_path, digest = card.path("model"), card.digest("model")
    expected = card.text("sha256", digest).lower()
    if digest != expected:
        raise card.wrong(
            "sha256",
            f"{model_path.name} has {digest}, the card expects {shown(expected)}; replace one of them",
        )
    matrix, mean, arrays = _projection(card, bits)
    network = Projected(_load_model(card, model_path), matrix, mean)
    _try_out(card, network, front_end, bits)
    return PerceptualHash(
        name=name,
        version=str(version),
        bits=bits,
        front_end=front_end,
        network=network,
        threshold=threshold,
        about=about,
        weights=_by_name([("model", model_path, digest), *arrays]),
    )


def _load_command(card: Card, *, name: str, **options: Any) -> PerceptualHash:
    from dualshield.hashes.external.command import MAX_TIMEOUT, TIMEOUT, command_hash

    parts = card.data["command"]
    if not isinstance(parts, list) or not parts or not all(isinstance(part, str) and part for part in parts):
        raise card.wrong("command", f"expected a list of program and arguments, got {shown(parts)}")
    timeout = card.numbers("timeout", [TIMEOUT])[0]
    if not 0 < timeout <= MAX_TIMEOUT:
        raise card.wrong("timeout", f"expected seconds up to {MAX_TIMEOUT:g}, got {timeout:g}")
    side = card.whole("side", CANONICAL_SIZE) if "side" in card.data else CANONICAL_SIZE
    command, files = list(parts), []
    for i, part in enumerate(parts):
        if part.startswith(("./", "../")) or (i == 0 and "/" in part):
            path = card.beside(part, "command")
            command[i] = str(path.absolute())
            files.append((f"argument {i}", path, card.digest_of(path, "command")))
    return command_hash(command, name=name, timeout=timeout, side=side, weights=_by_name(files), **options)


def _by_name(files: Iterable[tuple[str, Path, str]]) -> dict[str, str]:
    """Return digests by file name; a repeated name is prefixed with its role."""
    found: dict[str, str] = {}
    for role, path, digest in files:
        found[path.name if path.name not in found else f"{role}: {path.name}"] = digest
    return found


def _front_end(card: Card) -> FrontEnd:
    spec = Card(card.file, card.data.get("input"), INPUT_FIELDS, "input: ")
    height, width = spec.size("size")
    colour = spec.text("colour", "rgb")
    if colour not in ("rgb", "bgr", "grey"):
        raise spec.wrong("colour", f"expected rgb, bgr or grey, got {shown(colour)}")
    channels = 1 if colour == "grey" else 3
    kind: Any = spec.text("filter", "bilinear")
    if kind not in get_args(Filter):
        raise spec.wrong("filter", f"expected one of {', '.join(get_args(Filter))}, got {shown(kind)}")
    mean, std = spec.numbers("mean", [0.0] * channels), spec.numbers("std", [1.0] * channels)
    if min(std) < MIN_STD:
        raise spec.wrong("std", f"expected numbers of at least {MIN_STD:g}, got {min(std):g}")
    before = spec.size("resize_to") if "resize_to" in spec.data else (height, width)
    if before[0] < height or before[1] < width:
        raise spec.wrong("resize_to", f"{list(before)} is smaller than the size {[height, width]} to crop from it")
    try:
        front_end = FrontEnd.identity().resize(*before, kind)
        if before != (height, width):
            front_end = front_end.centre_crop(height, width)
        if colour == "grey":
            front_end = front_end.grey()
        elif colour == "bgr":
            front_end = front_end.mix(np.eye(3)[::-1])
        return front_end.normalise(mean, std)
    except InputError as error:
        raise card_error(card.file, f"input: {error}") from error


def _load_model(card: Card, path: Path) -> nn.Module:
    if _is_onnx(path):
        from dualshield.hashes.external.onnx import OnnxModule

        try:
            return OnnxModule(path)
        except CardError as error:
            raise card.wrong("model", str(error)) from error
    # torch.jit.load reads only archives; its error for a bare pickle would be obscure at best.
    if not zipfile.is_zipfile(path):
        raise card.wrong("model", f"{path.name} is neither an .onnx file nor a whole TorchScript archive")
    try:
        with warnings.catch_warnings():
            # TorchScript is deprecated for new models, but existing models still use it.
            warnings.filterwarnings("ignore", r"`torch\.jit\.load` is deprecated", DeprecationWarning)
            model: nn.Module = torch.jit.load(str(path), map_location="cpu")  # type: ignore[no-untyped-call]
    except Exception as error:  # the reader raises almost anything on damaged data
        raise card.wrong("model", f"{path.name} is not a readable TorchScript file ({reason(error)})") from error
    return model


def _projection(card: Card, bits: int) -> tuple[torch.Tensor | None, torch.Tensor | None, list[tuple[str, Path, str]]]:
    """Return matrix and mean, if the card has them, and the sha256 of their files."""
    data = card.data.get("projection")
    if data is None:
        return None, None, []
    spec = Card(card.file, data, {"matrix", "mean"}, "projection: ")
    matrix = _read_array(spec, "matrix")
    if matrix.ndim != 2 or matrix.shape[0] != bits:
        raise spec.wrong("matrix", f"expected shape ({bits}, outputs of the model), got {tuple(matrix.shape)}")
    mean = None
    if "mean" in spec.data:
        mean = _read_array(spec, "mean").reshape(-1)
        if mean.shape[0] != matrix.shape[1]:
            raise spec.wrong("mean", f"{mean.shape[0]} numbers for a matrix of {matrix.shape[1]} columns")
    return matrix, mean, [(field, spec.path(field), spec.digest(field)) for field in sorted(spec.data)]


def _read_array(spec: Card, field: str) -> torch.Tensor:
    path = spec.path(field)
    try:
        with path.open("rb") as file:
            tensor = read_numbers(file)
    except Exception as error:  # a damaged header raises almost anything
        why = f"{path.name} is not a .npy array of numbers ({reason(error)}); write it with numpy.save"
        raise spec.wrong(field, why) from error
    if not torch.isfinite(tensor).all():
        raise spec.wrong(field, f"{path.name} holds numbers that are not finite in float32; replace them")
    return tensor


def _try_out(card: Card, network: nn.Module, front_end: FrontEnd, bits: int) -> None:
    shape = front_end.shape
    try:
        with torch.inference_mode():
            margins = network.eval()(torch.full((2, *shape), 0.5))
    except Exception as error:
        # TorchScript puts a trace before the actual error.
        last = next(iter(str(error).strip().splitlines()[-1:]), type(error).__name__)[:200]
        raise card.wrong("model", f"it does not run on an input of shape {shape} ({last})") from error
    if tuple(margins.shape) != (2, bits):
        raise card.wrong("bits", f"the model returns {tuple(margins.shape[1:])} outputs per image, expected {bits}")
    if not torch.isfinite(margins).all():
        raise card.wrong("model", "it returns NaN or infinity for a grey image")
