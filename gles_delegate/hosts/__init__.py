"""The public API: the delegate, and the interpreters that it runs in."""
