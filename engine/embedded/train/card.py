"""Writes a model card: what a model is, what it learnt from, what it can do and what it cannot.

    python -m train.card --name core-1.1-mini --checkpoint runs/mini --file core-1.1-mini.gguf \\
        --logs runs/mini-1.jsonl runs/mini-2.jsonl --skills runs/score.json \\
        --agreement agreement.json --scored-to 4096 --out core-1.1-mini.md

Numbers come from files: the checkpoint's shape, the logs of the runs, the reports of
`corebench skills` and the comparison with float32. A part whose file is not named is left out. A model
that went on from another has that one's runs too, from its card (--before).
"""

import argparse
import json
import pathlib
import re

from . import checkpoint, model


def shape(c, sizes):
    """The table of sizes."""
    full = sum(c.full(i) for i in range(c.layers))
    active = model.count(c) - c.layers * (c.experts - c.experts_used) * 3 * c.hidden * c.expert_ff
    rows = [
        ("parameters", f"{model.count(c) / 1e6:.1f} million, {active / 1e6:.1f} million used for a token"),
        ("layers", f"{c.layers}: {c.layers - full} Gated DeltaNet, {full} gated full attention"),
        ("width", f"{c.hidden}, attention heads {c.heads} of {c.head_dim}, DeltaNet heads {c.value_heads} of {c.delta_dim}"),
        ("experts", f"{c.experts} of width {c.expert_ff}, {c.experts_used} used, and a shared one of width {c.shared_ff}"),
        ("vocabulary", f"{c.vocab} entries of its own byte-level BPE"),
        ("accepted context", f"{c.context} tokens"),
    ]
    if sizes:
        rows.append(("file", f"{sum(sizes) / 1e6:.1f} MB in {len(sizes)} part{'s' if len(sizes) > 1 else ''}, Q8_0"))
    return "\n".join(["| | |", "|---|---|", *(f"| {k} | {v} |" for k, v in rows)])


def _stopped(start, step):
    """What a run that was stopped had done at the last line of its log."""
    return {"tokens": step["step"] * start["rows"] * start["row"] * start.get("processes", 1), "seconds": step["seconds"]}


NOT_ASKED = "not asked"  # a run without held-out conversations


def run(events):
    """What a run's log says: device, minutes, millions of tokens, held-out loss or why there is none."""
    kinds = {e["kind"]: e for e in events}  # the last of each kind
    start = kinds["start"]
    end = kinds.get("end") or _stopped(start, kinds["step"])
    loss = kinds.get("eval", {}).get("loss", {}).get("all")
    after = "stopped" if "end" not in kinds else NOT_ASKED if loss is None else f"{loss:.4f}"
    return start["device"], f"{end['seconds'] / 60:.1f}", f"{end['tokens'] / 1e6:.0f}", after


ROW = re.compile(rf"\| \d+ \| ([^|]+) \| ([\d.]+) \| (\d+) M \| (stopped|{NOT_ASKED}|[\d.]+) \|")


def training(runs):
    """One line for each run, and the sum."""
    rows = [f"| {i + 1} | {device} | {minutes} | {tokens} M | {loss} |" for i, (device, minutes, tokens, loss) in enumerate(runs)]
    head = ["| run | on | minutes | tokens | held-out loss after it |", "|---|---|---|---|---|"]
    return "\n".join(head + rows) + f"\n\nTogether {sum(int(r[2]) for r in runs)} million tokens in {sum(float(r[1]) for r in runs):.1f} minutes."


def _sum(name, scores):
    """The row of several skills together."""
    cases = sum(s["cases"] for s in scores)
    return {"skill": name, "cases": cases, "share": sum(s["right"] for s in scores) / cases, "ended": sum(s["ended"] * s["cases"] for s in scores) / cases}


def _rows(scores):
    """The skills of a round and two sums: "all" is that of skills.jsonl, as in earlier cards, "all new" that of the new sentences of
    promises.jsonl. What else that file has is asked for its form and end, so it is in no sum."""
    parts = {"all": [], "all new": [], "": []}
    for s in scores:
        parts["all new" if s["skill"].startswith("new ") else "" if s["skill"] in ("schemas", "loops") else "all"].append(s)
    return [row for name, part in parts.items() for row in [*part, *([_sum(name, part)] if name and part else [])]]


def skills(rounds):
    """What `corebench skills` measured of a model: a row for each skill and sums, a pair of columns for each round, what was measured at one temperature."""
    label = lambda r: f"temperature {r['temperature']:g}" if r["temperature"] >= 0 else "default temperature"
    by, all_ = [{s["skill"]: s for s in _rows(r["skills"])} for r in rounds], [r["all"] for r in rounds]
    lines = ["| skill | cases |" + "".join(f" right, {label(r)} | ended |" for r in rounds), "|---|---|" + "---|---|" * len(rounds)]
    for skill, first in by[0].items():
        cells = "".join(f" {100 * b[skill]['share']:.1f} % | {100 * b[skill]['ended']:.1f} % |" for b in by)
        lines.append(f"| {skill} | {first['cases']} |{cells}")
    looped = ", ".join(f"{100 * a['looped']:.2f} % at {label(r)}" for a, r in zip(all_, rounds))
    called = ", ".join(f"{a['valid_calls']} of {a['calls']} valid and {a['right_calls']} of {a['wanted_calls']} wanted ones right at {label(r)}" for a, r in zip(all_, rounds))
    return "\n".join(lines) + f"\n\nAnswers that go round in circles, of all {all_[0]['cases']}: {looped}. Calls: {called}."


def promises(gates, name):
    """What is promised of a model, what was measured, and whether that is kept."""
    rows = [g for g in gates if g["name"].startswith(name + ", ")]
    shown = [f"| {g['name'].removeprefix(name + ', ')} | {100 * g['value']:.1f} % | {'at least' if g['at_least'] else 'below'} {100 * g['limit']:g} % | {'kept' if g['met'] else 'missed'} |" for g in rows]
    return "\n".join(["| promise | measured | wanted | |", "|---|---|---|---|", *shown]) if rows else ""


LIMITS = ("It knows what the generator taught: short instructions, small numbers, some hundred facts, facts given in "
          "the context, tools described in the request. It does not know the world, and is taught to say so. English only.")


def card(name, config, sizes, runs, report, agreement, scored_to, note="", limits=LIMITS):
    out = [f"# {name}", f"A small language model of architecture `qwen35moe` that is part of the node's binary.\n\n{shape(config, sizes)}"]
    out.append("## Data\nConversations from the seeded generator in `train/data`: its own templates and word lists, nothing downloaded. "
               "Held-out conversations use wordings, names and values that no training conversation has.")
    if runs:
        out.append("## Training\nMuon for matrices and AdamW for the rest. Products are in bfloat16 where a device has instructions for that and in float32 elsewhere, sums in float32."
                   f"\n\n{training(runs)}" + (f" {note}" if note else ""))
    if report:
        out.append("## What it can do\nMeasured with `corebench skills` (`make score`) through the HTTP API of a node. Skills that begin with \"new\" are asked in sentences, of tools and of schemas that no training conversation has. "
                   "\"all\" is the sum over `skills.jsonl`, \"all new\" that over these sentences; of \"schemas\" and \"loops\" only form and end are asked, so they are in neither. The promise about circles is of \"loops\", the sentence below the table of all cases.\n\n"
                   + skills([r for r in report["rounds"] if r["model"] == name]))
        out += [text for text in [promises(report.get("gates") or [], name)] if text]
    if agreement:  # of train.evaluate, where nothing but the weights is rounded
        out.append(f"Of {agreement['choices']} choices, each made after the same tokens, the weights rounded to Q8_0 make, with activations in float32, "
                   f"{100 * agreement['share']:.2f} % as the float32 weights do.")
    if scored_to:
        limits += f" Its skills were scored on prompts of up to {scored_to} tokens; it accepts longer ones without any such claim."
    out.append("## Limits\n" + limits)
    return "\n\n".join(out) + "\n"


def _lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def _json(path):
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--name", required=True)
    p.add_argument("--checkpoint", required=True)
    p.add_argument("--file", help="the exported file, or what its parts are named after")
    p.add_argument("--before", help="the card of the model that it went on from, whose runs are the first")
    p.add_argument("--logs", nargs="*", default=[])
    p.add_argument("--skills", help="a report of corebench skills, of this model and at times others")
    p.add_argument("--agreement")
    p.add_argument("--scored-to", type=int, help="length of the longest scored prompt")
    p.add_argument("--note", default="", help="more about the training")
    p.add_argument("--limits", default=LIMITS, help="what it cannot do, if not what the general words say")
    p.add_argument("--out", required=True)
    a = p.parse_args()
    files = [f for f in pathlib.Path(a.file).parent.glob(pathlib.Path(a.file).name + "*")] if a.file else []
    runs = ROW.findall(pathlib.Path(a.before).read_text(encoding="utf-8")) if a.before else []
    text = card(a.name, checkpoint.read_config(a.checkpoint), [f.stat().st_size for f in files], runs + [run(_lines(x)) for x in a.logs],
                _json(a.skills) if a.skills else None, _json(a.agreement) if a.agreement else None, a.scored_to, a.note, a.limits)
    pathlib.Path(a.out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
