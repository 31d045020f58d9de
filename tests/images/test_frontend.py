"""Front ends: what they compute, their norm, and the exactness of their core."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dualshield.errors import InputError
from dualshield.images.frontend import IMAGENET_MEAN, IMAGENET_STD, FrontEnd

SIZE = 40
CHAINS = {
    "identity": FrontEnd.identity(SIZE),
    "resize": FrontEnd.identity(SIZE).resize(20, 30, "bicubic"),
    "crop": FrontEnd.identity(SIZE).resize(32, 32).centre_crop(24, 20).normalise(IMAGENET_MEAN, IMAGENET_STD),
    "grey": FrontEnd.identity(SIZE).grey().resize(9, 9),
    "bgr": FrontEnd.identity(SIZE).mix(np.eye(3)[::-1]).normalise(0.5, 0.25),
    "low-pass": FrontEnd.identity(SIZE).resize(30, 30).normalise(0.5, 0.5).low_pass(8),
}


@pytest.fixture(params=CHAINS, name="front_end")
def _front_end(request: pytest.FixtureRequest) -> FrontEnd:
    return CHAINS[request.param]


def image(*batch: int) -> torch.Tensor:
    return torch.rand(*batch, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(3))


def test_steps_equal_torch_operations() -> None:
    pixels = image(2)
    found = CHAINS["crop"](pixels)
    resized = F.interpolate(pixels, size=(32, 32), mode="bilinear", antialias=True)[..., 4:28, 6:26]
    expected = (resized - torch.tensor(IMAGENET_MEAN)[:, None, None]) / torch.tensor(IMAGENET_STD)[:, None, None]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    weights = torch.tensor([0.299, 0.587, 0.114])[:, None, None]
    grey = F.interpolate((pixels * weights).sum(1, keepdim=True), size=(9, 9), mode="bilinear", antialias=True)
    torch.testing.assert_close(CHAINS["grey"](pixels), grey)
    torch.testing.assert_close(CHAINS["bgr"](pixels), (pixels.flip(1) - 0.5) / 0.25)


def test_norm_equals_power_iteration(front_end: FrontEnd) -> None:
    zero = front_end(torch.zeros(3, SIZE, SIZE))
    vector = torch.randn(3, SIZE, SIZE, generator=torch.Generator().manual_seed(1)).requires_grad_()
    stretch = torch.tensor(0.0)
    for _ in range(800):
        out = front_end(vector) - zero
        stretch = out.detach().norm() / vector.detach().norm()
        (gradient,) = torch.autograd.grad((out**2).sum(), vector)
        vector = (gradient / gradient.norm()).requires_grad_()
    assert float(stretch) == pytest.approx(front_end.norm, rel=1e-3)


def test_core_and_expansion_make_up_the_front_end(front_end: FrontEnd) -> None:
    pixels = image(2)
    core = front_end.core(pixels)
    assert tuple(core.shape[1:]) == front_end.core_shape
    torch.testing.assert_close(front_end.expansion()(core), front_end(pixels), rtol=1e-4, atol=1e-5)


def test_core_has_orthonormal_rows(front_end: FrontEnd) -> None:
    # So white noise on the pixels is white noise of the same deviation on the core.
    basis = torch.eye(3 * SIZE * SIZE).view(-1, 3, SIZE, SIZE)
    projection = front_end.core(basis).flatten(1).T
    if len(projection) > 500:
        projection = projection[:: len(projection) // 500]
    torch.testing.assert_close(projection @ projection.T, torch.eye(len(projection)), rtol=0, atol=1e-4)


def test_a_low_pass_shrinks_the_core() -> None:
    assert CHAINS["low-pass"].core_shape == (3, 8, 8)
    assert CHAINS["low-pass"].shape == (3, 30, 30)
    assert CHAINS["grey"].core_shape == (1, 9, 9)


def test_gradients_reach_the_pixels(front_end: FrontEnd) -> None:
    pixels = image().requires_grad_()
    front_end(pixels).square().sum().backward()  # type: ignore[no-untyped-call]
    assert pixels.grad is not None
    assert float(pixels.grad.abs().max()) > 0


def test_wrong_uses_are_refused() -> None:
    front_end = FrontEnd.identity(SIZE)
    with pytest.raises(InputError, match="canonical pixels of shape"):
        front_end(torch.zeros(3, 5, 5))
    with pytest.raises(InputError, match="standard deviation"):
        front_end.normalise(0.5, [1.0, 0.0, 1.0])
    with pytest.raises(InputError, match="constants"):
        front_end.normalise(0.5, 0.5).project(np.ones((2, SIZE)), np.ones((2, SIZE)))


def test_a_front_end_first_used_in_inference_mode_still_has_gradients() -> None:
    front_end = FrontEnd.identity(16).resize(8, 8).grey()
    with torch.inference_mode():
        front_end.core(torch.zeros(3, 16, 16))
        front_end(torch.zeros(3, 16, 16))
    pixels = torch.zeros(3, 16, 16, requires_grad=True)
    (front_end.core(pixels).sum() + front_end(pixels).sum()).backward()  # type: ignore[no-untyped-call]
    assert pixels.grad is not None
    assert pixels.grad.abs().sum() > 0
