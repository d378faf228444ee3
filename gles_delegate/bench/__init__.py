"""Measurements: what a device reaches, how fast a model runs, how far it is from LiteRT."""
