"""Wordings for training alone, beside the lists of the generator: text files of `ways`, one wording a line below the name
of what it asks for, such as `= instruct.spell`. They were written apart from `phrasings.py`, which is held out.

Other files have other things: tools_*.txt (catalogue.py), needs_*.txt, lexicon_*.txt and synonyms.txt (modules of these names)."""

import functools
import pathlib

FOLDER = pathlib.Path(__file__).with_name("ways")


@functools.cache
def sections() -> dict[str, tuple[str, ...]]:
    """All wordings by name."""
    out: dict[str, list[str]] = {}
    for file in sorted(FOLDER.glob("*.txt")):
        if file.name.startswith(("tools_", "needs_", "lexicon_", "synonyms")):
            continue
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("= "):
                lines = out.setdefault(line[2:], [])
            elif line:
                lines.append(line.replace("\\n", "\n"))
    return {name: tuple(lines) for name, lines in out.items()}


def of(name: str) -> tuple[str, ...]:
    """The wordings of a name, none for a name that no file has."""
    return sections().get(name, ())
