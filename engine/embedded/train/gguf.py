"""Writes GGUF files, version 3: little endian, typed keys, a directory of tensors, data
aligned to 32 bytes. Only what the embedded models need."""

import struct

import numpy as np

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
_SCALAR = {U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}
ALIGN = 32

# Storage types: number in the directory, and general.file_type of files made of them.
TYPES = {"F32": (0, 0), "F16": (1, 1), "Q8_0": (8, 7)}
Q8_BLOCK = 32


def _string(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def _value(kind, v):
    if kind == STRING:
        return _string(v)
    if kind == ARRAY:
        element, items = v
        return struct.pack("<IQ", element, len(items)) + b"".join(_value(element, x) for x in items)
    return struct.pack(_SCALAR[kind], v)


def q8_0(x):
    """Blocks of 32 values: a float16 scale, then int8, rounded half away from zero."""
    blocks = x.reshape(-1, Q8_BLOCK).astype(np.float32)
    scale = np.abs(blocks).max(axis=1) / np.float32(127)
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    y = blocks * inverse[:, None]
    out = np.empty(len(blocks), dtype=[("scale", "<f2"), ("q", "i1", Q8_BLOCK)])
    out["scale"] = scale
    out["q"] = np.sign(y) * np.floor(np.abs(y) + np.float32(0.5))
    return out.tobytes()


def from_q8_0(data, shape):
    """The values of Q8_0 blocks."""
    b = np.frombuffer(data, dtype=[("scale", "<f2"), ("q", "i1", Q8_BLOCK)])
    return (b["scale"].astype(np.float32)[:, None] * b["q"]).reshape(shape)


def encode(kind, x):
    if kind == "Q8_0":
        return q8_0(x)
    return x.astype({"F32": "<f4", "F16": "<f2"}[kind]).tobytes()


def write(path, keys, tensors):
    """keys: (name, type, value); tensors: (name, storage type, array of the shape that
    a torch tensor would have: the contiguous dimension last)."""
    directory, blobs, offset = b"", [], 0
    for name, kind, x in tensors:
        data = encode(kind, x)
        data += b"\0" * (-len(data) % ALIGN)
        directory += _string(name) + struct.pack("<I", x.ndim) + struct.pack(f"<{x.ndim}Q", *reversed(x.shape))
        directory += struct.pack("<IQ", TYPES[kind][0], offset)
        blobs.append(data)
        offset += len(data)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(blobs), len(keys))
    head += b"".join(_string(k) + struct.pack("<I", t) + _value(t, v) for k, t, v in keys) + directory
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % ALIGN))
        for data in blobs:
            f.write(data)
