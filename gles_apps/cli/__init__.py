"""Commands of apps, which ``gles-delegate`` finds by their entry points."""
