"""A deployment with its variants, and each image as it is published and enrolled under them.

Every piece of work has its own noise stream, derived from the seed and its key, so that a resumed run gives the same
results as an uninterrupted one.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache, cached_property
from typing import Any

import torch

from dualshield.attacks.defence import Defence
from dualshield.attacks.victim import Target
from dualshield.errors import InputError, NothingToAttackError, TooLittleStructureError
from dualshield.evaluation.metrics.installed import Extras
from dualshield.evaluation.plan.datasets import Picture
from dualshield.evaluation.plan.interface import RunPlan, label
from dualshield.evaluation.run.folder import RunFiles
from dualshield.evaluation.run.records import Key
from dualshield.images import CanonicalImage
from dualshield.images.eight_bit import to_8bit
from dualshield.smoothing.deployment import Deployment
from dualshield.smoothing.noise import GaussianSource
from dualshield.smoothing.variants import HARDENED, UNHARDENED, VIEWS, Variant
from dualshield.verification.program import program_of

# Parts that take minutes and depend on hardening only through the published image.
REPEATABLE = ("certified", "transforms", "adaptive", "blackbox", "nes-plain", "collision", "collisions")


class DeploymentUnderTest:
    """One deployment; each variant is set up when it is first needed."""

    def __init__(self, deployment: Deployment, plan: RunPlan, folder: RunFiles, extras: Extras) -> None:
        self.deployment = deployment
        self.label = label(deployment)
        self.plan = plan
        self.folder = folder
        self.extras = extras
        self.defence = cache(self._defence)
        self._subject: ImageUnderTest | None = None

    def _defence(self, variant: Variant) -> Defence:
        if variant == VIEWS:
            return Defence(self.deployment, "original", with_views=True)
        return Defence(self.deployment, variant, preset=self.plan.preset, strength=self.plan.strength)

    @property
    def is_joint(self) -> bool:
        """Whether several hashes decide together."""
        return len(self.deployment.members) > 1

    @property
    def is_differentiable(self) -> bool:
        """Whether white-box attacks are possible."""
        return self.deployment.is_differentiable

    @cached_property
    def is_verifiable(self) -> bool:
        """Whether the plain hash can be certified by bounds of its network."""
        if self.is_joint:
            return False
        try:
            hash_ = self.deployment.members[0].hash
            program_of(hash_.network, hash_.front_end.shape)
        except InputError:
            return False
        return True

    def noise(self, *labels: object) -> GaussianSource:
        """Return the noise stream of one piece of work with this deployment."""
        return GaussianSource.for_work(self.plan.seed, self.label, *labels)

    def subject(self, variant: Variant, picture: Picture) -> ImageUnderTest:
        """Return a picture under a variant; the last one is cached, because its parts follow one another."""
        last = self._subject
        if last is None or (last.variant, last.picture) != (variant, picture):
            last = self._subject = ImageUnderTest(self, variant, picture)
        return last


class ImageUnderTest:
    """One picture under one variant; it is loaded, hardened and enrolled when needed."""

    def __init__(self, lab: DeploymentUnderTest, variant: Variant, picture: Picture) -> None:
        self.lab = lab
        self.variant = variant
        self.picture = picture
        self.hardening_seconds: float | None = None  # None if an earlier run hardened it
        self.is_refused = False  # whether it turned out that it cannot be enrolled

    @property
    def in_gallery(self) -> bool:
        """Whether the images made from this picture are kept."""
        return self.lab.plan.keeps(self.picture.index)

    @cached_property
    def published(self) -> CanonicalImage:
        """The published image: rounded to 8 bits, and hardened once for all parts and runs."""
        folder, label = self.lab.folder, self.lab.label
        file = folder.published_file(label, self.variant, self.picture)
        hardened = self.variant in HARDENED
        if hardened:
            for twin in HARDENED:  # both variants publish the same image
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
        """The deployed matcher with this reference enrolled; each piece of work sets its own noise."""
        try:
            return self.lab.defence(self.variant).victim(self.published)
        except TooLittleStructureError as error:  # it cannot be a reference, so nothing matches it
            self.is_refused = True
            raise NothingToAttackError(str(error)) from error

    @property
    def refusal(self) -> dict[str, Any]:
        """What records say of an image that cannot be enrolled; nothing for others."""
        return {"refused": True} if self.is_refused else {}

    def key(self, part: str, detail: str) -> Key:
        """Return the key of a record about this picture."""
        return Key(part, self.lab.label, self.variant, self.picture.dataset, self.picture.name, detail)

    def known(self, part: str, detail: str) -> dict[str, Any] | None:
        """Return a finished record about this picture; None if there is none."""
        return self.lab.folder.known.get(self.key(part, detail))

    def repeated(self, part: str, detail: str) -> dict[str, Any] | None:
        """Return the record of the variant without hardening, if hardening changed nothing; else None.

        Algorithm 1 does not change images that meet its hinges, so their certificates and attacks are not repeated.
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
        """Whether hardening left the image unchanged."""
        return torch.equal(self.published.pixels, self._unhardened.pixels)

    @cached_property
    def _unhardened(self) -> CanonicalImage:
        image = self.picture.load()
        return replace(image, pixels=to_8bit(image.pixels))

    def noise(self, part: str, detail: str) -> GaussianSource:
        """Return the noise stream of one record."""
        return GaussianSource.for_work(self.lab.plan.seed, *self.key(part, detail))
