"""The library by which programs choose this package as TFLite's external delegate.

`load_delegate` of any LiteRT or TFLite, and programs with an option such as ``--ext_delegate``,
load a library with the functions of tensorflow/lite/delegates/external/external_delegate.h. Ours
calls `create` and `destroy` of `gles_delegate.hosts.external`, in the Python of the process.
"""

from __future__ import annotations

from gles_delegate.litert.elf import DATA_AFTER_CODE, Code, code_library, require_machine

_IMPORTS = (
    "Py_IsInitialized",
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyImport_ImportModule",
    "PyObject_CallMethod",
    "PyLong_AsVoidPtr",
    "Py_DecRef",
    "PyErr_Print",
)
"""Functions of Python that the code calls, in the order of its table."""

# The assembler's text is in tests/support/assembly, with the offsets below.
_CODE = {
    "x86_64": bytes.fromhex(
        "53554154415541564883ec104989fc4989f589d34889cd488b05e2ff00004885c0747dffd085c074"
        "77ff15d9ff00004189c6488d3dc7010000ff15d9ff00004885c0746e4889c7488d35f2010000488d"
        "150b0200004c89e14d89e84189d948892c2431c0ff15b6ff00004885c074434989c44889c7ff15ad"
        "ff00004889c34c89e7ff15a9ff00004489f7ff1580ff00004889d84883c410415e415d415c5d5bc3"
        "488d3dd90100004885ed7402ffd531c0ebe1ff1580ff000031db488d3d3f0200004885ed74c1ffd5"
        "ebbd0000000000000000000000000000000000000000000000000000000000000000000000000000"
        "0000000000000000000000000000000053554883ec084889fb488b05f0fe00004885c0745affd085"
        "c07454ff15e7fe000089c5488d3dd6000000ff15e8fe00004885c0742c4889c7488d351101000048"
        "8d152a0100004889d931c0ff15cffe00004885c0740b4889c7ff15d1fe0000eb06ff15d1fe000089"
        "efff15a1fe00004883c4085d5bc3"
    ),
    "aarch64": bytes.fromhex(
        "fd7bbca9fd030091f35301a9f55b02a9f71b00f9f30300aaf40301aaf503022af60303aae9fe0758"
        "690400b420013fd620040034a9fe075820013fd6f703002a000e0010a9fe075820013fd6e00300b4"
        "810f001062100010e30313aae40314aae503152ae60316aac9fd075820013fd6c00200b4f30300aa"
        "89fd075820013fd6f40300aae00313aa49fd075820013fd6e003172ae9fb075820013fd6e00314aa"
        "f71b40f9f55b42a9f35341a9fd7bc4a8c0035fd6600e0010560000b4c0023fd6e0031faaf7ffff17"
        "89fb075820013fd6f4031faa60110010d6fdffb4c0023fd6ecffff17000000000000000000000000"
        "00000000000000000000000000000000fd7bbea9fd030091f35301a9f30300aa89f70758090300b4"
        "20013fd6c002003449f7075820013fd6f403002aa006001049f7075820013fd6400100b4a1080010"
        "82090010e30313aac9f6075820013fd6800000b4e9f6075820013fd603000014c9f6075820013fd6"
        "e003142a29f5075820013fd6f35341a9fd7bc2a8c0035fd6"
    ),
}
_FUNCTIONS = (("tflite_plugin_create_delegate", 0), ("tflite_plugin_destroy_delegate", 0x100))
MARK = b"gles_delegate.hosts.external"
"""The module that it calls, by which the library is known."""
_TEXTS = {
    0x200: MARK.decode(),
    0x240: "create",
    0x250: "destroy",
    0x260: "KKiK",
    0x270: "K",
    0x280: "gles_delegate runs in Python: expected a process with Python, found none",
    0x300: "gles_delegate could not be imported, for the reason on standard error: install it for "
    "this Python",
}
_SIZE = 0x400


def plugin_library(machine: str) -> bytes:
    """The library for a processor, as `platform.machine` names it.

    Raises:
        LiteRtError: There is none for it.
    """
    require_machine(machine)
    assert _SIZE < DATA_AFTER_CODE
    content = bytearray(_SIZE)
    content[: len(_CODE[machine])] = _CODE[machine]
    for offset, text in _TEXTS.items():
        content[offset : offset + len(text)] = text.encode()  # zeros follow
    return code_library(machine, Code(bytes(content), _FUNCTIONS, _IMPORTS))
