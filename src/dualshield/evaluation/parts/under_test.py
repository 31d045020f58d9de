"""One hash in its variants, and images as they are published and enrolled there.

Every piece of work takes its noise from a stream of its own, derived from the seed and its key, so that a resumed run
gives what an uninterrupted one would have given.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache, cached_property
from typing import Any

import torch

from dualshield.attacks.defence import Defence
from dualshield.attacks.victim import Target
from dualshield.errors import InputError
from dualshield.evaluation.metrics.installed import Extras
from dualshield.evaluation.plan.datasets import Picture
from dualshield.evaluation.plan.interface import RunPlan, label
from dualshield.evaluation.run.folder import RunFiles
from dualshield.evaluation.run.records import Key
from dualshield.images import CanonicalImage
from dualshield.images.eight_bit import to_8bit
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.variants import HARDENED, UNHARDENED, Variant
from dualshield.verification.program import program_of

# Parts that cost minutes and only ask for the image as published.
REPEATABLE = ("certified", "transforms", "adaptive", "blackbox", "nes-plain", "collision", "collisions")


class DeploymentUnderTest:
    """One hash; its variants are set up when the first piece of work needs them."""

    def __init__(self, deployment: Deployment, plan: RunPlan, folder: RunFiles, extras: Extras) -> None:
        self.deployment = deployment
        self.label = label(deployment)
        self.plan = plan
        self.folder = folder
        self.extras = extras
        self.defence = cache(self._defence)
        self._subject: ImageUnderTest | None = None

    def _defence(self, variant: Variant) -> Defence:
        return Defence(self.deployment, variant, preset=self.plan.preset, strength=self.plan.strength)

    @property
    def is_joint(self) -> bool:
        """Whether several hashes decide together."""
        return len(self.deployment.members) > 1

    @property
    def is_differentiable(self) -> bool:
        """Whether the white-box attacks can be run at all."""
        return self.deployment.is_differentiable

    @cached_property
    def is_verifiable(self) -> bool:
        """Whether the plain hash has a certificate, by bounds of its network."""
        if self.is_joint:
            return False
        try:
            hash_ = self.deployment.members[0].hash
            program_of(hash_.network, hash_.front_end.shape)
        except InputError:
            return False
        return True

    def noise(self, *labels: object) -> GaussianSource:
        """The stream of one piece of work with this hash."""
        return GaussianSource.for_work(self.plan.seed, self.label, *labels)

    def subject(self, variant: Variant, picture: Picture) -> ImageUnderTest:
        """A picture under a variant; the last one is kept, because all parts of it are done in a row."""
        last = self._subject
        if last is None or (last.variant, last.picture) != (variant, picture):
            last = self._subject = ImageUnderTest(self, variant, picture)
        return last


class ImageUnderTest:
    """One picture as published and enrolled under one variant; loaded, hardened and enrolled when needed."""

    def __init__(self, lab: DeploymentUnderTest, variant: Variant, picture: Picture) -> None:
        self.lab = lab
        self.variant = variant
        self.picture = picture
        self.hardening_seconds: float | None = None  # unless an earlier run did it

    @property
    def in_gallery(self) -> bool:
        """Whether its images are kept."""
        return self.lab.plan.keeps(self.picture.index)

    @cached_property
    def published(self) -> CanonicalImage:
        """As its owner publishes it: on the 8-bit grid, and hardened once for all parts and runs."""
        folder, label = self.lab.folder, self.lab.label
        file = folder.published_file(label, self.variant, self.picture)
        hardened = self.variant in HARDENED
        if hardened:
            for twin in HARDENED:  # both publish the same
                folder.copy_image(folder.published_file(label, twin, self.picture), file)
            found = folder.read_image(file, self.picture.label)
            if found is not None:
                return found
            if (self.known("quality", "") or {}).get("unchanged"):
                return self._unhardened
        defence = self.lab.defence(self.variant)
        noise = self.lab.noise("publish", self.picture.label)
        original = self.picture.load()
        started = time.perf_counter()
        published = defence.publish(original, noise)
        if hardened:
            self.hardening_seconds = time.perf_counter() - started
        if self.in_gallery:
            folder.save_image(folder.original_file(self.picture), original)
        if hardened or self.in_gallery:
            folder.save_image(file, published)
        return published

    @cached_property
    def victim(self) -> Target:
        """The deployed matcher with this reference enrolled, once for all parts; each piece brings its noise."""
        return self.lab.defence(self.variant).victim(self.published)

    def key(self, part: str, detail: str) -> Key:
        """Of a record about this picture."""
        return Key(part, self.lab.label, self.variant, self.picture.dataset, self.picture.name, detail)

    def known(self, part: str, detail: str) -> dict[str, Any] | None:
        """The record, if it is there."""
        return self.lab.folder.known.get(self.key(part, detail))

    def repeated(self, part: str, detail: str) -> dict[str, Any] | None:
        """The record of the variant without hardening, if hardening changed nothing: both publish the same image.

        Algorithm 1 leaves images alone that meet its hinges. Their certificates and attacks need no second try.
        """
        if part not in REPEATABLE or self.variant not in HARDENED:
            return None
        twin = UNHARDENED[self.variant]
        found = self.lab.folder.known.get(self.key(part, detail)._replace(variant=twin))
        if found is None or not self.is_unchanged:
            return None
        if self.in_gallery and "budget" in found:
            folder, label, budget = self.lab.folder, self.lab.label, float(detail)
            files = (folder.attacked_file(part, label, name, self.picture, budget) for name in (twin, self.variant))
            folder.copy_image(*files)
        return {**found, "same_as": twin}

    @cached_property
    def is_unchanged(self) -> bool:
        """Whether the image is published as it was."""
        return torch.equal(self.published.pixels, self._unhardened.pixels)

    @cached_property
    def _unhardened(self) -> CanonicalImage:
        image = self.picture.load()
        return replace(image, pixels=to_8bit(image.pixels))

    def noise(self, part: str, detail: str) -> GaussianSource:
        """For one record."""
        return GaussianSource.for_work(self.lab.plan.seed, *self.key(part, detail))
