"""Limits of a device, and the kernels that suit its family."""
