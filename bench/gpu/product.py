"""Prints how many TFLOP/s torch makes of a product of bfloat16 matrices of 8192 random values a side."""
import torch

n, times = 8192, 20
a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
for _ in range(3):
    a @ b
begin, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))
begin.record()
for _ in range(times):
    a @ b
done.record()
torch.cuda.synchronize()
print(f"{2 * n**3 * times / begin.elapsed_time(done) / 1e9:.1f}")
