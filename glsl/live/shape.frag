#version 310 es

// The share of a pixel that an item of a drawing covers: gles_apps/vision/drawing.py has the
// same formulas in numpy, and tests/gl/test_live.py compares the pixels.
#ifndef ASSEMBLED
precision highp float;
#endif
uniform sampler2D letters;
flat in vec4 line;
flat in float reach;
flat in vec4 paint;
in vec2 position, glyph;
out vec4 color;

void main() {
  float coverage = 1.0;
  if (reach >= 0.0) {
    vec2 along = line.zw - line.xy, from = position - line.xy;
    float share = clamp(dot(from, along) / max(dot(along, along), 1e-6), 0.0, 1.0);
    coverage = clamp(reach + 0.5 - length(from - share * along), 0.0, 1.0);
  } else if (glyph.x >= 0.0) {
    coverage = texelFetch(letters, ivec2(glyph), 0).r;
  }
  color = vec4(paint.rgb, paint.a * coverage);
}
