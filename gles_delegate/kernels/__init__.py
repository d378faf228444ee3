"""Kernels: the shaders, tiles and work groups by which a device computes products."""
