"""Which weight files the hashes can use, and where their authors publish them. Data only; nothing is bundled."""

from __future__ import annotations

from dataclasses import dataclass

from dualshield.errors import InputError

SSCD = "https://dl.fbaipublicfiles.com/sscd-copy-detection"
CERTPHASH = "https://drive.google.com/drive/folders/1b7RbO-uDdlvsxgsxE4H-tjrdGVx7pVRu"


@dataclass(frozen=True)
class WeightFile:
    """One file that a hash can be loaded from."""

    name: str  # what the user calls it: dualshield weights import NAME FILE
    hash: str  # the hash it belongs to
    file: str  # its name where the authors publish it
    address: str | None  # None: nobody publishes it
    licence: str
    note: str = ""
    sha256: str | None = None  # None: not known to us, any file that loads as this model is taken
    megabytes: int | None = None

    @property
    def how_to_get(self) -> str:
        """What to do by hand, ending in the import command."""
        origin = f"download {self.file} from {self.address}" if self.address else f"get {self.file} from its authors"
        remark = f" ({self.note})" if self.note else ""
        return f"{origin}{remark}, then run: dualshield weights import {self.name} FILE"


CATALOGUE: dict[str, WeightFile] = {
    "sscd": WeightFile(
        name="sscd",
        hash="sscd",
        file="sscd_disc_mixup.torchvision.pt",
        address=f"{SSCD}/sscd_disc_mixup.torchvision.pt",
        licence="MIT",
        megabytes=99,
    ),
    "sscd-classy": WeightFile(
        name="sscd-classy",
        hash="sscd",
        file="sscd_disc_mixup.classy.pt",
        address=f"{SSCD}/sscd_disc_mixup.classy.pt",
        licence="MIT",
        megabytes=99,
    ),
    "sscd-torchscript": WeightFile(
        name="sscd-torchscript",
        hash="sscd",
        file="sscd_disc_mixup.torchscript.pt",
        address=f"{SSCD}/sscd_disc_mixup.torchscript.pt",
        licence="MIT",
        megabytes=99,
    ),
    "sscd-large": WeightFile(
        name="sscd-large",
        hash="sscd-large",
        file="sscd_disc_large.torchscript.pt",
        address=f"{SSCD}/sscd_disc_large.torchscript.pt",
        licence="MIT",
        megabytes=178,
    ),
    "sscd-large-classy": WeightFile(
        name="sscd-large-classy",
        hash="sscd-large",
        file="sscd_disc_large.classy.pt",
        address=f"{SSCD}/sscd_disc_large.classy.pt",
        licence="MIT",
        megabytes=178,
    ),
    "c-pdna": WeightFile(
        name="c-pdna",
        hash="c-pdna",
        file="ckpt_best.pth",
        address=CERTPHASH,
        licence="none stated",
        note="in a folder coco_photodna_epN, where N/255 is the l_inf it was trained for",
        megabytes=11,
    ),
    "c-pdq": WeightFile(
        name="c-pdq",
        hash="c-pdq",
        file="ckpt_best.pth",
        address=CERTPHASH,
        licence="none stated",
        note="in a folder mnist_pdq_epN, where N/255 is the l_inf it was trained for",
        megabytes=18,
    ),
}


def weight_file(name: str) -> WeightFile:
    """The entry called ``name``."""
    if name not in CATALOGUE:
        raise InputError(f"unknown weights {name!r}: use one of {', '.join(CATALOGUE)}")
    return CATALOGUE[name]
