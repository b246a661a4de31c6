"""Transforms of torchvision on PIL pictures."""

from resultant._core.vision import vision_module

# Also if the compiled operators of torchvision do not fit torch, as tests of this folder import it.
tv = vision_module("torchvision.transforms.functional")
