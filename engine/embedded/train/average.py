"""The weighted mean of checkpoints of one shape: of a model and what it became by more training.

    python -m train.average --out runs/mean runs/before=0.35 runs/after=0.65

What a run forgets of what it was not asked for comes back in part, and what it learnt stays: weights of
models that went on from the same ones can be mixed (Wortsman and others, 2022, arXiv:2203.05482).
"""

import argparse

import torch

from . import checkpoint


def average(models, shares):
    """The first model, with the mean of all weights in it; shares are parts of their sum."""
    with torch.no_grad():
        for weights in zip(*(m.parameters() for m in models), strict=True):
            weights[0].copy_(sum(s / sum(shares) * w for s, w in zip(shares, weights, strict=True)))
    return models[0]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True)
    p.add_argument("checkpoints", nargs="+", help="FOLDER=SHARE")
    a = p.parse_args()
    parts = [c.rsplit("=", 1) for c in a.checkpoints]
    checkpoint.save(average([checkpoint.load(folder) for folder, _ in parts], [float(share) for _, share in parts]), a.out)


if __name__ == "__main__":
    main()
