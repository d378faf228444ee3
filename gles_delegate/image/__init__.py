"""Pictures to tensors, and tensors to pictures, with numpy twins."""
