"""Processes that share the work of a step: each computes a batch of its own, all take the same step.

    torchrun --nproc-per-node 2 -m train.train ...

starts them and tells each its number; alone, a process is the whole group. Processes of one
thread each use a CPU's cores better than the threads of one process do: rows are independent,
most of what is done to them is too small to be parted.
"""

import os

import torch
import torch.distributed as dist


class Group:
    def __init__(self):
        self.rank, self.size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        if self.size > 1 and not dist.is_initialized():
            dist.init_process_group("gloo")

    @property
    def first(self):
        return self.rank == 0

    def sum(self, x):
        """The sum of a tensor over the processes, in place."""
        if self.size > 1:
            dist.all_reduce(x)
        return x

    def sum_gradients(self, parameters):
        if self.size == 1:
            return
        grads = [p.grad for p in parameters]
        flat = self.sum(torch.cat([g.flatten() for g in grads]))
        for g, part in zip(grads, flat.split([g.numel() for g in grads])):
            g.copy_(part.view_as(g))

    def agreed(self, number):
        """The first process's number, where clocks would differ."""
        if self.size == 1:
            return number
        x = torch.tensor([number], dtype=torch.float64)
        dist.broadcast(x, 0)
        return float(x)

    def close(self):
        if self.size > 1:
            dist.destroy_process_group()
