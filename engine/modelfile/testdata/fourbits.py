#!/usr/bin/env python3
"""Writes fourbits.json: blocks and scales of a stack of experts of gpt-oss, and what transformers makes of them.

    fourbits.py > fourbits.json          (PyTorch, transformers 5.24)
"""
import json

import torch
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

EXPERTS, ROWS, BLOCKS = 2, 4, 2
index = torch.arange(EXPERTS * ROWS * BLOCKS * 16)
blocks = (index * 89 + index * index * 7 + 3).remainder(256).to(torch.uint8).reshape(EXPERTS, ROWS, BLOCKS, 16)
scales = (torch.arange(EXPERTS * ROWS * BLOCKS) * 5).remainder(9).add(122).to(torch.uint8).reshape(EXPERTS, ROWS, BLOCKS)
values = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
print(json.dumps(dict(blocks=blocks.flatten().tolist(), scales=scales.flatten().tolist(), shape=list(values.shape),
                      values=values.flatten().tolist())))
