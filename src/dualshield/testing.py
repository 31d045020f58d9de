"""A pytest suite that every hash must pass; subclass it to test your own hash.

    from dualshield.testing import HashContract
    import my_package

    class TestMyHash(HashContract):
        def load(self):
            return my_package.load()

Needs pytest. All test images are generated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from io import BytesIO

import pytest
import torch
from PIL import Image
from scipy.stats import ks_2samp

from dualshield.engines.choose import make_engine
from dualshield.hashes.codes import bit_error_rate, from_hex, to_hex
from dualshield.hashes.perceptual_hash import PerceptualHash
from dualshield.images.canonical import CanonicalImage, load_image
from dualshield.images.space import CANONICAL_SIZE
from dualshield.images.synthetic import natural_image
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.noise_kinds import LINEAR
from dualshield.smoothing.sampler import Sampler

__all__ = ["HashContract", "natural_image"]


class HashContract(ABC):
    """Subclass with a name that starts with Test, and implement ``load``."""

    seeds = (1, 2, 3)

    @abstractmethod
    def load(self) -> PerceptualHash:
        """Return the hash under test."""

    @property
    def hash(self) -> PerceptualHash:
        """The hash under test, loaded once per class."""
        cls = type(self)
        if "_loaded" not in cls.__dict__:
            cls._loaded = self.load()  # type: ignore[attr-defined]
        loaded: PerceptualHash = cls._loaded  # type: ignore[attr-defined]
        return loaded

    def _need_gradient(self) -> None:
        if self.hash.is_black_box:
            pytest.skip("a black box has no gradient")

    def _images(self) -> list[CanonicalImage]:
        return [natural_image(seed) for seed in self.seeds]

    def test_describes_itself(self) -> None:
        assert self.hash.name
        assert self.hash.version
        assert 0 <= self.hash.threshold < 0.5
        assert self.hash.describe()["bits"] == self.hash.bits

    def test_is_deterministic(self) -> None:
        for image in self._images():
            code = self.hash.code(image.pixels)
            assert code.shape == (self.hash.bits,)
            assert code.dtype == torch.bool
            assert torch.equal(code, self.hash.code(image.pixels))

    def test_a_batch_equals_its_images(self) -> None:
        pixels = torch.stack([image.pixels for image in self._images()])
        together = self.hash.margins(pixels)
        single = torch.cat([self.hash.margins(p[None]) for p in pixels])
        scale = float(single.abs().max())
        torch.testing.assert_close(together, single, rtol=0, atol=1e-4 * scale)

    def test_tells_images_apart(self) -> None:
        one, two = (self.hash.code(image.pixels) for image in self._images()[:2])
        assert not self.hash.matches(one, two)

    def test_gradient_reaches_the_pixels(self) -> None:
        self._need_gradient()
        pixels = self._images()[0].pixels.clone()[None].requires_grad_()
        margins = self.hash.margins(pixels)
        margins.square().mean().backward()  # type: ignore[no-untyped-call]
        assert pixels.grad is not None
        assert torch.isfinite(pixels.grad).all()
        assert float(pixels.grad.abs().max()) > 0

    def test_gradient_points_uphill(self) -> None:
        self._need_gradient()
        pixels = self._images()[0].pixels.clone()[None].requires_grad_()
        target = torch.randn(self.hash.bits, generator=torch.Generator().manual_seed(0))
        before = self.hash.margins(pixels)[0] @ target
        (gradient,) = torch.autograd.grad(before, pixels)
        step = 1e-2 / float(gradient.norm())
        after = self.hash.margins(pixels.detach() + step * gradient)[0] @ target
        assert after > before

    def test_front_end_norm_bounds_every_step(self) -> None:
        front_end, generator = self.hash.front_end, torch.Generator().manual_seed(1)
        origin = front_end(torch.zeros(3, CANONICAL_SIZE, CANONICAL_SIZE))
        for side in (4, 64, CANONICAL_SIZE):
            coarse = torch.randn(1, 3, side, side, generator=generator)
            step = torch.nn.functional.interpolate(coarse, size=(CANONICAL_SIZE, CANONICAL_SIZE))[0]
            assert float((front_end(step) - origin).norm() / step.norm()) <= front_end.norm * (1 + 1e-4)

    def test_hex_round_trip(self) -> None:
        for image in self._images():
            code = self.hash.code(image.pixels)
            assert torch.equal(from_hex(to_hex(code), self.hash.bits), code)

    def test_survives_re_encoding(self) -> None:
        for image in self._images():
            code = self.hash.code(image.pixels)
            for kind, options in (("PNG", {}), ("JPEG", {"quality": 95}), ("WEBP", {"quality": 95})):
                file = BytesIO()
                Image.fromarray(image.to_8bit()).save(file, kind, **options)
                again = self.hash.code(load_image(file.getvalue()).pixels)
                assert bit_error_rate(code, again) <= self.hash.threshold

    def test_core_noise_has_the_law_of_pixel_noise(self) -> None:
        """Compare the two ways of drawing `linear` noise: on 786,432 pixels, and on the core."""
        front_end, sigma, draws = self.hash.front_end, 0.3, 60
        pixels = self._images()[0].pixels
        source = GaussianSource.from_seed(11)
        probe = torch.randn(8, *front_end.shape, generator=torch.Generator().manual_seed(2)).flatten(1)
        on_pixels = torch.stack(
            [front_end(pixels + sigma * source.normal(tuple(pixels.shape))).flatten() for _ in range(draws)]
        )
        core = front_end.core(pixels)
        noisy = core + sigma * source.normal((draws, *core.shape))
        on_core = front_end.expansion()(noisy).flatten(1)
        for one, two in zip(probe @ on_pixels.T, probe @ on_core.T, strict=True):
            assert ks_2samp(one.numpy(), two.numpy()).pvalue > 1e-4
        # Same mean and same total power, each within a few standard errors.
        power = [((x - front_end(pixels).flatten()) ** 2).sum(1) for x in (on_pixels, on_core)]
        error = (power[0].var() / draws + power[1].var() / draws).sqrt()
        assert float((power[0].mean() - power[1].mean()).abs() / error) < 5

    def test_default_engine_agrees_with_torch(self) -> None:
        image, source = self._images()[0], GaussianSource.from_seed(3)
        cores = self.hash.front_end.core(image.pixels) + 0.1 * source.normal((5, *self.hash.front_end.core_shape))
        expected, found = (
            torch.cat(list(make_engine(self.hash, name, batch_size=4).run([cores[:4], cores[4:]])))
            for name in ("torch", "auto")
        )
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-3 * float(expected.abs().max()))

    def test_noisy_codes_stay_near_the_plain_one_at_small_sigma(self) -> None:
        image = self._images()[0]
        sampler = Sampler(self.hash, make_engine(self.hash), LINEAR)
        codes = torch.cat(list(sampler.codes(image.pixels, 1e-3, 10, GaussianSource.from_seed(4))))
        assert self.hash.matches(codes, self.hash.code(image.pixels)).all()
