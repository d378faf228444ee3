#version 310 es
#extension GL_GOOGLE_include_directive : require

// The corners (top, left, bottom, right) of boxes that X gives relative to ANCHORS; both hold center
// and size (y, x, height, width).
#ifndef ASSEMBLED
#define Y_SCALE 10.0
#define X_SCALE 10.0
#define H_SCALE 5.0
#define W_SCALE 5.0
#endif
#include "lib/tensor.glsl"

INPUT0(X)
INPUT1(ANCHORS)

void main() {
  int pixel = PIXEL_INVOCATION;
  if (pixel >= OUT_PIXELS) return;
  vec4 box = LOAD(X, pixel) / vec4(Y_SCALE, X_SCALE, H_SCALE, W_SCALE),
       anchor = LOAD(ANCHORS, pixel);
  vec2 centre = box.xy * anchor.zw + anchor.xy, half_size = 0.5 * exp(box.zw) * anchor.zw;
  store(0, pixel, vec4(centre - half_size, centre + half_size));
}
