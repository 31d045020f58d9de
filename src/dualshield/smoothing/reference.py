"""An enrolled reference: the data that a deployment keeps of an image."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dualshield._common.checks import PATH, require
from dualshield.errors import UnusableReferenceError
from dualshield.smoothing.exact.reference import NOISE
from dualshield.smoothing.reference_file import Kept, fingerprint_of, load_members, save_members


@dataclass(frozen=True, eq=False)
class Reference:
    """An enrolled reference, as each member of the deployment keeps it.

    Its ``fingerprint`` identifies sigma, codes, hash and configuration. The name is only a label, not part of the
    fingerprint. ``save`` writes one small file and ``load`` reads it. A deployment of another hash or configuration
    refuses the reference.
    """

    name: str
    members: tuple[Kept, ...]

    @cached_property
    def fingerprint(self) -> str:
        """The sha256 (hex) of everything except the name."""
        return fingerprint_of(self.members)

    @property
    def is_bare(self) -> bool:
        """Whether it was enrolled from a bare code, for which profiles have separate parameters."""
        return all(member.is_bare for member in self.members)

    @property
    def sigma(self) -> float:
        """The sigma of its votes; the largest if there are several members."""
        return max(member.sigma for member in self.members)

    def __repr__(self) -> str:
        hashes = "+".join(str(member.terms["hash"]["name"]) for member in self.members)
        return f"<Reference {self.name}, {hashes}, sigma {self.sigma:g}, {self.fingerprint[:12]}>"

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the reference to a file (usual suffix: .dsref); an old file is replaced as a whole or not at all."""
        require("file", file, *PATH)
        save_members(Path(file), self.name, self.members)

    @staticmethod
    def load(file: str | os.PathLike[str]) -> Reference:
        """Read a file written by ``save``. Nothing in the file is executed; all of its content is checked."""
        require("file", file, *PATH)
        return Reference(*load_members(Path(file)))


def check_terms(reference: Reference, hashes: str, terms: Sequence[tuple[dict[str, Any], Any]]) -> None:
    """Raise an error if the reference was enrolled for other hashes or another configuration; it says what differs.

    ``terms`` has, for each member of a deployment, its enrollment terms and an example code.
    """
    theirs = "+".join(str(member.terms["hash"]["name"]) for member in reference.members)
    if theirs != hashes:
        raise UnusableReferenceError(
            f"reference {reference.name} was enrolled for hash {theirs}, not for {hashes}; enroll it again"
        )
    for (expected, code_like), kept in zip(terms, reference.members, strict=True):
        kinds = ["the exact matcher" if each["noise"] == NOISE else "votes" for each in (kept.terms, expected)]
        if kinds[0] != kinds[1]:
            raise UnusableReferenceError(
                f"reference {reference.name} was enrolled for {kinds[0]}, with another configuration than {kinds[1]} "
                "have; leave out the method, or enroll it again"
            )
        difference = kept.difference(expected, code_like)
        if difference:
            raise UnusableReferenceError(
                f"reference {reference.name} was enrolled for {theirs} with another configuration ({difference}); "
                "enroll it again, or deploy its configuration"
            )
