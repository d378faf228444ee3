"""What every package shares: cleanup, threads and optional packages."""
