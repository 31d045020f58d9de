"""An enrolled reference: what a deployment keeps of an image."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dualshield._common.checks import PATH, require
from dualshield.smoothing.member_reference import MemberReference
from dualshield.smoothing.reference_file import fingerprint_of, load_members, save_members


@dataclass(frozen=True, eq=False)
class Reference:
    """An enrolled reference, as each member of the deployment keeps it.

    Its ``fingerprint`` tells it from every other: sigma, codes, and the hash and configuration they were made under.
    The name is a label and not part of it. ``save`` writes one small file that ``load`` reads again; a deployment of
    another hash or configuration refuses it.
    """

    name: str
    members: tuple[MemberReference, ...]

    @cached_property
    def fingerprint(self) -> str:
        """A sha256 in hex over everything but the name."""
        return fingerprint_of(self.members)

    @property
    def is_bare(self) -> bool:
        """Whether it came from a bare code: profiles have other parameters for these."""
        return all(member.is_bare for member in self.members)

    @property
    def sigma(self) -> float:
        """The noise of its votes; of several members the largest."""
        return max(member.sigma for member in self.members)

    def __repr__(self) -> str:
        hashes = "+".join(str(member.terms["hash"]["name"]) for member in self.members)
        return f"<Reference {self.name}, {hashes}, sigma {self.sigma:g}, {self.fingerprint[:12]}>"

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write it to a file, by custom one that ends in .dsref; an old file is replaced as a whole or not at all."""
        require("file", file, *PATH)
        save_members(Path(file), self.name, self.members)

    @staticmethod
    def load(file: str | os.PathLike[str]) -> Reference:
        """Read what ``save`` wrote. Nothing in the file is executed, and everything in it is checked."""
        require("file", file, *PATH)
        return Reference(*load_members(Path(file)))
