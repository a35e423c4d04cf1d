"""Processes that share the work of a step: each computes a batch of its own, all take the same step.

Processes of one thread use a CPU's cores better than the threads of one process: rows are independent, and most of
what is done to them is too small to be parted. `launch` starts them, each with its number in the environment, where
torch's own launcher puts it too; a process that nobody gave a number is the whole group.
"""

import os
import signal
import socket
import subprocess
import sys

import torch
import torch.distributed as dist

RANK, SIZE = "RANK", "WORLD_SIZE"


def wanted(processes):
    """Whether this process has to launch others: it is asked for some and is not one of them."""
    return processes > 1 and RANK not in os.environ


def launch(processes, command):
    """Runs a command once for every process and waits for all; a signal to end goes to all, and the failure of one ends
    the others. Returns the first exit status that is not 0, or 0."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    threads = str(max(1, (os.cpu_count() or processes) // processes))
    shared = {"OMP_NUM_THREADS": threads, **os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), SIZE: str(processes)}
    children = [subprocess.Popen(command, env={**shared, RANK: str(i)}) for i in range(processes)]
    before = signal.signal(signal.SIGTERM, lambda *_: [c.terminate() for c in children])
    try:
        running = list(children)
        while running:
            for c in list(running):
                try:
                    status = c.wait(timeout=0.5)
                except subprocess.TimeoutExpired:
                    continue
                running.remove(c)
                if status:
                    return status
        return 0
    finally:
        signal.signal(signal.SIGTERM, before)
        for c in children:
            if c.poll() is None:
                c.kill()
                c.wait()


class Group:
    def __init__(self):
        self.rank, self.size = int(os.environ.get(RANK, 0)), int(os.environ.get(SIZE, 1))
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
