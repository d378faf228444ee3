"""The published models that run wholly on the GPU; the fixture `real_model` reads them."""

REAL_MODELS = (
    "deeplabv3_257_mv_gpu",
    "face_detection_front",
    "face_landmark",
    "mnist_model",
    "twins/twin_mobilenet_v1_1.0_224",
    "twins/twin_posenet_mobilenet_v1_075_353x257",
    "twins/twin_ssd_mobilenet_v2_300",
)
