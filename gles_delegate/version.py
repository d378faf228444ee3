"""The version of the package."""

__version__ = "1.1.1"
