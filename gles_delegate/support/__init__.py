"""Cleanup, threads and optional packages, for every other package."""
