"""PyInstaller's hook for this package, so that frozen apps have its ops and shaders."""


def hook_dirs() -> list[str]:
    """The folders of hooks; PyInstaller calls it by an entry point."""
    return [*__path__]
