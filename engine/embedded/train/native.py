"""C++ of this folder, compiled for the process that asks for it, in a few seconds."""

import ctypes
import functools
import os
import pathlib
import subprocess
import tempfile
import warnings


def library(name, machine="native", instead="torch's"):
    """NAME.cpp, compiled for a kind of machine and loaded; None, and a warning, where it cannot be."""
    source = pathlib.Path(__file__).with_name(name + ".cpp")
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / f"{name}.so"
        compiler = [os.environ.get("CXX", "c++"), "-std=c++17", "-O3", f"-march={machine}", "-shared", "-fPIC"]
        try:
            subprocess.run([*compiler, "-o", str(out), str(source)], check=True, capture_output=True)
            return ctypes.CDLL(str(out))
        except (OSError, subprocess.CalledProcessError) as e:
            warnings.warn(f"{name} is {instead}, which is slower: {e} {getattr(e, 'stderr', b'').decode(errors='replace')[:2000]}")
            return None


@functools.cache
def on_matrix_units(name):
    """The same for the matrix units (AMX) of an x86 CPU; None also where it has none, or does not let this process use them."""
    import torch
    if not getattr(torch.cpu, "get_capabilities", dict)().get("amx_bf16"):
        return None
    found = library(name, "sapphirerapids")
    return found if found and getattr(found, f"{name}_able")() else None


def call(function, inputs, sizes, outputs):
    """Calls a function of tensors, whole numbers and tensors again."""
    pointers = lambda tensors: (ctypes.c_void_p(t.data_ptr()) for t in tensors)
    function(*pointers(inputs), *map(ctypes.c_int64, sizes), *pointers(outputs))
