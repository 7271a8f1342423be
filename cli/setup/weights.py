"""Whether a file of weights is whole, without reading the weights."""

import json
from pathlib import Path


def safetensors_flaw(path: Path) -> str:
    """Why the file is not whole safetensors, by the length that its header states; or nothing."""
    if not path.is_file():
        return "no such file"
    size = path.stat().st_size
    with path.open("rb") as file:
        header_size = int.from_bytes(file.read(8), "little")
        header = file.read(header_size) if header_size < size else b""
    try:
        entries = [entry for name, entry in json.loads(header).items() if name != "__metadata__"]
        whole = 8 + header_size + max(entry["data_offsets"][1] for entry in entries)
    except (ValueError, AttributeError, KeyError, TypeError):
        return f"{size} bytes that are no safetensors file"
    return "" if size == whole else f"{size} bytes where its header says {whole}"
