#!/usr/bin/env python3
"""Logits of small random checkpoints, by transformers on a CPU.

    record.py OUT_FOLDER [CASE...]          (PyTorch, transformers 5.24)
    record.py --long OUT_FOLDER CASE...     prompts of 4,096 tokens, of which only the last logits are kept

Each case below is a config. The model gets weights by a rule (gguftest.Hashed: a hash of
the tensor's name and the index), so that no weights need be kept: a recording has the
config, the name, type, shape, offset and scale of every tensor as save_pretrained stores
them, a prompt, the logits behind some of its tokens and those of a greedy continuation.
The weights are rounded to their type and computed with in float32.
"""
import json
import os
import sys
import tempfile

import numpy as np
import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM

SHAPE = dict(vocab_size=96, max_position_embeddings=8192, num_hidden_layers=2, initializer_range=0.02)
HYBRID = dict(SHAPE, head_dim=32, linear_key_head_dim=16, linear_value_head_dim=16, rms_norm_eps=1e-6)
MOE = dict(moe_intermediate_size=24, norm_topk_prob=True)
CASES = {
    "llama": ("llama", torch.bfloat16, dict(SHAPE, hidden_size=40, intermediate_size=56, num_attention_heads=5, num_key_value_heads=1, head_dim=16,
              tie_word_embeddings=True, rope_parameters=dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
                                                             high_freq_factor=4.0, original_max_position_embeddings=64))),
    "llama-bias": ("llama", torch.float32, dict(SHAPE, hidden_size=48, intermediate_size=40, num_attention_heads=6, num_key_value_heads=3,
                   attention_bias=True, tie_word_embeddings=False, rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=3.0))),
    "qwen2": ("qwen2", torch.float16, dict(SHAPE, hidden_size=56, intermediate_size=72, num_attention_heads=7, num_key_value_heads=7,
              tie_word_embeddings=True, rope_parameters=dict(rope_type="default", rope_theta=1e6))),
    "qwen3": ("qwen3", torch.bfloat16, dict(SHAPE, hidden_size=48, intermediate_size=64, num_attention_heads=9, num_key_value_heads=3, head_dim=24,
              tie_word_embeddings=False, rope_parameters=dict(rope_type="yarn", rope_theta=1e6, factor=4.0, original_max_position_embeddings=64))),
    "gemma3": ("gemma3_text", torch.bfloat16, dict(SHAPE, num_hidden_layers=4, hidden_size=42, intermediate_size=56, num_attention_heads=3,
               num_key_value_heads=1, head_dim=24, query_pre_attn_scalar=24, sliding_window=20, tie_word_embeddings=True,
               layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
               rope_parameters=dict(full_attention=dict(rope_type="linear", rope_theta=1e6, factor=8.0),
                                    sliding_attention=dict(rope_type="default", rope_theta=10000.0)))),
    "mistral": ("mistral", torch.bfloat16, dict(SHAPE, num_hidden_layers=3, hidden_size=40, intermediate_size=56, num_attention_heads=6,
                num_key_value_heads=2, head_dim=12, sliding_window=37, tie_word_embeddings=False,
                rope_parameters=dict(rope_type="default", rope_theta=1e6))),
    "glm4_moe": ("glm4_moe", torch.bfloat16, dict(SHAPE, **MOE, num_hidden_layers=3, hidden_size=40, intermediate_size=56, num_attention_heads=6,
                 num_key_value_heads=2, head_dim=16, use_qk_norm=True, attention_bias=True, n_routed_experts=7, num_experts_per_tok=3,
                 n_shared_experts=2, n_group=1, topk_group=1, routed_scaling_factor=1.5, first_k_dense_replace=1, tie_word_embeddings=False,
                 num_nextn_predict_layers=0, rope_parameters=dict(rope_type="default", rope_theta=1e6, partial_rotary_factor=0.5))),
    "glm4_moe-groups": ("glm4_moe", torch.float32, dict(SHAPE, hidden_size=48, intermediate_size=40, num_attention_heads=9,
                        num_key_value_heads=3, head_dim=8, use_qk_norm=False, attention_bias=False, moe_intermediate_size=20,
                        norm_topk_prob=False, n_routed_experts=12, num_experts_per_tok=2, n_shared_experts=1, n_group=4, topk_group=2,
                        routed_scaling_factor=1.0, first_k_dense_replace=0, tie_word_embeddings=True, num_nextn_predict_layers=0,
                        rope_parameters=dict(rope_type="yarn", rope_theta=1e5, factor=4.0, original_max_position_embeddings=64,
                                             partial_rotary_factor=0.5))),
    "deepseek_v2": ("deepseek_v2", torch.bfloat16, dict(SHAPE, num_hidden_layers=3, hidden_size=40, intermediate_size=56, num_attention_heads=5,
                    num_key_value_heads=5, q_lora_rank=None, kv_lora_rank=24, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=20,
                    n_routed_experts=7, num_experts_per_tok=3, moe_intermediate_size=24, n_shared_experts=2, first_k_dense_replace=1,
                    routed_scaling_factor=1.0, topk_method="greedy", n_group=1, topk_group=1, tie_word_embeddings=False,
                    rope_parameters=dict(rope_type="default", rope_theta=10000.0))),
    "deepseek_v2-groups": ("deepseek_v2", torch.float32, dict(SHAPE, hidden_size=48, intermediate_size=40, num_attention_heads=3,
                           num_key_value_heads=3, q_lora_rank=20, kv_lora_rank=40, qk_nope_head_dim=16, qk_rope_head_dim=4, v_head_dim=12,
                           n_routed_experts=12, num_experts_per_tok=4, moe_intermediate_size=20, n_shared_experts=1, first_k_dense_replace=0,
                           routed_scaling_factor=4.0, topk_method="group_limited_greedy", n_group=4, topk_group=2, tie_word_embeddings=True,
                           rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=8.0, beta_fast=32, beta_slow=1, mscale=0.707,
                                                mscale_all_dim=1.0, original_max_position_embeddings=64))),
    "deepseek_v3": ("deepseek_v3", torch.bfloat16, dict(SHAPE, num_hidden_layers=3, hidden_size=56, intermediate_size=72, num_attention_heads=26,
                    num_key_value_heads=26, q_lora_rank=24, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16,
                    n_routed_experts=16, num_experts_per_tok=3, moe_intermediate_size=24, n_shared_experts=1, first_k_dense_replace=1,
                    routed_scaling_factor=2.5, n_group=4, topk_group=2, norm_topk_prob=True, tie_word_embeddings=False,
                    num_nextn_predict_layers=0, rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, beta_fast=32,
                        beta_slow=1, mscale=1.0, mscale_all_dim=1.0, original_max_position_embeddings=64))),
    "glm4_moe_lite": ("glm4_moe_lite", torch.bfloat16, dict(SHAPE, num_hidden_layers=4, hidden_size=40, intermediate_size=56, num_attention_heads=5,
                      num_key_value_heads=5, q_lora_rank=20, kv_lora_rank=24, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=20,
                      n_routed_experts=9, num_experts_per_tok=3, moe_intermediate_size=24, n_shared_experts=1, routed_scaling_factor=1.8,
                      n_group=1, topk_group=1, norm_topk_prob=True, rms_norm_eps=1e-5, tie_word_embeddings=False,
                      mlp_layer_types=["dense", "dense", "sparse", "sparse"], rope_parameters=dict(rope_type="default", rope_theta=1e6))),
    "qwen3_moe": ("qwen3_moe", torch.bfloat16, dict(SHAPE, **MOE, hidden_size=40, intermediate_size=48, num_attention_heads=3, num_key_value_heads=1,
                  head_dim=16, num_experts=5, num_experts_per_tok=2, tie_word_embeddings=False,
                  rope_parameters=dict(rope_type="default", rope_theta=1e6))),
    "qwen3_5": ("qwen3_5_text", torch.bfloat16, dict(HYBRID, num_hidden_layers=5, hidden_size=56, intermediate_size=72, num_attention_heads=3,
                num_key_value_heads=1, linear_num_key_heads=2, linear_num_value_heads=6, linear_conv_kernel_dim=3, full_attention_interval=3,
                tie_word_embeddings=True, rope_parameters=dict(rope_type="default", rope_theta=1e7, partial_rotary_factor=0.5,
                                                               mrope_section=[3, 3, 2], mrope_interleaved=True))),
    "qwen3_5-even": ("qwen3_5_text", torch.float32, dict(HYBRID, num_hidden_layers=2, hidden_size=32, intermediate_size=48, num_attention_heads=4,
                     num_key_value_heads=2, linear_num_key_heads=3, linear_num_value_heads=3, linear_conv_kernel_dim=5, full_attention_interval=2,
                     tie_word_embeddings=False, rope_parameters=dict(rope_type="default", rope_theta=1e6, partial_rotary_factor=0.25,
                                                                     mrope_section=[2, 1, 1], mrope_interleaved=True))),
    "qwen3_5_moe": ("qwen3_5_moe_text", torch.bfloat16, dict(HYBRID, num_hidden_layers=4, hidden_size=40, num_attention_heads=6, num_key_value_heads=2,
                    linear_num_key_heads=2, linear_num_value_heads=4, linear_conv_kernel_dim=4, full_attention_interval=4, num_experts=7,
                    num_experts_per_tok=3, moe_intermediate_size=24, shared_expert_intermediate_size=40, tie_word_embeddings=False,
                    rope_parameters=dict(rope_type="default", rope_theta=1e7, partial_rotary_factor=0.25,
                                         mrope_section=[2, 1, 1], mrope_interleaved=True))),
    "gpt_oss": ("gpt_oss", torch.bfloat16, dict(SHAPE, num_hidden_layers=3, hidden_size=40, intermediate_size=24, num_attention_heads=6,
                num_key_value_heads=2, head_dim=16, num_local_experts=5, num_experts_per_tok=2, sliding_window=20, tie_word_embeddings=False,
                rope_parameters=dict(rope_type="yarn", rope_theta=150000.0, factor=8.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                                     original_max_position_embeddings=64))),
}
LONG = "--long" in sys.argv
PROMPT, GREEDY = (4096, 2) if LONG else (150, 8)
POSITIONS = [2047, 4095] if LONG else [0, 1, 15, 16, 62, 63, 64, 65, 127, 128, 129, 149]


def hashed(name, n, scale):
    """gguftest.Hashed."""
    seed = 2166136261
    for c in name.encode():
        seed = (seed ^ c) * 16777619 & 0xFFFFFFFF
    h = np.arange(n, dtype=np.uint64) * 0x9E3779B9 + seed & 0xFFFFFFFF
    h = (h ^ h >> 16) * 0x7FEB352D & 0xFFFFFFFF
    h = (h ^ h >> 15) * 0x846CA68B & 0xFFFFFFFF
    h ^= h >> 16
    return np.float32(scale) * ((h >> 8).astype(np.float32) / np.float32(1 << 23) - np.float32(1))


def rule(name, shape, around0):
    """Offset and scale of a tensor's values."""
    if name.endswith("norm.weight"):
        return (0.0 if around0 and "linear_attn" not in name else 1.0), 0.25
    if name.endswith("gate_up_proj_bias"):
        return 0.0, 8.0  # over the limit of 7
    if name.endswith(("A_log", "dt_bias", "bias", "sinks")):
        return 0.0, 1.0
    if "embed_tokens" in name:
        return 0.0, 0.25
    if "conv1d" in name:
        return 0.0, 1.0
    return 0.0, round(2 / shape[-1] ** 0.5, 4)


def record(kind, dtype, shape):
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **shape)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="eager")
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        saved = json.load(open(os.path.join(folder, "config.json")))
        with safe_open(os.path.join(folder, "model.safetensors"), "pt") as f:
            stored = {name: f.get_tensor(name) for name in f.keys()}
        tensors = []
        for name in sorted(stored):
            t = stored[name]
            offset, scale = rule(name, list(t.shape), kind.startswith(("qwen3_5", "gemma3")))
            values = np.float32(offset) + hashed(name, t.numel(), scale)
            stored[name] = torch.from_numpy(values.reshape(t.shape)).to(t.dtype)
            tensors.append(dict(name=name, dtype={torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}[t.dtype],
                                shape=list(t.shape), offset=offset, scale=scale))
        from safetensors.torch import save_file
        save_file(stored, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    prompt = [(i * i * 7 + i * 3 + 1) % shape["vocab_size"] for i in range(PROMPT)]
    with torch.no_grad():
        logits = model(torch.tensor([prompt]), use_cache=False).logits[0]
        tokens, greedy = list(prompt), []
        for _ in range(GREEDY):
            last = model(torch.tensor([tokens]), use_cache=False).logits[0, -1]
            greedy.append(last)
            tokens.append(int(last.argmax()))
    numbers = lambda row: [round(float(x), 5) for x in row]
    return dict(config=saved, tensors=tensors, prompt=prompt, positions=POSITIONS, logits=[numbers(logits[p]) for p in POSITIONS],
                greedy_tokens=tokens[PROMPT:], greedy=[numbers(g) for g in greedy])


def main():
    sys.argv = [a for a in sys.argv if a != "--long"]
    for name, case in CASES.items():
        if len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        out = record(*case)
        with open(os.path.join(sys.argv[1], name + ".json"), "w") as f:
            json.dump(out, f, separators=(",", ":"))
        top = sorted(out["logits"][-1])
        print(name, "tokens", out["greedy_tokens"], "margin", round(top[-1] - top[-2], 3), "spread", round(top[-1] - top[0], 2))


main()
