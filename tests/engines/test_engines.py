"""Engines: the same margins as torch, streams that interleave and stop, a cache that cannot hurt."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from dualshield.engines import choose as engines
from dualshield.engines import openvino as openvino_engine
from dualshield.engines.choose import make_engine
from dualshield.engines.engine import Reads, TorchEngine
from dualshield.engines.fixed_function import require_fixed_function
from dualshield.engines.openvino import OpenVinoEngine
from dualshield.errors import InputError, MissingDependencyError
from dualshield.hashes.external.black_box import black_box
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images import FrontEnd
from dualshield.smoothing import deployment as deployment_module
from dualshield.smoothing.config import PAPER, MatcherConfig
from dualshield.smoothing.deploy import deploy
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.noise_kinds import CLIPPED, LINEAR
from dualshield.smoothing.sampler import Sampler
from tests.helpers.matchers import voting


def small_network(seed: int = 0, *, side: int = 32) -> PerceptualHash:
    """A convolutional hash with enough weights to count as a network; synthetic, random weights."""
    torch.manual_seed(seed)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 5, 2), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 5, 2), torch.nn.Flatten(),
        torch.nn.Linear(32 * ((side - 12) // 4) ** 2, 32),
    )  # fmt: skip
    front_end = FrontEnd.identity().resize(side, side).normalise(0.5, 0.5)
    return PerceptualHash("synthetic", "1", 32, front_end, network)


@pytest.fixture(scope="module")
def network() -> PerceptualHash:
    return small_network()


def cores(hash_: PerceptualHash, count: int) -> torch.Tensor:
    return torch.randn(count, *hash_.front_end.core_shape, generator=torch.Generator().manual_seed(count))


def test_openvino_equals_torch_also_on_short_batches(network: PerceptualHash) -> None:
    batches = [cores(network, 4), cores(network, 4), cores(network, 1)]
    fast = list(OpenVinoEngine(network, 4).run(batches))
    slow = list(TorchEngine(network, "cpu", 4).run(batches))
    assert [len(margins) for margins in fast] == [4, 4, 1]
    for one, two in zip(fast, slow, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["torch", "openvino"])
def test_features_may_be_read_instead_of_cores(network: PerceptualHash, name: str) -> None:
    images = torch.rand(3, 3, 512, 512, generator=torch.Generator().manual_seed(5))
    features = make_engine(network, name, batch_size=2, reads="features")
    seen = network.front_end(images)
    found = torch.cat(list(features.run([seen[:2], seen[2:]])))
    torch.testing.assert_close(found, network.margins(images), rtol=1e-4, atol=1e-4)


def reads(hash_: PerceptualHash, config: MatcherConfig) -> Reads:
    return voting(deploy(hash_, config=config)).engine.reads


def test_clipped_noise_is_the_same_by_cores_and_by_features() -> None:
    """A matcher takes the shorter way; the codes under the same noise do not depend on it."""
    network = small_network(side=96)
    pixels = torch.rand(3, 512, 512, generator=torch.Generator().manual_seed(6))
    assert reads(network, PAPER) == "features"
    assert reads(small_network(side=32), PAPER) == "core"  # few rows, made of all the others
    assert reads(network, replace(PAPER, noise="linear")) == "core"
    long_way, short_way = (
        Sampler(network, make_engine(network, "torch", reads=what), CLIPPED) for what in get_args(Reads)
    )
    codes = [torch.cat(list(way.codes(pixels, 0.1, 12, GaussianSource.from_seed(7)))) for way in (long_way, short_way)]
    assert torch.equal(*codes)
    with pytest.raises(ValueError, match="core"):
        Sampler(network, short_way.engine, LINEAR)


def test_processes_are_not_bound_to_the_same_core(network: PerceptualHash) -> None:
    """Bound to cores, each process takes the first ones: two on one thread each had half a core."""
    assert OpenVinoEngine(network, 2)._model.get_property("ENABLE_CPU_PINNING") is False


def test_streams_may_interleave(network: PerceptualHash) -> None:
    engine = OpenVinoEngine(network, 2)
    left, right = [cores(network, 2) for _ in range(6)], [cores(network, 2) + 1 for _ in range(6)]
    expected = [list(engine.run(stream)) for stream in (left, right)]
    for (one, two), first, second in zip(zip(engine.run(left), engine.run(right), strict=True), *expected, strict=True):
        assert torch.equal(one, first)
        assert torch.equal(two, second)


def test_a_stream_that_is_left_early_does_no_harm(network: PerceptualHash) -> None:
    engine = OpenVinoEngine(network, 2)
    stream = engine.run(cores(network, 2) for _ in range(100))
    first = next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert torch.equal(next(engine.run([cores(network, 2)])), first)


def test_batches_are_drawn_while_others_are_computed_but_not_all_at_once(network: PerceptualHash) -> None:
    engine = OpenVinoEngine(network, 2)
    drawn = 0

    def source() -> Any:
        nonlocal drawn
        for _ in range(50):
            drawn += 1
            yield cores(network, 2)

    stream = engine.run(source())
    next(stream)
    assert 1 < drawn <= openvino_engine.MAX_STREAMS + 2


def test_auto_takes_openvino_for_networks_and_torch_for_light_hashes(
    network: PerceptualHash, toy_hash: PerceptualHash
) -> None:
    assert make_engine(network).name == "openvino"
    assert make_engine(toy_hash).name == "torch"
    assert make_engine(network, "torch").name == "torch"


def test_auto_falls_back_to_torch_and_says_so(
    network: PerceptualHash, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing() -> Any:
        raise MissingDependencyError("no openvino here")

    monkeypatch.setattr(openvino_engine, "openvino_runtime", missing)
    with caplog.at_level(logging.WARNING):
        assert make_engine(network).name == "torch"
    assert "using torch" in caplog.text
    with pytest.raises(MissingDependencyError):
        make_engine(network, "openvino")


def test_a_hash_that_openvino_cannot_convert_is_refused_in_one_line() -> None:
    from dualshield.hashes import get_hash

    with pytest.raises(InputError, match=r"cannot convert it .*use engine torch") as caught:
        make_engine(get_hash("pdq"), "openvino")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "device", "batch"),
    [("fast", "cpu", None), ("auto", "tpu:x", None), ("auto", "meta", None), ("auto", "cpu", 0)],
)
def test_wrong_choices_are_refused(network: PerceptualHash, name: str, device: str, batch: int | None) -> None:
    with pytest.raises(InputError):
        make_engine(network, name, device, batch)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_cuda_without_cuda_is_refused(network: PerceptualHash) -> None:
    with pytest.raises(InputError, match="no CUDA"):
        make_engine(network, "auto", "cuda")
    with pytest.raises(InputError):
        make_engine(network, "openvino", "cuda")


def test_the_cache_is_used_and_damage_is_harmless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DUALSHIELD_CACHE", str(tmp_path))
    network = small_network(1)
    expected = next(OpenVinoEngine(network, 2).run([cores(network, 2)]))
    (file,) = tmp_path.glob("engines/*.xml")
    conversions = 0
    convert = openvino_engine._convert

    def counted(*arguments: Any) -> Any:
        nonlocal conversions
        conversions += 1
        return convert(*arguments)

    monkeypatch.setattr(openvino_engine, "_convert", counted)
    assert torch.equal(next(OpenVinoEngine(network, 2).run([cores(network, 2)])), expected)
    assert conversions == 0
    weights = file.with_suffix(".bin")
    weights.write_bytes(bytes(len(weights.read_bytes())))  # right size, wrong numbers
    torch.testing.assert_close(next(OpenVinoEngine(network, 2).run([cores(network, 2)])), expected)
    assert conversions == 1
    file.write_text("not a model")
    torch.testing.assert_close(next(OpenVinoEngine(network, 2).run([cores(network, 2)])), expected)
    assert conversions == 2


def test_other_weights_are_another_cache_entry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DUALSHIELD_CACHE", str(tmp_path))
    for seed in (1, 2):
        OpenVinoEngine(small_network(seed), 2)
    assert len(list(tmp_path.glob("engines/*.xml"))) == 2


def test_an_unwritable_cache_is_no_obstacle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("DUALSHIELD_CACHE", str(blocked))
    assert OpenVinoEngine(small_network(3), 2).name == "openvino"


def test_openvino_telemetry_is_never_loaded() -> None:
    script = (
        "import sys, dualshield.engines.openvino as e; e.openvino_runtime().convert_model;"
        "sys.exit(any(name.startswith('openvino_telemetry.') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_engine_names_are_the_documented_ones() -> None:
    assert engines.EngineName.__args__ == ("auto", "openvino", "torch")  # type: ignore[attr-defined]


# -- one fixed function of the image ---------------------------------------------------------------


class Step(torch.nn.Module):
    """The last step of a network, from its margins and anything else."""

    def __init__(self, step: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.step = step

    def forward(self, margins: torch.Tensor) -> torch.Tensor:
        return self.step(margins)


def ending_in(last: torch.nn.Module, width: int) -> PerceptualHash:
    """A hash that is light or not, by the width of its layer."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        layers = [torch.nn.Flatten(), torch.nn.Linear(192, width), torch.nn.Tanh(), torch.nn.Linear(width, 32), last]
    return PerceptualHash("odd", "1", 32, FrontEnd.identity().resize(8, 8), torch.nn.Sequential(*layers))


def seeded_by_the_batch(margins: torch.Tensor) -> torch.Tensor:
    """The same number whenever the same images come together, and another in other company."""
    generator = torch.Generator().manual_seed(int(margins.double().sum().abs() * 1e6))
    return margins + torch.randn((), generator=generator)


CALLS, BATCHES, FINITE = "from call to call", "from batch to batch", "not finite"
NO_FUNCTIONS: dict[str, tuple[torch.nn.Module, str]] = {
    "a random number per call": (Step(lambda margins: margins + torch.rand(())), CALLS),
    "a random number per image": (Step(lambda margins: margins + torch.rand(len(margins), 1)), CALLS),
    "a random number per bit": (Step(lambda margins: margins + torch.rand_like(margins)), CALLS),
    "dropout that is never off": (Step(lambda margins: torch.nn.functional.dropout(margins, 0.5)), CALLS),
    "a random number per batch": (Step(seeded_by_the_batch), BATCHES),
    "the mean of the batch": (Step(lambda margins: margins - margins.mean(0)), BATCHES),
    "the image before": (Step(lambda margins: margins + margins.roll(1, 0)), BATCHES),
    "statistics of the batch": (torch.nn.BatchNorm1d(32, track_running_stats=False), BATCHES),
    "the mean of tiny margins": (Step(lambda margins: 1e-9 * (margins - margins.mean(0))), BATCHES),
    "the mean beside one huge margin": (
        Step(lambda margins: torch.cat([(margins - margins.mean(0))[:, 1:], 1e5 + margins[:, :1]], 1)),
        BATCHES,
    ),
    "the number of images": (Step(lambda margins: margins + len(margins)), BATCHES),
    "no numbers": (Step(lambda margins: margins + torch.nan), FINITE),
    "one that is no number": (Step(lambda margins: (margins - margins[:, :1]).reciprocal().log()), FINITE),
    "infinity": (Step(lambda margins: margins / 0), FINITE),
}
WIDTHS = {"light": 8, "network": 96}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("what", NO_FUNCTIONS)
def test_networks_that_are_no_function_of_one_image_are_refused(what: str, width: str) -> None:
    last, why = NO_FUNCTIONS[what]
    hash_ = ending_in(last, WIDTHS[width])
    assert hash_.has_small_network == (width == "light")
    deployment = deploy(hash_, sigma=0.1)
    with pytest.raises(InputError, match=f"hash odd: its network .*{why}") as caught:
        _ = deployment.matchers
    assert "certifi" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_networks_that_give_no_margins_or_fail_are_refused() -> None:
    def fail(margins: torch.Tensor) -> torch.Tensor:
        raise KeyError("weights")

    for step, why in ((lambda margins: margins > 0, "instead of float margins"), (fail, "cannot be run .KeyError")):
        with pytest.raises(InputError, match=why):
            _ = deploy(ending_in(Step(step), 8), sigma=0.1).matchers


def test_under_clipped_noise_only_valid_images_are_tried() -> None:
    class Root(torch.nn.Module):
        def forward(self, features: torch.Tensor) -> torch.Tensor:
            return features.sqrt().flatten(1)[:, :32] - 0.5

    hash_ = PerceptualHash("root", "1", 32, FrontEnd.identity().resize(8, 8), Root())
    assert deploy(hash_, parameters="paper").matchers
    with pytest.raises(InputError, match="not finite"):
        _ = deploy(hash_, sigma=0.1).matchers


@pytest.mark.parametrize("engine", ["torch", "openvino"])
@pytest.mark.parametrize("batch_size", [None, 1, 2, 7])
def test_ordinary_networks_are_not(engine: str, batch_size: int | None) -> None:
    for last in (torch.nn.Identity(), torch.nn.BatchNorm1d(32), torch.nn.Dropout(0.5), torch.nn.LayerNorm(32)):
        matcher = voting(deploy(ending_in(last, 96), sigma=0.1, engine=engine, batch_size=batch_size))
        assert matcher.engine.name == engine


@pytest.mark.parametrize("engine", ["torch", "openvino"])
@pytest.mark.parametrize("what", get_args(Reads))
def test_it_is_asked_what_the_engine_reads(engine: str, what: Reads) -> None:
    network = small_network(side=96)
    require_fixed_function(make_engine(network, engine, reads=what), network)


def test_the_hashes_of_the_package_are_functions() -> None:
    for name in ("pdq", "efflite"):
        for parameters in ("profile", "paper"):
            assert deploy(name, parameters=parameters, method="votes").matchers


def test_a_black_box_is_not_asked_for_it() -> None:
    """It was, when it was loaded; a call may take seconds."""
    calls = 0

    def count(pixels: Any) -> str:
        nonlocal calls
        calls += 1
        return "0f"

    hash_ = black_box(count, name="box", bits=8, side=8)
    loaded = calls
    assert loaded == 2
    deployment = deploy(hash_, sigma=0.1)
    require_fixed_function(voting(deployment).engine, hash_)
    assert calls == loaded


def test_it_is_asked_once_for_all_that_share_an_engine(
    toy_hash: PerceptualHash, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        deployment_module, "require_fixed_function", lambda engine, hash_, in_pixel_range: asked.append(hash_.name)
    )
    deployment = deploy(toy_hash, sigma=0.1)
    first, second = voting(deployment), voting(deployment.with_config(n=100, target_radius=0.0))
    assert first.engine is second.engine
    assert asked == ["toy"]
    third = voting(deployment.with_config(lowpass=8))
    assert third.engine is not first.engine
    assert asked == ["toy", "toy"]
