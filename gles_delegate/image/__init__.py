"""How pictures become tensors, and tensors pictures; with the same in numpy."""
