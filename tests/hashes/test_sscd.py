"""SSCD: the network, the three file formats, and hostile TorchScript archives."""

from __future__ import annotations

import os
import pickle
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dualshield.errors import MissingWeightsError, WeightsError
from dualshield.hashes import PerceptualHash, get_hash
from dualshield.hashes.import_weights import import_weights
from dualshield.hashes.networks.resnet import RESNET50, RESNEXT101_32X4D, ResNetShape
from dualshield.hashes.zoo import sscd
from dualshield.testing import HashContract, natural_image
from dualshield.weights import load_strict
from dualshield.weights.torchscript import read_script_state
from tests.helpers.synthetic_cnn import imported, sscd_net, tiny_variants

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


class ClassyBlock(nn.Module):
    """A bottleneck as Classy Vision names its layers."""

    def __init__(self, inside: int, middle: int, outside: int, stride: int, groups: int) -> None:
        super().__init__()
        self.convolutional_block = nn.Sequential(
            nn.Conv2d(inside, middle, 1, bias=False),
            nn.BatchNorm2d(middle),
            nn.ReLU(),
            nn.Conv2d(middle, middle, 3, stride, 1, groups=groups, bias=False),
            nn.BatchNorm2d(middle),
            nn.ReLU(),
            nn.Conv2d(middle, outside, 1, bias=False),
        )
        self.bn = nn.BatchNorm2d(outside)
        self.downsample = None
        if stride != 1 or inside != outside:
            self.downsample = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        return F.relu(self.bn(self.convolutional_block(x)) + shortcut)


class ClassySscd(nn.Module):
    """The published model as the authors trained it: another program for the same function."""

    def __init__(self, shape: ResNetShape, dimensions: int) -> None:
        super().__init__()
        stem = nn.Sequential(
            nn.Conv2d(3, shape.stem, 7, 2, 3, bias=False), nn.BatchNorm2d(shape.stem), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        initial = nn.Module()
        initial.add_module("_module", stem)
        stages, inside = [], shape.stem
        for stage, count in enumerate(shape.blocks):
            blocks = nn.Sequential()
            for i in range(count):
                outside = shape.stem * 4 * 2**stage
                middle = shape.groups * shape.group_width * 2**stage
                stride = 2 if stage > 0 and i == 0 else 1
                blocks.add_module(f"block{stage}-{i}", ClassyBlock(inside, middle, outside, stride, shape.groups))
                inside = outside
            stages.append(blocks)
        self.backbone = nn.Module()
        self.backbone.add_module("initial_block", initial)
        self.backbone.add_module("blocks", nn.Sequential(*stages))
        self.embeddings = nn.Sequential(nn.Identity(), nn.Linear(inside, dimensions))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.backbone.blocks(self.backbone.initial_block._module(x))  # type: ignore[operator, union-attr]
        pooled = x.clamp(min=1e-6).pow(3).mean((2, 3)).pow(1 / 3)
        return F.normalize(self.embeddings(pooled))


def classy(name: str, seed: int = 4) -> ClassySscd:
    variant = tiny_variants()[name]
    torch.manual_seed(seed)
    net = ClassySscd(variant.shape, variant.dimensions).eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
            nn.init.normal_(module.weight, 1, 0.1)
    return net


def save_traced(net: nn.Module) -> Callable[[Path], None]:
    return lambda file: torch.jit.trace(net.eval(), torch.rand(1, 3, 64, 64)).save(str(file))  # type: ignore[no-untyped-call]


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sscd, "VARIANTS", tiny_variants())
    monkeypatch.setenv("DUALSHIELD_WEIGHTS", str(tmp_path / "weights"))
    return tmp_path


class TestSscdSynthetic(HashContract):
    def load(self) -> PerceptualHash:
        variants = tiny_variants()
        state = sscd_net(variants["sscd"]).state_dict()
        with tempfile.TemporaryDirectory() as folder:
            return imported("sscd", "sscd", Path(folder), lambda file: torch.save(state, file), variants)


class TestSscdLargeSyntheticTorchScript(HashContract):
    def load(self) -> PerceptualHash:
        variants = tiny_variants()
        net = sscd_net(variants["sscd-large"])
        with tempfile.TemporaryDirectory() as folder:
            return imported("sscd-large", "sscd-large", Path(folder), save_traced(net), variants, side=96)


# -- the real sizes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "dimensions", "parameters", "keys"),
    [(RESNET50, 512, 24_557_120, 320), (RESNEXT101_32X4D, 1024, 44_226_880, 626)],
)
def test_the_published_models_have_this_many_numbers(
    shape: ResNetShape, dimensions: int, parameters: int, keys: int
) -> None:
    with torch.device("meta"):
        net = sscd.SscdNet(shape, dimensions)
    assert sum(parameter.numel() for parameter in net.parameters()) == parameters
    state = net.state_dict()
    assert len(state) == keys
    assert state["backbone.layer1.0.downsample.0.weight"].shape == (256, 64, 1, 1)
    assert state["backbone.layer4.2.conv3.weight"].shape == (2048, shape.groups * shape.group_width * 8, 1, 1)
    assert state["backbone.layer3.0.conv2.weight"].shape[1] == shape.group_width * 4
    assert state["backbone.fc.weight"].shape == (dimensions, 2048)


def test_one_image_through_the_real_resnet50() -> None:
    net = sscd.SscdNet(RESNET50, 512).eval()
    strides = []
    for name, module in net.named_modules():
        if isinstance(module, nn.Conv2d) and module.stride == (2, 2):
            strides.append(name.removeprefix("backbone."))
    assert strides == ["conv1"] + [
        f"layer{stage}.0.{layer}" for stage in (2, 3, 4) for layer in ("conv2", "downsample.0")
    ]
    with torch.inference_mode():
        descriptor = net(torch.randn(1, 3, 320, 320))
    assert descriptor.shape == (1, 512)
    assert float(descriptor.norm()) == pytest.approx(1, abs=1e-5)


# -- formats ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sscd", "sscd-large"])
@torch.no_grad()
def test_classy_state_and_torchscript_are_the_same_network(name: str, tiny: Path) -> None:
    net = classy(name)
    torch.save(net.state_dict(), tiny / "classy.pt")
    save_traced(net)(tiny / "script.pt")
    script = "sscd-torchscript" if name == "sscd" else "sscd-large"
    images = torch.rand(2, 3, 320, 320)
    for weights, file in ((f"{name}-classy", "classy.pt"), (script, "script.pt")):
        stored = import_weights(weights, tiny / file)
        loaded = sscd.build(sscd._read(stored.weight, stored.path), name)
        torch.testing.assert_close(loaded.eval()(images), net(images), rtol=1e-4, atol=1e-5)
    hash_ = get_hash(name)
    assert list(hash_.weights) == [stored.weight.file]
    expected = net(hash_.front_end(natural_image(1).pixels)[None])[0]
    assert torch.equal(hash_.code(natural_image(1).pixels), expected > 0)


def test_preprocessing_is_a_skewed_resize(tiny: Path) -> None:
    torch.save(sscd_net(tiny_variants()["sscd"]).state_dict(), tiny / "tv.pt")
    import_weights("sscd", tiny / "tv.pt")
    pixels = natural_image(2).pixels
    small = F.interpolate(pixels[None], (320, 320), mode="bilinear", antialias=True)[0]
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    expected = (small - mean[:, None, None]) / std[:, None, None]
    torch.testing.assert_close(get_hash("sscd").front_end(pixels), expected, atol=1e-4, rtol=0)


def test_the_large_model_is_not_the_small_one(tiny: Path) -> None:
    torch.save(sscd_net(tiny_variants()["sscd-large"]).state_dict(), tiny / "large.pt")
    with pytest.raises(WeightsError, match=r"hash sscd: large\.pt: not the weights of this model; .*wrong shapes"):
        import_weights("sscd", tiny / "large.pt")
    with pytest.raises(MissingWeightsError, match=r"sscd_disc_mixup\.torchvision\.pt from https://dl\.fbaipublicfiles"):
        get_hash("sscd")
    with pytest.raises(MissingWeightsError, match=r"dualshield weights import sscd-large FILE"):
        get_hash("sscd-large")


def test_the_native_rule() -> None:
    rule = sscd.NATIVE
    one = F.normalize(torch.randn(512, generator=torch.Generator().manual_seed(0)), dim=0)
    away = torch.randn(512, generator=torch.Generator().manual_seed(1))
    away = F.normalize(away - (away @ one) * one, dim=0)
    for cosine in (1.0, 0.9, 0.751, 0.749, 0.0, -1.0):
        other = cosine * one + (1 - cosine**2) ** 0.5 * away
        assert bool(rule.matches(rule.values(one), rule.values(other))) is (cosine > 0.75)


def test_signs_differ_in_proportion_to_the_angle() -> None:
    """What the binarisation promises for descriptors spread evenly over the sphere."""
    generator = torch.Generator().manual_seed(2)
    one, away = torch.randn(2, 400, 512, generator=generator)
    one = F.normalize(one)
    away = F.normalize(away - (away * one).sum(1, keepdim=True) * one)
    for cosine in (0.95, 0.81, 0.75, 0.0):
        other = cosine * one + (1 - cosine**2) ** 0.5 * away
        rate = float(((one > 0) ^ (other > 0)).float().mean())
        assert rate == pytest.approx(torch.arccos(torch.tensor(cosine)).item() / torch.pi, abs=0.01)


# -- hostile archives ------------------------------------------------------------------------------


def rewritten(source: Path, target: Path, change: Callable[[str, bytes], bytes | None], kind: int = 0) -> Path:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", kind) as new:
        for name in old.namelist():
            data = change(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
    return target


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("archive") / "good.pt"
    save_traced(sscd_net(tiny_variants()["sscd"]))(file)
    return file


def test_a_good_archive_gives_every_tensor(archive: Path) -> None:
    net = sscd_net(tiny_variants()["sscd"])
    state = read_script_state(archive, "sscd")
    load_strict(net, state, "sscd", "good.pt")
    assert set(state) == set(net.state_dict())


def test_the_program_in_the_archive_is_not_even_read(archive: Path, tmp_path: Path) -> None:
    bad = rewritten(archive, tmp_path / "x.pt", lambda name, data: b"import os" if "/code/" in name else data)
    assert read_script_state(bad, "sscd").keys() == read_script_state(archive, "sscd").keys()


class Evil:
    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, ("victim",)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda n, d: pickle.dumps(Evil(), 2) if n.endswith("/data.pkl") else d,
            r"holds more than numbers \((posix|nt)\.mkdir",
        ),
        (
            lambda n, d: d.replace(b"torch\nFloatStorage", b"posix\nsystem") if n.endswith("/data.pkl") else d,
            "posix.system",
        ),
        (lambda n, d: d[:-100] if n.endswith("/data.pkl") else d, "truncated"),
        (lambda n, d: d[:-1] if n.endswith("/data/0") else d, "data/0 is truncated"),
        (lambda n, d: d + b"x" if n.endswith("/data/0") else d, "data/0 is compressed or too large"),
        (lambda n, d: None if n.endswith("/data/0") else d, "truncated"),
        (lambda n, d: None if n.endswith("/constants.pkl") else d, "not a TorchScript archive"),
        (lambda n, d: pickle.dumps([1, 2], 2) if n.endswith("/data.pkl") else d, "not a TorchScript module"),
    ],
)
def test_hostile_archives(
    change: Callable[[str, bytes], bytes | None],
    said: str,
    archive: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    bad = rewritten(archive, tmp_path / "bad.pt", change)
    with pytest.raises(WeightsError, match=rf"hash sscd: bad\.pt: .*{said}"):
        read_script_state(bad, "sscd")
    assert not Path("victim").exists()


def test_more_damage(archive: Path, tmp_path: Path) -> None:
    packed = rewritten(archive, tmp_path / "packed.pt", lambda _, data: data, zipfile.ZIP_DEFLATED)
    with pytest.raises(WeightsError, match=r"packed\.pt: its record data/\d+ is compressed"):
        read_script_state(packed, "sscd")
    cut = tmp_path / "cut.pt"
    cut.write_bytes(archive.read_bytes()[:-1000])
    with pytest.raises(WeightsError, match=r"cut\.pt: not a readable TorchScript archive"):
        read_script_state(cut, "sscd")
    with pytest.raises(WeightsError, match=r"absent\.pt: cannot be read"):
        read_script_state(tmp_path / "absent.pt", "sscd")
    state = tmp_path / "state.pt"
    torch.save({"a": torch.ones(1)}, state)
    with pytest.raises(WeightsError, match=r"state\.pt: not a TorchScript archive"):
        read_script_state(state, "sscd")


def test_nan_and_frozen(tmp_path: Path) -> None:
    net = sscd_net(tiny_variants()["sscd"])
    traced = torch.jit.trace(net.eval(), torch.rand(1, 3, 64, 64))  # type: ignore[no-untyped-call]
    torch.jit.freeze(traced).save(str(tmp_path / "frozen.pt"))
    with pytest.raises(WeightsError, match=r"frozen\.pt: a frozen module.*use a file with a state_dict"):
        read_script_state(tmp_path / "frozen.pt", "sscd")
    with torch.no_grad():
        net.backbone.fc.bias[3] = torch.nan
    save_traced(net)(tmp_path / "nan.pt")
    with pytest.raises(WeightsError, match=r"nan\.pt: key 'backbone\.fc\.bias' holds NaN"):
        read_script_state(tmp_path / "nan.pt", "sscd")
