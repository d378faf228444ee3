"""Photographs that ship with scikit-image and scikit-learn, with the licenses that these state."""

from __future__ import annotations

from dataclasses import dataclass

import skimage.data
from PIL import Image
from sklearn.datasets import load_sample_image


@dataclass(frozen=True)
class Photo:
    """A photograph in a Python package; author and license as the package states them."""

    name: str
    package: str
    author: str
    licence: str

    def __str__(self) -> str:
        return f"{self.name} ({self.package}), by {self.author}: {self.licence}"

    def load(self) -> Image.Image:
        """The photograph as an 8-bit RGB image."""
        if self.package == "scikit-learn":
            return Image.fromarray(load_sample_image(f"{self.name}.jpg"))
        return Image.fromarray(getattr(skimage.data, self.name)()).convert("RGB")


TRAINING = (
    Photo("coffee", "scikit-image", "Rachel Michetti, Pikolo Espresso Bar", "CC0"),
    Photo("camera", "scikit-image", "Lav Varshney", "CC0"),
    Photo("brick", "scikit-image", "CC0Textures", "CC0"),
    Photo("grass", "scikit-image", "linolafett (DeviantArt)", "CC0"),
    Photo("gravel", "scikit-image", "CC0Textures", "CC0"),
    Photo("retina", "scikit-image", "Mikael Häggström", "CC0"),
    Photo("rocket", "scikit-image", "SpaceX", "public domain"),
    Photo("hubble_deep_field", "scikit-image", "NASA", "public domain"),
    Photo("china", "scikit-learn", "danielbuechele (Flickr)", "CC BY 2.0"),
    Photo("flower", "scikit-learn", "vultilion (Flickr)", "CC BY 2.0"),
)
HELD_OUT = (
    Photo("astronaut", "scikit-image", "NASA", "public domain"),
    Photo("chelsea", "scikit-image", "Stefan van der Walt", "CC0"),
)
