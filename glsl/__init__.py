"""The shaders, installed as the package ``gles_delegate.glsl``.

Without this file an editable install would not find them: its finder knows nested packages
that lie outside their parent's folder only by their ``__init__.py``.
"""
