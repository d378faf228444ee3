"""Shared by lowerings: the op registry, and the geometry of tensors, windows and tiles."""
