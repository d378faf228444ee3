"""The published models; the fixture `real_model` reads them."""

REAL_MODELS = (
    "deeplabv3_257_mv_gpu",
    "face_detection_front",
    "face_landmark",
    "mnist_model",
    "twins/twin_mobilenet_v1_1.0_224",
    "twins/twin_posenet_mobilenet_v1_075_353x257",
    "twins/twin_ssd_mobilenet_v2_300",
)
"""They run wholly on the GPU, as the real numbers that their tensors are."""

OTHER_MODELS = (
    "face_detection_short_range",
    "hair_segmentation",
    "keras_lstm_mnist_ptq",
    "mobilenet_v1_0.25_128_quant",
    "mobilenet_v2_1.0_224_quant",
    "posenet_mobilenet_v1_100_257_integer_quant",
    "selfie_segmenter",
    "style_transfer_f16_384",
    "tf2_mobilenet_v2_1.0_224_ptq",
)
"""With 8-bit tensors, packed weights, or nodes that the GPU does not take."""
