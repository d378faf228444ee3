"""The published models; the fixture `real_model` reads them."""

from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

_SENSIBLE: dict[str, dict[int, NDArray[Any]]] = {
    "dynamic_shapes.bin": {2: np.full((1, 1), 17, np.float32)},  # rows of its result
    "simple_scatter_nd_op.tflite": {0: np.array([[0, 5, 1, 9], [0, 127, 3, 127]], np.int32)},
}


def sensible_inputs(name: str) -> dict[int, NDArray[Any]]:
    """Inputs, by tensor index, that random numbers do not suit, of a model by its file's name."""
    return _SENSIBLE.get(PurePath(name).name, {})


ONE_A_KERNEL = {
    "custom_ssd_mobilenet_v2_fpn_lite_320x320.tflite",
    "exports/jax_reduce_window.tflite",
    "exports/jax_scatter.tflite",
    "face_landmark_with_attention.tflite",
    "hair_segmentation.tflite",
    "keras_lstm_mnist_ptq.tflite",
    "litert/lstm.bin",
    "litert/max_unpooling_2d.tflite",
    "litert/simple_scatter_nd_op.tflite",
    "litert/static_w8_a16_quantized_q_einsum.tflite",
    "movenet_single_pose_lightning_ptq.tflite",
    "today/yolo26n_int8.tflite",
    "yamnet.tflite",
}
"""Files of the published folder that together use every shader that any of them uses."""
