"""A dispatch to GLSL text, and the compiler's messages back to our files."""
