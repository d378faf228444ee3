"""Bundles of models as MediaPipe's own writer makes them."""

from io import BytesIO
from zipfile import ZIP_STORED, ZipFile

ALIGNED = 4


def aligned_bundle(compression: int = ZIP_STORED, **files: bytes) -> bytes:
    """A zip file with 1 to 4 zeros before each header, so that each member begins at a multiple of
    4 (model_asset_bundle_utils.py of MediaPipe).
    """
    target = BytesIO()
    with ZipFile(target, "w", compression) as bundle:
        for name, content in files.items():
            header = target.tell() + 30 + len(name)
            target.write(bytes(ALIGNED - header % ALIGNED))
            bundle.start_dir = target.tell()
            bundle.writestr(name, content)
    return target.getvalue()
