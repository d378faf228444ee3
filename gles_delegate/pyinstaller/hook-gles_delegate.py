"""Ops are discovered, shaders are data, and commands are entry points: PyInstaller sees none."""

from PyInstaller.utils.hooks import collect_all, copy_metadata

datas, binaries, hiddenimports = collect_all("gles_delegate")
datas += copy_metadata("gles_delegate")
