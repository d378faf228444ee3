"""The part of the TFLite schema that tests write, and tables of it packed into bytes.

Written by hand from tensorflow/lite/schema/schema.fbs, so that models are made without LiteRT;
tests/litert/test_schema.py compares it with LiteRT's own.
"""

from collections.abc import Mapping
from typing import Any

import flatbuffers
import numpy as np

Values = Mapping[str, Any]
"""A table: its fields by name. A field that is left out is absent from the bytes."""

CLAMP = "fused_activation_function:int8"
STRIDE = "padding:int8 stride_w:int32 stride_h:int32"
DILATION = "dilation_w_factor:int32 dilation_h_factor:int32"

_FIELDS = {
    "Model": (
        "version:uint32 operator_codes:[OperatorCode] subgraphs:[SubGraph] description:string "
        "buffers:[Buffer] metadata_buffer:[int32] metadata:[Metadata] "
        "signature_defs:[SignatureDef] external_buffer_groups:[ExternalBufferGroup] "
        "external_buffers:[ExternalBuffer]"
    ),
    "OperatorCode": "deprecated_builtin_code:int8 custom_code:string version:int32 "
    "builtin_code:int32",
    "SubGraph": "tensors:[Tensor] inputs:[int32] outputs:[int32] operators:[Operator] name:string",
    "Buffer": "data:bytes offset:uint64 size:uint64",
    "ExternalBufferGroup": "name:string",
    "ExternalBuffer": "id:uint32 group:uint32 offset:uint64 length:uint64 packing:string",
    "Metadata": "name:string buffer:uint32",
    "Tensor": (
        "shape:[int32] type:int8 buffer:uint32 name:string quantization:QuantizationParameters "
        "is_variable:bool sparsity:SparsityParameters shape_signature:[int32] has_rank:bool "
        "- external_buffer:uint32"
    ),
    "QuantizationParameters": (
        "min:[float32] max:[float32] scale:[float32] zero_point:[int64] details_type:uint8 "
        "details:union quantized_dimension:int32"
    ),
    "BlockwiseQuantization": "scales:int32 zero_points:int32 block_size:int32",
    "SparsityParameters": "traversal_order:[int32] block_map:[int32]",
    "Operator": (
        "opcode_index:uint32 inputs:[int32] outputs:[int32] builtin_options_type:uint8 "
        "builtin_options:union custom_options:[uint8] custom_options_format:int8 "
        "mutating_variable_inputs:[bool] intermediates:[int32] large_custom_options_offset:uint64 "
        "large_custom_options_size:uint64 builtin_options_2_type:uint8 builtin_options_2:union"
    ),
    "SignatureDef": "inputs:[TensorMap] outputs:[TensorMap] signature_key:string - "
    "subgraph_index:uint32",
    "TensorMap": "name:string tensor_index:uint32",
    "AddOptions": f"{CLAMP} pot_scale_int16:bool",
    "ArgMaxOptions": "output_type:int8",
    "ArgMinOptions": "output_type:int8",
    "BidirectionalSequenceLSTMOptions": (
        f"{CLAMP} cell_clip:float32 proj_clip:float32 merge_outputs:bool time_major:bool "
        "asymmetric_quantize_inputs:bool"
    ),
    "BidirectionalSequenceRNNOptions": (
        f"time_major:bool {CLAMP} merge_outputs:bool asymmetric_quantize_inputs:bool"
    ),
    "BatchMatMulOptions": "adj_x:bool adj_y:bool asymmetric_quantize_inputs:bool",
    "BucketizeOptions": "boundaries:[float32]",
    "StablehloCaseOptions": "branch_subgraph_indices:[int32]",
    "StablehloCompareOptions": "comparison_direction:uint32 compare_type:uint32",
    "StablehloSortOptions": "dimension:int64 is_stable:bool comparator_subgraph_index:int32",
    "StablehloReduceWindowOptions": "window_dimensions:[int64] window_strides:[int64] "
    "base_dilations:[int64] window_dilations:[int64] padding:[int64] body_subgraph_index:int32",
    "StablehloGatherOptions": "offset_dims:[int64] collapsed_slice_dims:[int64] "
    "start_index_map:[int64] index_vector_dim:int64 slice_sizes:[int64] indices_are_sorted:bool",
    "StablehloPadOptions": "edge_padding_low:[int64] edge_padding_high:[int64] "
    "interior_padding:[int64]",
    "StablehloScatterOptions": "indices_are_sorted:bool update_window_dims:[int64] "
    "inserted_window_dims:[int64] scatter_dims_to_operand_dims:[int64] index_vector_dim:int64 "
    "unique_indices:bool update_computation_subgraph_index:int32",
    "RandomOptions": "seed:int64 seed2:int64",
    "CastOptions": "in_data_type:int8 out_data_type:int8",
    "ConcatenationOptions": f"axis:int32 {CLAMP}",
    "Conv3DOptions": (
        f"padding:int8 stride_d:int32 stride_w:int32 stride_h:int32 {CLAMP} "
        "dilation_d_factor:int32 dilation_w_factor:int32 dilation_h_factor:int32"
    ),
    "Conv2DOptions": f"{STRIDE} {CLAMP} {DILATION} quantized_bias_type:int8",
    "CumsumOptions": "exclusive:bool reverse:bool",
    "DepthToSpaceOptions": "block_size:int32",
    "DepthwiseConv2DOptions": f"{STRIDE} depth_multiplier:int32 {CLAMP} {DILATION}",
    "DivOptions": CLAMP,
    "FakeQuantOptions": "min:float32 max:float32 num_bits:int32 narrow_range:bool",
    "FullyConnectedOptions": (
        f"{CLAMP} weights_format:int8 keep_num_dims:bool asymmetric_quantize_inputs:bool"
    ),
    "GatherOptions": "axis:int32 batch_dims:int32",
    "GeluOptions": "approximate:bool",
    "CallOnceOptions": "init_subgraph_index:int32",
    "CallOptions": "subgraph:uint32",
    "IfOptions": "then_subgraph_index:int32 else_subgraph_index:int32",
    "VarHandleOptions": "container:string shared_name:string",
    "WhileOptions": "cond_subgraph_index:int32 body_subgraph_index:int32",
    "L2NormOptions": CLAMP,
    "LSTMOptions": (
        f"{CLAMP} cell_clip:float32 proj_clip:float32 kernel_type:int8 "
        "asymmetric_quantize_inputs:bool"
    ),
    "LeakyReluOptions": "alpha:float32",
    "LocalResponseNormalizationOptions": "radius:int32 bias:float32 alpha:float32 beta:float32",
    "MirrorPadOptions": "mode:int8",
    "MulOptions": CLAMP,
    "OneHotOptions": "axis:int32",
    "PackOptions": "values_count:int32 axis:int32",
    "Pool2DOptions": f"{STRIDE} filter_width:int32 filter_height:int32 {CLAMP}",
    "RNNOptions": f"{CLAMP} asymmetric_quantize_inputs:bool",
    "ReducerOptions": "keep_dims:bool",
    "ReshapeOptions": "new_shape:[int32]",
    "ResizeBilinearOptions": "- - align_corners:bool half_pixel_centers:bool",
    "ResizeNearestNeighborOptions": "align_corners:bool half_pixel_centers:bool",
    "ReverseSequenceOptions": "seq_dim:int32 batch_dim:int32",
    "ShapeOptions": "out_type:int8",
    "SVDFOptions": f"rank:int32 {CLAMP} asymmetric_quantize_inputs:bool",
    "SequenceRNNOptions": f"time_major:bool {CLAMP} asymmetric_quantize_inputs:bool",
    "SoftmaxOptions": "beta:float32",
    "SpaceToDepthOptions": "block_size:int32",
    "SplitOptions": "num_splits:int32",
    "SplitVOptions": "num_splits:int32",
    "SqueezeOptions": "squeeze_dims:[int32]",
    "StridedSliceOptions": (
        "begin_mask:int32 end_mask:int32 ellipsis_mask:int32 new_axis_mask:int32 "
        "shrink_axis_mask:int32 offset:bool"
    ),
    "StableHLOCompositeOptions": "name:string decomposition_subgraph_index:int32 "
    "composite_attributes:[uint8]",
    "SubOptions": f"{CLAMP} pot_scale_int16:bool",
    "TransposeConvOptions": f"{STRIDE} {CLAMP} quantized_bias_type:int8",
    "UnidirectionalSequenceLSTMOptions": (
        f"{CLAMP} cell_clip:float32 proj_clip:float32 time_major:bool "
        "asymmetric_quantize_inputs:bool diagonal_recurrent_tensors:bool"
    ),
    "UnpackOptions": "num:int32 axis:int32",
}

TABLES: dict[str, dict[str, tuple[int, str]]] = {
    table: {
        field.split(":")[0]: (slot, field.split(":")[1])
        for slot, field in enumerate(fields.split())
        if field != "-"
    }
    for table, fields in _FIELDS.items()
}
"""The fields of each table: slot and type. An options table not named here is empty."""

BUILTIN_OPTIONS = tuple(
    """
    NONE Conv2DOptions DepthwiseConv2DOptions ConcatEmbeddingsOptions LSHProjectionOptions
    Pool2DOptions SVDFOptions RNNOptions FullyConnectedOptions SoftmaxOptions ConcatenationOptions
    AddOptions L2NormOptions LocalResponseNormalizationOptions LSTMOptions ResizeBilinearOptions
    CallOptions ReshapeOptions SkipGramOptions SpaceToDepthOptions EmbeddingLookupSparseOptions
    MulOptions PadOptions GatherOptions BatchToSpaceNDOptions SpaceToBatchNDOptions TransposeOptions
    ReducerOptions SubOptions DivOptions SqueezeOptions SequenceRNNOptions StridedSliceOptions
    ExpOptions TopKV2Options SplitOptions LogSoftmaxOptions CastOptions DequantizeOptions
    MaximumMinimumOptions ArgMaxOptions LessOptions NegOptions PadV2Options GreaterOptions
    GreaterEqualOptions LessEqualOptions SelectOptions SliceOptions TransposeConvOptions
    SparseToDenseOptions TileOptions ExpandDimsOptions EqualOptions NotEqualOptions ShapeOptions
    PowOptions ArgMinOptions FakeQuantOptions PackOptions LogicalOrOptions OneHotOptions
    LogicalAndOptions LogicalNotOptions UnpackOptions FloorDivOptions SquareOptions ZerosLikeOptions
    FillOptions BidirectionalSequenceLSTMOptions BidirectionalSequenceRNNOptions
    UnidirectionalSequenceLSTMOptions FloorModOptions RangeOptions ResizeNearestNeighborOptions
    LeakyReluOptions SquaredDifferenceOptions MirrorPadOptions AbsOptions SplitVOptions
    UniqueOptions ReverseV2Options AddNOptions GatherNdOptions CosOptions WhereOptions RankOptions
    ReverseSequenceOptions MatrixDiagOptions QuantizeOptions MatrixSetDiagOptions HardSwishOptions
    IfOptions WhileOptions DepthToSpaceOptions NonMaxSuppressionV4Options NonMaxSuppressionV5Options
    ScatterNdOptions SelectV2Options DensifyOptions SegmentSumOptions BatchMatMulOptions
    CumsumOptions CallOnceOptions BroadcastToOptions Rfft2dOptions Conv3DOptions HashtableOptions
    HashtableFindOptions HashtableImportOptions HashtableSizeOptions VarHandleOptions
    ReadVariableOptions AssignVariableOptions RandomOptions BucketizeOptions GeluOptions
    DynamicUpdateSliceOptions UnsortedSegmentProdOptions UnsortedSegmentMaxOptions
    UnsortedSegmentMinOptions UnsortedSegmentSumOptions ATan2Options SignOptions BitcastOptions
    BitwiseXorOptions RightShiftOptions
    """.split()  # noqa: SIM905
)
"""Names of options tables by their number in ``union BuiltinOptions``."""

ENUMS: dict[str, tuple[str, ...]] = {
    "padding": ("SAME", "VALID"),
    "fused_activation_function": ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT"),
    "mode": ("REFLECT", "SYMMETRIC"),
    "weights_format": ("DEFAULT", "SHUFFLED4x16INT8"),
    "kernel_type": ("FULL", "BASIC"),
}
"""For each field that holds an enum, the names by their numbers."""


def pack(builder: flatbuffers.Builder, table: str, values: Values) -> int:
    """Write a table and what it refers to; the offset of the table.

    Instead of what a field refers to, ``values`` may have the offset at which it was written.
    """
    fields = TABLES.get(table, {})
    unknown = set(values) - set(fields)
    if unknown:
        raise TypeError(f"{table} has no field {', '.join(sorted(unknown))}")
    given = [(*fields[name], value) for name, value in values.items() if value is not None]
    packed = [(slot, kind, _referred(builder, kind, value)) for slot, kind, value in given]
    builder.StartObject(max((slot for slot, _ in fields.values()), default=-1) + 1)
    for slot, kind, value in packed:
        if _is_scalar(kind):
            getattr(builder, f"Prepend{kind.capitalize()}Slot")(slot, value, None)
        else:
            builder.PrependUOffsetTRelativeSlot(slot, value, 0)
    return int(builder.EndObject())


def pack_model(model: Values, builder: flatbuffers.Builder | None = None) -> bytes:
    """The bytes of a model, written behind what the builder may hold already."""
    builder = builder or flatbuffers.Builder(1024)
    builder.Finish(pack(builder, "Model", model), file_identifier=b"TFL3")
    return bytes(builder.Output())


def _is_scalar(kind: str) -> bool:
    return kind in ("bool", "int8", "uint8", "int32", "uint32", "int64", "uint64", "float32")


def _referred(builder: flatbuffers.Builder, kind: str, value: Any) -> Any:
    """A number as it is, which may be an offset; of anything else, where it was written."""
    if _is_scalar(kind) or isinstance(value, int):
        return value
    if kind == "string":
        return builder.CreateString(value)
    if kind == "bytes":
        return _aligned(builder, value)
    if kind == "union":
        return pack(builder, *value)
    if not kind.startswith("["):
        return pack(builder, kind, value)
    element = kind[1:-1]
    if element not in TABLES:
        return builder.CreateNumpyVector(np.array(value, element))
    offsets = [_referred(builder, element, each) for each in value]
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()


def _aligned(builder: flatbuffers.Builder, data: bytes) -> int:
    """A vector of bytes, aligned as the schema demands of a buffer's (``force_align: 16``)."""
    builder.StartVector(1, len(data), 16)
    builder.head = head = builder.head - len(data)
    builder.Bytes[head : head + len(data)] = data
    return int(builder.EndVector())
