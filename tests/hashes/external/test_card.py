"""Hash cards: margins against plain torch, both engines, and every way a card can be wrong."""

from __future__ import annotations

import hashlib
import pickle
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import yaml
from onnx.helper import make_node

from dualshield.engines.openvino import cache_file
from dualshield.errors import CardError
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.hashes.external._card_fields import MAX_CARD_BYTES
from dualshield.hashes.external.card import load_card
from dualshield.images import CanonicalImage
from dualshield.smoothing.deploy import deploy

BITS, SIDE = 16, 12
LUMA = torch.tensor([0.299, 0.587, 0.114])


class Net(torch.nn.Module):
    """A convolution, a bend and a linear layer without bias: tiny, but like a network."""

    def __init__(self, channels: int, outputs: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(channels)
        self.kernel = torch.nn.Parameter(torch.randn(4, channels, 3, 3, generator=generator) / 3)
        weight = torch.randn(outputs, 4 * (SIDE - 2) ** 2, generator=generator) / SIDE
        self.weight = torch.nn.Parameter(weight - weight.mean(1, keepdim=True))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.leaky_relu(F.conv2d(x, self.kernel), 0.1).flatten(1) @ self.weight.T


Model = Callable[[Path, Net], Path]


def save_script(path: Path, module: torch.nn.Module, channels: int = 3) -> Path:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`torch\.jit\.\w+` is deprecated", DeprecationWarning)
        traced = torch.jit.trace(module, torch.rand(2, channels, SIDE, SIDE))  # type: ignore[no-untyped-call]
    traced.save(str(path))
    return path


@pytest.fixture(params=["onnx", "torchscript"])
def save(request: pytest.FixtureRequest, write_onnx: Callable[..., Path]) -> Model:
    """Write a Net in one of the two formats."""

    def save_onnx(folder: Path, net: Net) -> Path:
        nodes = [
            make_node("Conv", ["x", "k"], ["a"]),
            make_node("LeakyRelu", ["a"], ["b"], alpha=0.1),
            make_node("Flatten", ["b"], ["c"]),
            make_node("Gemm", ["c", "w"], ["y"], transB=1),
        ]
        weights = {"k": net.kernel.detach().numpy(), "w": net.weight.detach().numpy()}
        return write_onnx(folder / "model.onnx", nodes, [1, net.kernel.shape[1], SIDE, SIDE], weights)

    def save_torchscript(folder: Path, net: Net) -> Path:
        return save_script(folder / "model.pt", net, net.kernel.shape[1])

    return save_onnx if request.param == "onnx" else save_torchscript


def write_card(folder: Path, file: Path, **fields: Any) -> Path:
    card = {"name": "mine", "model": file.name, "bits": BITS, "input": {"size": [SIDE, SIDE]}, **fields}
    path = folder / "card.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in card.items() if value is not ...}))
    return path


def resized(pixels: torch.Tensor, height: int, width: int, mode: str = "bilinear") -> torch.Tensor:
    return F.interpolate(pixels, (height, width), mode=mode, antialias=True)


def check(hash_: PerceptualHash, expected: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Margins as computed directly, and a gradient that is the direct one."""
    pixels = torch.rand(2, 3, 512, 512, generator=torch.Generator().manual_seed(1))
    mine, direct = pixels.clone().requires_grad_(), pixels.clone().requires_grad_()
    got, want = hash_.margins(mine), expected(direct)
    assert got.shape == (2, hash_.bits)
    assert torch.allclose(got, want, atol=1e-4)
    got.square().sum().backward()  # type: ignore[no-untyped-call]
    want.square().sum().backward()  # type: ignore[no-untyped-call]
    assert mine.grad is not None
    assert direct.grad is not None
    assert mine.grad.abs().sum() > 0
    assert torch.allclose(mine.grad, direct.grad, atol=1e-4 * float(direct.grad.abs().max()))


# -- cards that work ------------------------------------------------------------------------------


def test_plain_card(tmp_path: Path, save: Model) -> None:
    net = Net(3, BITS)
    model = save(tmp_path, net)
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    card = write_card(tmp_path, model, sha256=digest.upper(), version=2, threshold=0.25, about="tiny")
    hash_ = get_hash(str(card))
    assert (hash_.name, hash_.version, hash_.bits, hash_.threshold, hash_.about) == ("mine", "2", BITS, 0.25, "tiny")
    assert hash_.weights == {model.name: digest}
    check(hash_, lambda pixels: net(resized(pixels, SIDE, SIDE)))


def test_crop_bgr_mean_std(tmp_path: Path, save: Model) -> None:
    net, mean, std = Net(3, BITS), [0.4, 0.5, 0.6], [0.2, 0.25, 0.3]
    front = {"size": SIDE, "resize_to": [18, 16], "filter": "bicubic", "colour": "bgr", "mean": mean, "std": std}

    def expected(pixels: torch.Tensor) -> torch.Tensor:
        cut = resized(pixels, 18, 16, "bicubic")[:, :, 3:15, 2:14].flip(1)
        return net((cut - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1))  # type: ignore[no-any-return]

    check(load_card(write_card(tmp_path, save(tmp_path, net), input=front)), expected)


@pytest.mark.parametrize("with_mean", [True, False])
def test_grey_and_projection(with_mean: bool, tmp_path: Path, save: Model) -> None:
    net = Net(1, 6)
    generator = torch.Generator().manual_seed(3)
    matrix, mean = torch.randn(BITS, 6, generator=generator), torch.randn(6, generator=generator)
    np.save(tmp_path / "matrix.npy", matrix.numpy())
    np.save(tmp_path / "mean.npy", mean.double().numpy().astype(">f8"))  # any byte order will do
    projection = {"matrix": "matrix.npy", **({"mean": "mean.npy"} if with_mean else {})}
    front = {"size": [SIDE, SIDE], "colour": "grey", "mean": 0.5, "std": 0.5}

    def expected(pixels: torch.Tensor) -> torch.Tensor:
        grey = (resized(pixels, SIDE, SIDE) * LUMA.view(3, 1, 1)).sum(1, keepdim=True)
        return (net((grey - 0.5) / 0.5) - (mean if with_mean else 0)) @ matrix.T  # type: ignore[no-any-return]

    hash_ = load_card(write_card(tmp_path, save(tmp_path, net), input=front, projection=projection))
    check(hash_, expected)
    assert hash_.weights["matrix.npy"] == hashlib.sha256((tmp_path / "matrix.npy").read_bytes()).hexdigest()


def test_both_engines_decide_alike(tmp_path: Path, save: Model, photos: list[CanonicalImage]) -> None:
    hash_ = get_hash(str(write_card(tmp_path, save(tmp_path, Net(3, BITS)))))
    decisions = []
    for engine in ("torch", "openvino"):
        deployment = deploy(hash_, sigma=0.2, n=200, engine=engine)
        reference = deployment.enroll(photos[0])
        results = [deployment.match(reference, photo) for photo in photos[:2]]
        decisions.append([str(result.decision.value) for result in results])
        assert [result.member.engine for result in results] == [engine, engine]
    assert decisions[0][0] == "match"
    assert decisions[0] == decisions[1]


def test_engines_tell_models_with_equal_weights_apart(tmp_path: Path, write_onnx: Callable[..., Path]) -> None:
    """Two graphs with the same tensors and the same repr must not share a converted model."""
    seen = set()
    for top in (5.0, 6.0):
        nodes = [make_node("Clip", ["x", "", "top"], ["c"]), make_node("ReduceMean", ["c"], ["y"], axes=[2, 3])]
        model = write_onnx(tmp_path / "model.onnx", nodes, [1, 3, SIDE, SIDE], {"top": top})
        seen.add(cache_file(load_card(write_card(tmp_path, model, bits=3)), "1", 4))
    assert len(seen) == 2


# -- cards that do not ----------------------------------------------------------------------------


def refused(card: Path, field: str, match: str = ".") -> None:
    with pytest.raises(CardError, match=match) as caught:
        get_hash(str(card))
    message = str(caught.value)
    assert message.startswith(f"{card}: {field}")
    assert message.isprintable()
    assert len(message) < 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, write_onnx: Callable[..., Path]) -> Path:
    """A good TorchScript model with files that are wrong in one way each."""
    folder = tmp_path_factory.mktemp("cards")
    good = save_script(folder / "good.pt", Net(3, BITS)).read_bytes()
    (folder / "half.pt").write_bytes(good[: len(good) // 2])
    (folder / "empty.pt").touch()
    whole = write_onnx(folder / "whole.onnx", [make_node("Relu", ["x"], ["y"])], [1, 3, SIDE, SIDE]).read_bytes()
    (folder / "half.onnx").write_bytes(whole[: len(whole) // 2])
    (folder / "folder.onnx").mkdir()
    with zipfile.ZipFile(folder / "other.pt", "w") as archive:
        archive.writestr("readme", "nothing")
    save_script(folder / "nan.pt", NotANumber())
    np.save(folder / "three.npy", np.zeros((BITS, 3)))
    np.save(folder / "flat.npy", np.zeros(BITS))
    np.save(folder / "square.npy", np.zeros((BITS, BITS)))
    np.save(folder / "nan.npy", np.full((BITS, BITS), np.nan))
    np.save(folder / "huge.npy", np.full((BITS, BITS), 1e300))
    np.save(folder / "text.npy", np.full((BITS, BITS), "one"))
    np.save(folder / "objects.npy", np.array([[{}] * BITS] * BITS, dtype=object), allow_pickle=True)
    np.savez(folder / "several.npz", a=np.zeros(3))
    (folder / "garbage.npy").write_bytes(b"\x93NUMPY\x01\x00\x10\x00{'shape': (((((")
    return folder


class NotANumber(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)[:, :BITS] * 0 / 0


def test_the_good_model_is_good(folder: Path) -> None:
    assert load_card(write_card(folder, folder / "good.pt")).bits == BITS


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "got nothing"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe\x00", "not text in UTF-8"),
        (b"name: \x00\x01", "not a YAML hash card"),
        (b"[" * 60_000, "deep nesting"),
        (b"{a: " * 10_000, "deep nesting"),
        (b"- " * 30_000, "deep nesting"),
        (b"a: &a [*a]", "aliases"),
        (b"a: &a {x: 1}\nb: &b {<<: [*a, *a]}\nc: {<<: [*b, *b]}", "aliases"),
        (b"- name\n- bits", "expected a mapping"),
        (b"7: 1", "7: unknown field"),
        (b"just words", "expected a mapping"),
        (b"name: [unclosed", "not a YAML hash card"),
        (b"name: !!python/object/apply:os.system [ls]", "not a YAML hash card"),
        (b"version: 2001-99-99", "month must be in"),
        (b"bits: !!bool maybe", "not a YAML hash card"),
        (b"bits: " + b"9" * 5000, "not a YAML hash card"),
        (b"#" * (MAX_CARD_BYTES + 1), "larger than"),
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_bad_yaml(content: bytes, match: str, tmp_path: Path) -> None:
    card = tmp_path / "card.yaml"
    card.write_bytes(content)
    refused(card, "", match)


def test_no_card(tmp_path: Path) -> None:
    refused(tmp_path / "absent.yaml", "no such file")
    refused(tmp_path / "absent" / "card.yml", "no such file")
    (tmp_path / "folder.yaml").mkdir()
    refused(tmp_path / "folder.yaml", "not a file")


FIELDS: list[tuple[dict[str, Any], str, str]] = [
    ({"colour": "rgb"}, "colour", "unknown field; use one of"),
    ({"two\nlines": 1}, "two?lines", "unknown field"),
    ({"name": ...}, "name", "got nothing"),
    ({"name": ""}, "name", "expected text"),
    ({"name": 5}, "name", "expected text"),
    ({"name": "../up"}, "name", "lower-case letters"),
    ({"name": "Mine"}, "name", "lower-case letters"),
    ({"name": "mine\n"}, "name", "lower-case letters"),
    ({"name": "a" * 65}, "name", "lower-case letters"),
    ({"version": [1]}, "version", "expected text"),
    ({"version": None}, "version", "expected text"),
    ({"about": {"a": 1}}, "about", "expected text"),
    *(({"bits": bits}, "bits", "whole number from 1") for bits in (..., 0, -4, True, "16", 65537, 16.0, [16])),
    ({"bits": BITS + 1}, "bits", r"the model returns \(16,\) outputs per image, expected 17"),
    ({"sha256": "0" * 64}, "sha256", "the card expects '000"),
    ({"sha256": 7}, "sha256", "expected text"),
    ({"model": ...}, "model", "got nothing"),
    ({"model": "absent.onnx"}, "model", "no such file"),
    ({"model": "a" * 5000}, "model", "cannot read"),
    ({"model": "nul\0.onnx"}, "model", "no such file"),
    ({"model": "folder.onnx"}, "model", "not a file"),
    ({"model": "half.onnx"}, "model", "half.onnx: cannot be read as an ONNX model"),
    ({"model": "half.pt"}, "model", "TorchScript"),
    ({"model": "empty.pt"}, "model", "TorchScript"),
    ({"model": "other.pt"}, "model", "not a readable TorchScript"),
    ({"model": "nan.pt"}, "model", "NaN or infinity"),
    ({"threshold": 0.7}, "threshold", "bit error rate"),
    ({"threshold": -0.1}, "threshold", "bit error rate"),
    ({"threshold": float("nan")}, "threshold", "finite number"),
    ({"threshold": "low"}, "threshold", "finite number"),
    ({"threshold": 1 << 2000}, "threshold", "finite number"),
    ({"input": ...}, "input", "expected a mapping"),
    ({"input": [SIDE, SIDE]}, "input", "expected a mapping"),
    ({"projection": "three.npy"}, "projection", "expected a mapping"),
]
INPUTS: list[tuple[dict[str, Any], str, str]] = [
    ({"sizes": 3}, "sizes", "unknown field"),
    *(({"size": size}, "size", "expected .height, width") for size in (0, True, [SIDE], [1, 2, 3], "12", [1, 9999])),
    ({"size": [SIDE, SIDE + 1]}, "", "does not run on an input of shape"),
    ({"resize_to": [SIDE - 1, SIDE]}, "resize_to", "smaller than the size"),
    ({"resize_to": None}, "resize_to", "expected .height, width"),
    ({"filter": "nearest"}, "filter", "expected one of box"),
    ({"colour": "cmyk"}, "colour", "expected rgb"),
    ({"colour": "grey"}, "", "does not run on an input of shape"),
    ({"mean": [0.1, float("nan"), 0.2]}, "mean", "3 finite numbers"),
    ({"mean": [0.1, 0.2]}, "mean", "3 finite numbers"),
    ({"mean": 10**400}, "mean", "3 finite numbers"),
    ({"std": [1, 0, 1]}, "std", "at least"),
    ({"std": 1e-320}, "std", "at least"),
    ({"std": float("inf")}, "std", "3 finite numbers"),
]
PROJECTIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"matrix": ...}, "matrix", "got nothing"),
    ({"bias": "x"}, "bias", "unknown field"),
    ({"matrix": "absent.npy"}, "matrix", "no such file"),
    ({"matrix": "flat.npy"}, "matrix", "expected shape"),
    ({"matrix": "three.npy"}, "", "does not run"),
    ({"matrix": "nan.npy"}, "matrix", "not finite"),
    ({"matrix": "huge.npy"}, "matrix", "not finite"),
    ({"matrix": "text.npy"}, "matrix", "array of numbers"),
    ({"matrix": "objects.npy"}, "matrix", "allow_pickle=False"),
    ({"matrix": "several.npz"}, "matrix", "not a .npy array"),
    ({"matrix": "garbage.npy"}, "matrix", "not a .npy array"),
    ({"matrix": "good.pt"}, "matrix", "not a .npy array"),
    ({"mean": "three.npy"}, "mean", "48 numbers for a matrix of 16 columns"),
]


@pytest.mark.parametrize(("fields", "where", "match"), FIELDS)
def test_bad_field(fields: dict[str, Any], where: str, match: str, folder: Path) -> None:
    refused(write_card(folder, folder / "good.pt", **fields), where, match)


@pytest.mark.parametrize(("fields", "where", "match"), INPUTS)
def test_bad_input(fields: dict[str, Any], where: str, match: str, folder: Path) -> None:
    field = f"input: {where}: " if where else "model: "
    refused(write_card(folder, folder / "good.pt", input={"size": SIDE, **fields}), field, match)


@pytest.mark.parametrize(("fields", "where", "match"), PROJECTIONS)
def test_bad_projection(fields: dict[str, Any], where: str, match: str, folder: Path) -> None:
    projection = {key: value for key, value in {"matrix": "square.npy", **fields}.items() if value is not ...}
    field = f"projection: {where}: " if where else "model: "
    refused(write_card(folder, folder / "good.pt", projection=projection), field, match)


class Trap:
    """Unpickling this creates a file."""

    def __init__(self, victim: Path) -> None:
        self.victim = victim

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.victim,)


def test_pickles_are_not_executed(tmp_path: Path) -> None:
    victim, model, array = tmp_path / "victim", tmp_path / "model.pt", tmp_path / "matrix.npy"
    pickle.loads(pickle.dumps(Trap(victim)))
    assert victim.exists(), "the trap works"
    victim.unlink()
    model.write_bytes(pickle.dumps(Trap(victim)))
    refused(write_card(tmp_path, model), "model")
    torch.save(Trap(victim), model)
    refused(write_card(tmp_path, model), "model")
    with zipfile.ZipFile(model, "w") as archive:
        for name in ("data.pkl", "constants.pkl"):
            archive.writestr(f"archive/{name}", pickle.dumps(Trap(victim), protocol=2))
        archive.writestr("archive/version", "3\n")
    refused(write_card(tmp_path, model), "model")
    save_script(model, Net(3, BITS))
    array.write_bytes(pickle.dumps(Trap(victim)))
    refused(write_card(tmp_path, model, projection={"matrix": "matrix.npy"}), "projection: matrix")
    np.save(array, np.array([[Trap(victim)]], dtype=object), allow_pickle=True)
    refused(write_card(tmp_path, model, projection={"matrix": "matrix.npy"}), "projection: matrix")
    assert not victim.exists()


def test_unreadable_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = write_card(folder, folder / "good.pt")
    real = Path.open

    def denied(self: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if self.name == "good.pt":
            raise PermissionError(13, "Permission denied")
        return real(self, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", denied)
    refused(card, "model: ", "Permission denied")


def test_damaged_archives_never_crash(folder: Path) -> None:
    good, rng = (folder / "good.pt").read_bytes(), np.random.default_rng(5)
    card = write_card(folder, folder / "damaged.pt")
    for _ in range(20):
        (folder / "damaged.pt").write_bytes(good[: rng.integers(len(good))])
        refused(card, "model: ")
