"""Run a custom op on the GPU: declared here, implemented in posterize.glsl.

    python examples/custom_op.py [PICTURE] --levels 4 --output posterized.png

LiteRT has no op "Posterize", so a model that contains it only runs where the op is declared.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import flatbuffers
import numpy as np
import skimage.data
from ai_edge_litert import schema_py_generated as schema
from imaging import ending_in_a_sentence, load_picture, require_inputs_kept, save_picture
from PIL import Image

import gles_delegate as gd
from gles_delegate.ops import Dispatch, NodeView, Options, Unsupported, make_grid, op

SHADER = str(Path(__file__).resolve().with_name("posterize"))


@op("Posterize")
def posterize(node: NodeView, options: Options) -> list[Dispatch]:
    """Lower a node to one dispatch of the shader, or raise `Unsupported` with the reason."""
    custom = node.custom_options
    levels = int.from_bytes(custom.tobytes(), "little") if custom is not None else 0
    if levels < 2:
        raise Unsupported(f"{levels} levels; expected at least 2")
    x = node.input(0)
    output = node.output(x.shape)
    grid = make_grid(output.pixels, output.slices, node.limits)
    return [node.dispatch(SHADER, (x,), output, grid, {"LEVELS": levels})]


def make_model(shape: tuple[int, ...], levels: int) -> bytes:
    """A .tflite model that consists of this op."""
    tensors = [schema.TensorT(), schema.TensorT()]
    for tensor, name in zip(tensors, (b"image", b"posterized"), strict=True):
        tensor.shape = list(shape)
        tensor.name = name
    node = schema.OperatorT()
    node.inputs = [0]
    node.outputs = [1]
    node.customOptions = list(levels.to_bytes(4, "little"))
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    code.customCode = b"Posterize"
    graph = schema.SubGraphT()
    graph.tensors = tensors
    graph.operators = [node]
    graph.inputs = [0]
    graph.outputs = [1]
    model = schema.ModelT()
    model.version = 3
    model.operatorCodes = [code]
    model.subgraphs = [graph]
    model.buffers = [schema.BufferT()]
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


@ending_in_a_sentence()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path, nargs="?", help="default: a photograph of a cat")
    parser.add_argument(
        "--levels", type=int, default=4, choices=range(2, 257), metavar="N", help="per channel"
    )
    parser.add_argument("--output", type=Path, default=Path("posterized.png"))
    arguments = parser.parse_args()
    require_inputs_kept(arguments, [arguments.output])

    if arguments.picture:
        picture = load_picture(arguments.picture)
    else:
        picture = Image.fromarray(skimage.data.chelsea())
    image = np.asarray(picture, np.float32)[np.newaxis] / 255
    content = make_model(image.shape, arguments.levels)
    with gd.Interpreter(model_content=content) as interpreter:
        result = interpreter.run({"image": image})["posterized"]
    save_picture(Image.fromarray((result[0] * 255).astype(np.uint8)), arguments.output)
    print(f"{arguments.levels} levels per color channel: {arguments.output}")


if __name__ == "__main__":
    main()
