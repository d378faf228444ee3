"""Whether a device computes every kernel as LiteRT does: small models with known results."""
