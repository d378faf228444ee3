"""What lowerings share: the declaration of ops, and the geometry of tensors and windows."""
