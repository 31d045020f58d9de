"""A hash from a file, without writing code: an ONNX or TorchScript model and a YAML card beside it.

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

A bit is 1 where its margin is above 0.
"""

from __future__ import annotations

import hashlib
import math
import re
import reprlib
import warnings
import zipfile
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
import yaml
from torch import nn

from dualshield.errors import CardError, InputError
from dualshield.hashes.contract import DEFAULT_THRESHOLD, PerceptualHash
from dualshield.images.axes import Filter
from dualshield.images.frontend import FrontEnd

FIELDS = {"name", "version", "model", "sha256", "bits", "threshold", "input", "projection", "about"}
INPUT_FIELDS = {"size", "resize_to", "filter", "colour", "mean", "std"}
MAX_CARD_BYTES = 1 << 16
MAX_CARD_DEPTH = 8
MAX_SIDE = 2048
MAX_BITS = 65536
MIN_STD = 1e-6


class Card:
    """A YAML mapping whose every access says which field of which file was wrong."""

    def __init__(self, file: Path, data: Any, known: set[str], where: str = "") -> None:
        self.file, self.where = file, where
        if not isinstance(data, dict):
            what = where or "the card: "
            raise _error(file, f"{what}expected a mapping of {', '.join(sorted(known))}, got {_shown(data)}")
        unknown = [key for key in data if key not in known]
        if unknown:
            name = unknown[0] if isinstance(unknown[0], str) else _shown(unknown[0])
            raise self.wrong(name, f"unknown field; known are {', '.join(sorted(known))}")
        self.data: dict[str, Any] = data

    def wrong(self, field: str, why: str) -> CardError:
        """The error for one field."""
        return _error(self.file, f"{self.where}{field}: {why}")

    def text(self, field: str, default: str | None = None) -> str:
        """A non-empty string."""
        value = self.data.get(field, default)
        if not isinstance(value, str) or not value:
            raise self.wrong(field, f"expected text, got {_shown(value)}")
        return value

    def whole(self, field: str, most: int) -> int:
        """An integer from 1 to ``most``."""
        value = self.data.get(field)
        if type(value) is not int or not 1 <= value <= most:
            raise self.wrong(field, f"expected a whole number from 1 to {most}, got {_shown(value)}")
        return value

    def numbers(self, field: str, default: list[float]) -> list[float]:
        """One number or a list of as many as ``default`` has."""
        value = self.data.get(field, default)
        values = value if isinstance(value, list) else [value] * len(default)
        if len(values) != len(default) or not all(_finite(v) for v in values):
            wanted = "a finite number" if len(default) == 1 else f"{len(default)} finite numbers"
            raise self.wrong(field, f"expected {wanted}, got {_shown(value)}")
        return [float(v) for v in values]

    def size(self, field: str) -> tuple[int, int]:
        """Height and width."""
        value = self.data.get(field)
        pair: list[Any] = value if isinstance(value, list) else [value, value]
        if len(pair) != 2 or not all(type(v) is int and 1 <= v <= MAX_SIDE for v in pair):
            raise self.wrong(field, f"expected [height, width] from 1 to {MAX_SIDE}, got {_shown(value)}")
        return pair[0], pair[1]

    def path(self, field: str) -> Path:
        """A file beside the card."""
        path = self.file.parent / self.text(field)
        try:
            found = path.is_file()
            folder = path.is_dir()
        except OSError as error:
            raise self.wrong(field, f"cannot read {path.name[:80]} ({error.strerror})") from error
        if not found:
            raise self.wrong(field, f"{'not a file' if folder else 'no such file'}: {path}")
        return path

    def digest(self, field: str) -> str:
        """The sha256 of a file beside the card."""
        path = self.path(field)
        try:
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise self.wrong(field, f"cannot read {path} ({error.strerror})") from error


class Projected(nn.Module):
    """``matrix (model(x) - mean)``, or the flattened output itself."""

    def __init__(self, model: nn.Module, matrix: torch.Tensor | None, mean: torch.Tensor | None, digest: str) -> None:
        super().__init__()
        self.model = model
        self.digest = digest
        self.matrix: torch.Tensor | None
        self.mean: torch.Tensor | None
        self.register_buffer("matrix", matrix)
        self.register_buffer("mean", mean)

    def extra_repr(self) -> str:
        # Engines cache what they compile by weights and repr; neither tells two graphs with equal weights apart.
        return f"sha256={self.digest}"

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.model(features).flatten(1)
        if self.mean is not None:
            out = out - self.mean
        return out if self.matrix is None else out @ self.matrix.T


def load_card(file: Path) -> PerceptualHash:
    """The hash that a card describes, tried once so that a wrong shape is found here and not later."""
    card = Card(file, _read_yaml(file), FIELDS)
    name = card.text("name")
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", name):
        raise card.wrong(
            "name", f"expected up to 64 small letters, digits, dots, dashes, underscores, got {_shown(name)}"
        )
    bits = card.whole("bits", MAX_BITS)
    threshold = card.numbers("threshold", [DEFAULT_THRESHOLD])[0]
    if not 0 <= threshold < 0.5:
        raise card.wrong("threshold", f"expected a bit error rate in [0, 0.5), got {threshold}")
    version = card.data.get("version", "1")
    if not isinstance(version, str) and not _finite(version):
        raise card.wrong("version", f"expected text, got {_shown(version)}")
    front_end = _front_end(card)
    model_path, digest = card.path("model"), card.digest("model")
    expected = card.text("sha256", digest).lower()
    if digest != expected:
        raise card.wrong("sha256", f"{model_path.name} has {digest}, the card expects {_shown(expected)}")
    matrix, mean, arrays = _projection(card, bits)
    network = Projected(_load_model(card, model_path), matrix, mean, digest)
    _try_out(card, network, front_end, bits)
    return PerceptualHash(
        name=name,
        version=str(version),
        bits=bits,
        front_end=front_end,
        network=network,
        threshold=threshold,
        about=card.text("about", f"from the card {file.name}"),
        weights={model_path.name: digest, **arrays},
    )


def _error(file: Path, why: str) -> CardError:
    """An error of one line: names in a card may hold anything."""
    return CardError("".join(c if c.isprintable() else "?" for c in f"{file}: {why}"))


def _shown(value: Any) -> str:
    """A value for an error message, however large it is."""
    short = reprlib.Repr()
    short.maxlevel, short.maxstring, short.maxother = 2, 80, 80
    try:
        return "nothing" if value is None else short.repr(value)
    except ValueError:  # an integer of more digits than Python likes to print
        return "a huge number"


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _finite(value: Any) -> bool:
    try:
        return type(value) in (int, float) and math.isfinite(float(value))
    except OverflowError:
        return False


def _read_yaml(file: Path) -> Any:
    try:
        if not file.is_file():
            raise _error(file, f"{'not a file' if file.is_dir() else 'no such file'}; give the path of a hash card")
        if file.stat().st_size > MAX_CARD_BYTES:
            raise _error(file, f"larger than {MAX_CARD_BYTES} bytes; this is not a hash card")
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise _error(file, f"cannot read the hash card ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise _error(file, "not a YAML hash card (it is not text in UTF-8)") from error
    try:
        _refuse_bombs(file, text)
        return yaml.safe_load(text)
    except CardError:
        raise
    except Exception as error:  # beside its own errors PyYAML lets through those of date, int and others
        raise _error(file, f"not a YAML hash card ({_reason(error)})") from error


def _refuse_bombs(file: Path, text: str) -> None:
    """Deep nesting exhausts the stack, and aliases make gigabytes out of a few lines; a card needs neither."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_CARD_DEPTH or isinstance(event, yaml.AliasEvent):
            line = event.start_mark.line + 1
            raise _error(file, f"line {line}: a hash card has no aliases and no deep nesting; write the value out")


def _front_end(card: Card) -> FrontEnd:
    spec = Card(card.file, card.data.get("input"), INPUT_FIELDS, "input: ")
    height, width = spec.size("size")
    colour = spec.text("colour", "rgb")
    if colour not in ("rgb", "bgr", "grey"):
        raise spec.wrong("colour", f"expected rgb, bgr or grey, got {_shown(colour)}")
    channels = 1 if colour == "grey" else 3
    kind: Any = spec.text("filter", "bilinear")
    if kind not in get_args(Filter):
        raise spec.wrong("filter", f"expected one of {', '.join(get_args(Filter))}, got {_shown(kind)}")
    mean, std = spec.numbers("mean", [0.0] * channels), spec.numbers("std", [1.0] * channels)
    if min(std) < MIN_STD:
        raise spec.wrong("std", f"expected numbers of at least {MIN_STD:g}, got {min(std):g}")
    before = spec.size("resize_to") if "resize_to" in spec.data else (height, width)
    if before[0] < height or before[1] < width:
        raise spec.wrong("resize_to", f"{list(before)} is smaller than the size {[height, width]} to be cut from it")
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
        raise _error(card.file, f"input: {error}") from error


def _load_model(card: Card, path: Path) -> nn.Module:
    if path.suffix.lower() == ".onnx":
        from dualshield.hashes.onnx import OnnxModule

        try:
            return OnnxModule(path)
        except CardError as error:
            raise card.wrong("model", str(error)) from error
    # torch.jit.load reads nothing but archives; a bare pickle would reach it as an obscure error at best.
    if not zipfile.is_zipfile(path):
        raise card.wrong("model", f"{path.name} is neither an .onnx file nor a whole TorchScript archive")
    try:
        with warnings.catch_warnings():
            # TorchScript is deprecated for writing new models; it remains what existing ones are shipped in.
            warnings.filterwarnings("ignore", r"`torch\.jit\.load` is deprecated", DeprecationWarning)
            model: nn.Module = torch.jit.load(str(path), map_location="cpu")  # type: ignore[no-untyped-call]
    except Exception as error:  # the reader raises almost anything on damaged data
        raise card.wrong("model", f"{path.name} is not a readable TorchScript file ({_reason(error)})") from error
    return model


def _projection(card: Card, bits: int) -> tuple[torch.Tensor | None, torch.Tensor | None, dict[str, str]]:
    """Matrix and mean, if the card has them, and the sha256 of their files."""
    data = card.data.get("projection")
    if data is None:
        return None, None, {}
    spec = Card(card.file, data, {"matrix", "mean"}, "projection: ")
    matrix = _read_array(spec, "matrix")
    if matrix.ndim != 2 or matrix.shape[0] != bits:
        raise spec.wrong("matrix", f"expected shape ({bits}, outputs of the model), got {tuple(matrix.shape)}")
    mean = None
    if "mean" in spec.data:
        mean = _read_array(spec, "mean").reshape(-1)
        if mean.shape[0] != matrix.shape[1]:
            raise spec.wrong("mean", f"{mean.shape[0]} numbers for a matrix of {matrix.shape[1]} columns")
    return matrix, mean, {spec.path(field).name: spec.digest(field) for field in spec.data}


def _read_array(spec: Card, field: str) -> torch.Tensor:
    path = spec.path(field)
    try:
        with path.open("rb") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
        # By way of native float64: torch knows neither other byte orders nor long doubles.
        numbers = array.astype(np.float64) if array.dtype.kind in "fiu" else np.array(np.nan)
    except Exception as error:  # a damaged header raises almost anything
        raise spec.wrong(field, f"{path.name} is not a .npy array of numbers ({_reason(error)})") from error
    tensor = torch.tensor(numbers, dtype=torch.float32)
    if not torch.isfinite(tensor).all():
        raise spec.wrong(field, f"{path.name} does not hold finite numbers")
    return tensor


def _try_out(card: Card, network: nn.Module, front_end: FrontEnd, bits: int) -> None:
    shape = front_end.shape
    try:
        with torch.inference_mode():
            margins = network.eval()(torch.full((2, *shape), 0.5))
    except Exception as error:
        # TorchScript puts a trace in front of what went wrong.
        reason = next(iter(str(error).strip().splitlines()[-1:]), type(error).__name__)[:200]
        raise card.wrong("model", f"it does not run on an input of shape {shape} ({reason})") from error
    if tuple(margins.shape) != (2, bits):
        raise card.wrong("bits", f"the model gives {tuple(margins.shape[1:])} outputs per image, expected {bits}")
    if not torch.isfinite(margins).all():
        raise card.wrong("model", "it gives NaN or infinity on a grey image")
