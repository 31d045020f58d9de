"""The weight files that hashes can use, and where their authors publish them. No weights are bundled."""

from __future__ import annotations

from dataclasses import dataclass

from dualshield.errors import InputError

SSCD = "https://dl.fbaipublicfiles.com/sscd-copy-detection"
CERTPHASH = "https://drive.google.com/drive/folders/1b7RbO-uDdlvsxgsxE4H-tjrdGVx7pVRu"

DINOHASH = "https://huggingface.co/backslashh/DINOHash/resolve/main"
# Two versions of the authors' arrays: first 96 components, later 384 (ViT-S) and 512 (ViT-B).
DINOHASH_ARRAYS = (
    "https://raw.githubusercontent.com/proteus-photos/dinohash-perceptual-hash/"
    "195681c08fd9cb63fcd0c711a02ef31d4981e29e/hashes"
)
DINOHASH_LATER_ARRAYS = (
    "https://raw.githubusercontent.com/Xenonwizard/dinohash-perceptual-hash/"
    "14cc3c74952ece7e6424bd8badacf4f2d175ab60/hashes"
)
DINOHASH_LICENCE = "none stated (the authors' Node package says MIT)"
DINOHASH_PAIRED = "fits only one version of the network"
SIMDINO = "https://drive.usercontent.google.com/download?export=download&confirm=t&id"
SIMDINO_NOTE = "linked in the README of github.com/RobinWu218/SimDINO, possibly under another name"


@dataclass(frozen=True)
class WeightFile:
    """One file that a hash can be loaded from."""

    name: str  # the NAME in: dualshield weights import NAME FILE
    hash: str  # the hash it belongs to
    file: str  # the authors' file name
    address: str | None  # None: not published
    licence: str
    note: str = ""
    sha256: str | None = None  # None: unknown; any file that loads as this model is accepted
    megabytes: int | None = None
    command: str | None = None  # creates a file that is fitted locally instead of downloaded

    @property
    def how_to_get(self) -> str:
        """Instructions for the user: where to get the file and how to import it, or the command that creates it."""
        if self.command is not None:
            return f"run: {self.command}"
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
        note="in a folder coco_photodna_epN, where N/255 is the l_inf bound it was trained for",
        megabytes=11,
    ),
    "c-pdq": WeightFile(
        name="c-pdq",
        hash="c-pdq",
        file="ckpt_best.pth",
        address=CERTPHASH,
        licence="none stated",
        note="in a folder mnist_pdq_epN, where N/255 is the l_inf bound it was trained for",
        megabytes=18,
    ),
    "dinohash-onnx": WeightFile(
        name="dinohash-onnx",
        hash="dinohash",
        file="dinov2_vits14_reg_96bit.onnx",
        address=f"{DINOHASH}/dinov2_vits14_reg_96bit.onnx",
        licence=DINOHASH_LICENCE,
        note="or dinov2_vits14_reg_96bit_dynamic.onnx beside it",
        megabytes=90,
    ),
    "dinohash-state": WeightFile(
        name="dinohash-state",
        hash="dinohash",
        file="dinov2_0.0001_500.0_20000_10.pth",
        address=None,
        licence=DINOHASH_LICENCE,
        note="Meta's dinov2_vits14_reg4_pretrain.pth loads too, but lacks the authors' adversarial training",
        megabytes=89,
    ),
    "dinohash-pca": WeightFile(
        name="dinohash-pca",
        hash="dinohash",
        file="dinov2_vits14_reg_PCA.npy",
        address=f"{DINOHASH_ARRAYS}/dinov2_vits14_reg_PCA.npy",
        licence=DINOHASH_LICENCE,
        note=DINOHASH_PAIRED,
        megabytes=1,
    ),
    "dinohash-means": WeightFile(
        name="dinohash-means",
        hash="dinohash",
        file="dinov2_vits14_reg_means.npy",
        address=f"{DINOHASH_ARRAYS}/dinov2_vits14_reg_means.npy",
        licence=DINOHASH_LICENCE,
        note=DINOHASH_PAIRED,
        megabytes=1,
    ),
    "dinohash-512-onnx": WeightFile(
        name="dinohash-512-onnx",
        hash="dinohash-512",
        file="dinov2_vitb14_reg_512bit_dynamic.onnx",
        address=f"{DINOHASH}/dinov2_vitb14_reg_512bit_dynamic.onnx",
        licence=DINOHASH_LICENCE,
        megabytes=348,
    ),
    "dinohash-512-state": WeightFile(
        name="dinohash-512-state",
        hash="dinohash-512",
        file="dinov2_0.0001_500_17982_20.pth",
        address=None,
        licence=DINOHASH_LICENCE,
        note="Meta's dinov2_vitb14_reg4_pretrain.pth loads too, but lacks the authors' adversarial training",
        megabytes=347,
    ),
    "dinohash-512-pca": WeightFile(
        name="dinohash-512-pca",
        hash="dinohash-512",
        file="dinov2_vitb14_reg_PCA.npy",
        address=f"{DINOHASH_LATER_ARRAYS}/dinov2_vitb14_reg_PCA.npy",
        licence=DINOHASH_LICENCE,
        note=DINOHASH_PAIRED,
        megabytes=4,
    ),
    "dinohash-512-means": WeightFile(
        name="dinohash-512-means",
        hash="dinohash-512",
        file="dinov2_vitb14_reg_means.npy",
        address=f"{DINOHASH_LATER_ARRAYS}/dinov2_vitb14_reg_means.npy",
        licence=DINOHASH_LICENCE,
        note=DINOHASH_PAIRED,
        megabytes=1,
    ),
    "hybridhash": WeightFile(
        name="hybridhash",
        hash="hybridhash",
        file="model.pt",
        address=None,
        licence="none stated",
        note="the state_dict of a network trained with the code of github.com/shuaichaochao/HybridHash",
        megabytes=223,
    ),
    "simdino-vitb": WeightFile(
        name="simdino-vitb",
        hash="simdino",
        file="simdino_vitb16.pth",
        address=f"{SIMDINO}=1nqcX0IgKQ8H3ZFJKaEx_O5wTVqdorLyQ",
        licence="MIT",
        note=SIMDINO_NOTE,
    ),
    "simdino-vitl": WeightFile(
        name="simdino-vitl",
        hash="simdino",
        file="simdino_vitl16.pth",
        address=f"{SIMDINO}=1jy27VYHHSxllMqWr5DiKk80y9ZBrKkPV",
        licence="MIT",
        note=SIMDINO_NOTE,
    ),
    "simdino-projection": WeightFile(
        name="simdino-projection",
        hash="simdino",
        file="simdino-projection.npz",
        address=None,
        licence="yours",
        command="dualshield weights fit simdino --images DIR",
    ),
    "simdino-v2-vitb": WeightFile(
        name="simdino-v2-vitb",
        hash="simdino-v2",
        file="simdinov2_vitb16.pth",
        address=f"{SIMDINO}=1g_f3aEFdfiKCn8IH11Y4FwtEDu1pPbQv",
        licence="MIT (code Apache-2.0)",
        note=SIMDINO_NOTE,
    ),
    "simdino-v2-vitl": WeightFile(
        name="simdino-v2-vitl",
        hash="simdino-v2",
        file="simdinov2_vitl16.pth",
        address=f"{SIMDINO}=1IotEWszh1chGtzwl8X_ul6j3ACT7Tn6i",
        licence="MIT (code Apache-2.0)",
        note=SIMDINO_NOTE,
    ),
    "simdino-v2-projection": WeightFile(
        name="simdino-v2-projection",
        hash="simdino-v2",
        file="simdino-v2-projection.npz",
        address=None,
        licence="yours",
        command="dualshield weights fit simdino-v2 --images DIR",
    ),
    "vit2hash": WeightFile(
        name="vit2hash",
        hash="vit2hash",
        file="DATASET-BITS-MAP-model.pt",
        address=None,
        licence="none stated",
        note="the state_dict of a network trained with the code of github.com/AKAGB/IPHash-pytorch",
        megabytes=694,
    ),
}


def weight_file(name: str) -> WeightFile:
    """Return the catalogue entry ``name``."""
    if name not in CATALOGUE:
        raise InputError(f"unknown weights {name!r}: use one of {', '.join(CATALOGUE)}")
    return CATALOGUE[name]
