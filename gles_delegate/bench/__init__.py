"""Measurements: the speed of devices and models, and differences from LiteRT."""
