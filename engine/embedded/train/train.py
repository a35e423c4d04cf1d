"""Trains a model for a number of minutes, or of steps, and leaves a checkpoint.

    python -m train.train --config mini --name core-1.1-mini --minutes 8.5 \\
        --out runs/mini --log runs/mini.jsonl

The learning rate follows the share of the time that is over, compilation excepted, so a run
always ends with small steps, a last evaluation and a checkpoint within its time. With
--resume it starts from a checkpoint's weights and a fresh optimizer.
"""

import argparse
import ctypes
import json
import math
import os
import pathlib
import signal
import sys
import time

import torch

from . import attention, batches, bpe, checkpoint, delta, heldout, mixture, model, optim, parallel

RESERVE = 20  # seconds at the end of a timed run for the last evaluation and checkpoint

NOT_FINITE = "a derivative is not finite"


class Log:
    """JSON lines, to a file and in short to the terminal."""

    def __init__(self, path, quiet=False):
        if path:
            pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        self.file, self.quiet = open(path, "a", encoding="utf-8") if path else None, quiet

    def write(self, kind, **fields):
        line = json.dumps({"kind": kind, **fields}, ensure_ascii=False)
        if not self.quiet:
            print(line if len(line) < 400 else line[:400] + "...", flush=True)
        if self.file:
            self.file.write(line + "\n")
            self.file.flush()


class Clock:
    """The share of a run that is over, by steps or by time. Time counts from `start`, which is
    called when everything is compiled. `finish` ends a run early: what is left of it are the small steps."""

    def __init__(self, minutes, steps, now=time.monotonic):
        self.minutes, self.steps, self.now = minutes, steps, now
        self.begin = self.origin = now()
        self.latest, self.finishing = (0, 0.0), None  # the step and share asked for last; where the end began and its steps

    def start(self):
        self.begin = self.now()

    def finish(self, steps, decay):
        """The run is over in `steps` steps; a rate that is level still goes down from here."""
        if not self.finishing:
            step, share = self.latest
            self.finishing = step, max(share, 1 - decay), max(steps, 1)

    def done(self, step):
        if self.finishing:
            begin, share, steps = self.finishing
            done = share + (1 - share) * (step - begin) / steps
        elif self.steps:
            done = step / self.steps
        else:
            total = self.minutes * 60 - RESERVE - (self.begin - self.origin)
            done = (self.now() - self.begin) / max(total, 1e-9)
        self.latest = step, done
        return done

    def seconds(self):
        return self.now() - self.origin


class Trainer:
    def __init__(self, a, log, group=None):
        torch.manual_seed(a.seed)
        self.a, self.log, self.device, self.group = a, log, torch.device(a.device), group or parallel.Group()
        self.model = checkpoint.load(a.resume) if a.resume else model.Model(model.CONFIGS[a.config]).initialize(a.seed)
        self.model.to(self.device)
        self.attend, self.mask = model.attend_dense, model.dense_mask
        self.head = model.learnt_loss if self.device.type == "cpu" else model.next_token_loss
        self.half = (a.dtype or _fastest(self.device)) == "bfloat16"
        if self.device.type == "cuda":
            torch.set_float32_matmul_precision("high")
        else:
            torch.set_flush_denormal(True)
            self.attend = attention.tiles if self.half and attention.able(self.model.config) else model.attend_documents
            self.mask = lambda segment: segment
            for layer in self.model.modules():
                if isinstance(layer, model.Delta):
                    layer.in_turn = delta.able(self.model.config)
                if isinstance(layer, model.Mixture):
                    layer.tiles = self.half and mixture.able()
        self.compiled = a.compile
        if a.compile:
            self.compile()
        self.optimizer = optim.Optimizer(self.model, a.rate * a.rate_scale, a.matrix_rate * a.rate_scale,
                                         muon=a.optimizer == "muon", kind=torch.bfloat16 if self.half else torch.float32)

    def compile(self):
        """Layers of one kind share one compilation; whole models take minutes."""
        for layer in self.model.layers:
            layer.compile(dynamic=False)
        if self.device.type == "cuda":
            self.head = torch.compile(model.next_token_loss, dynamic=False)
            if self.a.attention == "flex":
                self.attend, self.mask = model.attend_flex, model.flex_mask

    def per_token(self, b):
        """Loss of every position [B, T], and the balance loss."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
            x, balance = self.model.hidden(b.tokens, b.segment, self.mask(b.segment), self.attend)
            return self.head(x, self.model.embed_tokens.weight, b.tokens, b.weight), balance

    def backward(self, b):
        """Derivatives of a batch's loss; returns the loss and the balance loss, on the device."""
        self.model.noise = self.a.noise
        loss, balance = self.per_token(b)
        self.model.noise = 0.0
        loss = (loss * b.weight).sum() / self.group.sum(b.weight.sum()).clamp(min=1)
        (loss + self.a.balance / self.group.size * balance).backward()
        return loss.detach(), balance.detach()

    def step(self, b, scale):
        """One update; returns this process's part of the loss, balance loss and gradient norm on the device."""
        loss = self.backward(b)
        self.group.sum_gradients(self.optimizer.parameters)
        return *loss, self.optimizer.step(scale, self.a.clip)

    def warm(self, b):
        """Compiles everything, on a batch that nothing is learnt from, and sees that derivatives are
        finite. What a compiler cannot do, or does wrong, is done more slowly: dense attention
        instead of a block-sparse one, then no compilation."""
        while why := self.fault(b):
            if not self.compiled and self.attend is model.attend_dense:
                raise RuntimeError(why)  # nothing is left to leave out
            if self.compiled and (self.attend is model.attend_dense or why == NOT_FINITE):
                self.compiled = False
                if self.device.type == "cuda":
                    self.head = model.next_token_loss
                for layer in self.model.layers:
                    layer._compiled_call_impl = None  # undoes Module.compile
            self.attend, self.mask = model.attend_dense, model.dense_mask
            self.log.write("fallback", attention="dense", compiled=self.compiled, why=why[:300])
            torch._dynamo.reset()

    def fault(self, b):
        """What goes wrong with a batch; nothing is empty."""
        try:
            self.backward(b)
            finite = all(bool(torch.isfinite(p.grad).all()) for p in self.model.parameters())
            return "" if finite else NOT_FINITE
        except Exception as e:  # whatever a compiler raises
            return f"{type(e).__name__}: {e}"
        finally:
            for p in self.model.parameters():
                p.grad = None


def run(a, source, evaluation=None, tokenizer=None):
    """Trains; evaluation: documents of heldout.documents or None. Returns the trainer."""
    group = parallel.Group()
    log = Log(a.log if group.first else None, quiet=not group.first)
    clock = Clock(a.minutes, a.steps)
    trainer = Trainer(a, log, group)
    feed = batches.Feed(source, a.seed, a.rows, a.row, a.prompt_weight, a.workers, group.rank, group.size)
    try:
        loss = heldout.Loss(evaluation, a.rows, a.row, trainer.device) if evaluation and group.first else None
        first = next(feed).to(trainer.device)
        trainer.warm(first)
        if loss:
            log.write("eval", step=0, loss=_rounded(loss(trainer.per_token)))
        clock.start()
        log.write("start", config=a.config, dtype="bfloat16" if trainer.half else "float32", parameters=sum(p.numel() for p in trainer.model.parameters()), seed=a.seed,
                  device=_name(trainer.device), torch=torch.__version__, rows=a.rows, row=a.row, processes=group.size, resume=a.resume, skills=a.skills, compiled_s=round(clock.seconds(), 1))
        before = signal.signal(signal.SIGTERM, lambda *_: clock.finish(a.finish_steps, a.decay))
        try:
            step = _loop(a, trainer, feed, clock, loss, log, first)
        finally:
            signal.signal(signal.SIGTERM, before)
    finally:
        feed.close()
    if loss:
        log.write("eval", step=step, seconds=round(clock.seconds(), 1), loss=_rounded(loss(trainer.per_token)))
    if a.out and group.first:
        checkpoint.save(trainer.model, a.out)
    if evaluation and a.samples and group.first:
        for s in heldout.samples(_plain(a, trainer), evaluation, tokenizer, a.samples, 96):
            log.write("sample", **s)
    log.write("end", step=step, tokens=step * a.rows * a.row * group.size, seconds=round(clock.seconds(), 1))
    return trainer


def _fastest(device):
    """The type in which products are fastest: a CPU without instructions for bfloat16 takes it apart one by one."""
    able = getattr(torch.cpu, "get_capabilities", dict)()
    return "bfloat16" if device.type == "cuda" or able.get("avx512_bf16") or able.get("amx_bf16") else "float32"


def _name(device):
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _plain(a, trainer):
    """The model in float32 as its checkpoint has it."""
    return checkpoint.load(a.out).to(trainer.device) if a.out else trainer.model


def _rounded(losses):
    return {k: round(v, 4) for k, v in losses.items()}


def _give_back():
    """Returns freed memory to the system. Documents of other lengths in every batch leave holes in the heap: without
    this a process grows by a gigabyte every two minutes."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim:
        trim(0)


def _loop(a, trainer, feed, clock, loss, log, b):
    """Steps until the time is over; returns their number. The device is waited for once in
    `log_every` steps, so the host runs ahead of it by no more than that."""
    step, saved, evaluated = 0, clock.seconds(), clock.seconds()
    last, dropped, group = (0, clock.seconds()), 0, trainer.group
    while (done := group.agreed(clock.done(step))) < 1:
        scale = optim.schedule(done, decay=a.decay)
        value, balance, norm = trainer.step(b, scale)
        step += 1
        if step % a.log_every == 0:
            value, now = float(group.sum(value)), clock.seconds()
            if not math.isfinite(value):
                raise FloatingPointError(f"the loss is {value} after {step} steps; the last checkpoint is kept")
            rate = (step - last[0]) * a.rows * a.row * group.size / max(now - last[1], 1e-9)
            log.write("step", step=step, loss=round(value, 4), balance=round(float(balance), 3), norm=round(float(norm), 3),
                      scale=round(scale, 4), done=round(done, 4), tokens_per_s=int(rate), dropped=dropped, seconds=round(now, 1))
            last = (step, now)
            if trainer.device.type == "cpu":
                _give_back()
            if a.out and group.first and now - saved > a.save_minutes * 60:
                checkpoint.save(trainer.model, a.out)
                if a.states:
                    checkpoint.keep(a.out, step, a.states)
                saved = clock.seconds()
            if loss and now - evaluated > a.eval_minutes * 60:
                log.write("eval", step=step, seconds=round(now, 1), loss=_rounded(loss(trainer.per_token)))
                evaluated = clock.seconds()
        host = next(feed)
        dropped += host.dropped
        b = host.to(trainer.device)
    return step


def parser():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--config", choices=list(model.CONFIGS), default="mini")
    p.add_argument("--tokenizer", default=str(pathlib.Path(__file__).with_name("tokenizer.json")))
    p.add_argument("--name", default="core-1.1", help="what the model calls itself, where it is generated on the way")
    p.add_argument("--repeat", type=int, default=3, help="how often a generated conversation is seen")
    p.add_argument("--skills", help="shares of skills in what is generated, as greet=3,facts=2; without it the generator's own")
    p.add_argument("--tokens", help="a file of train.pack; without it conversations are generated on the way")
    p.add_argument("--minutes", type=float, default=8.5, help="of the whole run, compilation and evaluation included")
    p.add_argument("--steps", type=int, default=0, help="a number of steps instead")
    p.add_argument("--out", help="folder of the checkpoint")
    p.add_argument("--resume", help="checkpoint to start from")
    p.add_argument("--log", help="file for JSON lines")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--dtype", choices=["bfloat16", "float32"], help="of products; without it bfloat16 where the device has instructions for that")
    p.add_argument("--attention", choices=["flex", "dense"], default="flex", help="flex needs a GPU and --compile")
    p.add_argument("--compile", action=argparse.BooleanOptionalAction, default=torch.cuda.is_available())
    p.add_argument("--rows", type=int, default=8)
    p.add_argument("--row", type=int, default=8192, help="tokens; longer documents are left out")
    p.add_argument("--processes", type=int, default=1, help="how many share a step, on a CPU; rows are those of each")
    p.add_argument("--workers", type=int, default=0, help="processes that make batches; 0: 3 for a file, else all cores but two")
    p.add_argument("--optimizer", choices=["muon", "adamw"], default="muon")
    p.add_argument("--rate", type=float, default=0.003, help="peak of AdamW's learning rate")
    p.add_argument("--matrix-rate", type=float, default=0.02, help="peak of Muon's")
    p.add_argument("--rate-scale", type=float, default=1.0, help="multiplies both: below 1 when resuming")
    p.add_argument("--decay", type=float, default=0.45, help="share of the run in which the rate goes down")
    p.add_argument("--finish-steps", type=int, default=200, help="steps in which a run that gets SIGTERM brings the rate to 0 before it ends")
    p.add_argument("--clip", type=float, default=1.0)
    p.add_argument("--noise", type=float, default=0.0, help="noise on the embeddings that are read, in parts of their size")
    p.add_argument("--balance", type=float, default=0.01, help="weight of the routers' balance loss")
    p.add_argument("--prompt-weight", type=float, default=0.1, help="weight of tokens that no assistant says")
    p.add_argument("--heldout", type=int, default=600, help="held-out conversations to watch; 0 for none")
    p.add_argument("--samples", type=int, default=12)
    p.add_argument("--log-every", type=int, default=20)
    p.add_argument("--eval-minutes", type=float, default=1.5)
    p.add_argument("--save-minutes", type=float, default=2)
    p.add_argument("--states", type=int, default=0, help="how many earlier checkpoints are kept beside the last, as OUT-stepN: means of late ones are better than any")
    return p


def skill_shares(text):
    """"greet=3,facts=2" as a dict; empty for none."""
    from . import data
    out = {k: int(v) for k, v in (part.split("=") for part in (text or "").split(",") if part)}
    if unknown := out.keys() - data.SHARES:
        raise SystemExit(f"--skills has {', '.join(sorted(unknown))}, want some of {', '.join(data.SHARES)}")
    return out


def main():
    a = parser().parse_args()
    if parallel.wanted(a.processes):
        raise SystemExit(parallel.launch(a.processes, [sys.executable, "-m", "train.train", *sys.argv[1:]]))
    if a.row % 64:
        raise SystemExit(f"--row is {a.row}, want a multiple of 64")
    if not a.workers:
        a.workers = 3 if a.tokens else max(1, (os.cpu_count() or 3) - 2)
    tokenizer = bpe.Tokenizer.load(a.tokenizer)
    shares = skill_shares(a.skills)
    source = batches.Packed(a.tokens) if a.tokens else batches.Generated(a.tokenizer, a.name, a.repeat, tuple(shares.items()))
    docs = heldout.documents(tokenizer, a.seed, a.heldout, a.name, shares) if a.heldout else None
    run(a, source, docs, tokenizer)


if __name__ == "__main__":
    main()
