"""Writes and reads GGUF files, version 3: little endian, typed keys, a directory of tensors, data
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


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def unpack(self, form):
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values if len(values) > 1 else values[0]

    def string(self):
        n = self.unpack("<Q")
        self.at += n
        return bytes(self.data[self.at - n:self.at]).decode()

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            element, n = self.unpack("<IQ")
            return [self.value(element) for _ in range(n)]
        return self.unpack(_SCALAR[kind])


def _decoded(kind, data, at, shape):
    count = int(np.prod(shape))
    if kind == "Q8_0":
        return from_q8_0(data[at:at + count // Q8_BLOCK * (Q8_BLOCK + 2)], shape)
    return np.frombuffer(data, {"F32": "<f4", "F16": "<f2"}[kind], count, at).astype(np.float32).reshape(shape)


def read(data):
    """What write wrote: keys by name, and tensors as float32 arrays by name."""
    r = _Reader(data)
    magic, version, count, n = r.unpack("<4sIQQ")
    if (magic, version) != (b"GGUF", 3):
        raise ValueError(f"not a GGUF file of version 3: {magic}, {version}")
    keys = {r.string(): r.value(r.unpack("<I")) for _ in range(n)}
    directory = []
    for _ in range(count):
        name, dims = r.string(), r.unpack("<I")
        shape = [r.unpack("<Q") for _ in range(dims)][::-1]
        directory.append((name, shape, *r.unpack("<IQ")))
    start = -(-r.at // ALIGN) * ALIGN
    kinds = {number: kind for kind, (number, _) in TYPES.items()}
    return keys, {name: _decoded(kinds[number], data, start + offset, shape) for name, shape, number, offset in directory}
