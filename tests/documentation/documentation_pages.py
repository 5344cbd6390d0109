"""The pages of the project: their blocks, and what is said of how they are run.

A block of commands is a block marked `sh`, or an indented one that begins with a program. It is
run by a test unless a comment stands before it:

    <!-- not run: needs a cluster of yours -->

What a `text` block right behind it has, it prints: each line in this order, other lines between
allowed, `...` standing for anything. A block behind a paragraph that ends in a path with a colon,
as in "`agents/quiet/model.py`:", is the content of that file.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_HIDDEN: Final = {".git", ".nox", ".venv", "node_modules"}
PAGES: Final = sorted(
    path for path in ROOT.rglob("*.md") if not _HIDDEN & set(path.relative_to(ROOT).parts)
)

PROGRAMS: Final = (
    *("apt-get", "buildah", "cd", "cosign", "cp", "curl", "docker", "export", "git", "go", "helm"),
    *("kube-sched-ext", "kubeadm", "kubectl", "mkdir", "mv", "nox", "openssl", "pip", "promtool"),
    *("pytest", "python", "python3", "sed", "systemctl", "uv", "wget"),
    *(".ci/run", ".venv/bin/kube-sched-ext", ".venv/bin/nox", ".venv/bin/pip", ".venv/bin/uv"),
)
"""What an indented block of commands begins with, perhaps behind variables."""

_COMMAND: Final = re.compile(
    rf"(?:[A-Z_]+=\S* )*(?:{'|'.join(re.escape(it) for it in PROGRAMS)})(?: |$)"
)
_NOT_RUN: Final = re.compile(r"<!-- not run: (.+) -->")
_FILE: Final = re.compile(r"`([^`\s]+)`:$")
_FENCE: Final = re.compile(r"^( *)(```+)(\w*)$")


@dataclass(frozen=True)
class Block:
    """A block of a page."""

    page: Path
    line: int
    kind: str
    """What it is marked as; sh for an indented block of commands."""
    text: str
    lead: str
    """The last line before it."""
    output: str = ""
    """What it prints, where it is a block of commands."""

    @property
    def place(self) -> str:
        """Where it is, for tests' names and messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def not_run(self) -> str:
        """Why no test runs it; empty where one does."""
        found = _NOT_RUN.fullmatch(self.lead)
        return found[1] if found else ""

    @property
    def file(self) -> str:
        """The file that it is the content of; empty where it is none."""
        found = _FILE.search(self.lead)
        return found[1] if found else ""

    @property
    def commands(self) -> list[str]:
        """Its commands, where it is a block of them; a continued line is one."""
        return re.sub(r"\\\n\s*", "", self.text).splitlines()


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page that are marked, and its indented commands."""
    found: list[Block] = []
    for block in _blocks(page):
        if block.kind == "text" and found and found[-1].kind == "sh" and not block.lead:
            found.append(replace(found.pop(), output=block.text))
        else:
            found.append(block)
    return found


def _blocks(page: Path) -> Iterator[Block]:
    lines = page.read_text().splitlines()
    number, lead, previous = 0, "", ""
    while number < len(lines):
        start = number
        if fence := _FENCE.match(lines[number]):
            end = lines.index(fence[1] + fence[2], number + 1)
            text = "\n".join(line.removeprefix(fence[1]) for line in lines[number + 1 : end])
            yield Block(page, start + 1, fence[3], text, lead)
            number, lead, previous = end + 1, "", "```"
            continue
        if lines[number].startswith("    ") and not previous:
            while number < len(lines) and (lines[number].startswith("    ") or not lines[number]):
                number += 1
            text = "\n".join(line[4:] for line in lines[start:number]).rstrip()
            if _COMMAND.match(text):
                yield Block(page, start + 1, "sh", text, lead)
            lead = previous = ""
            continue
        previous = lines[number].strip()
        lead = previous or lead
        number += 1


def run_block(block: Block, folder: Path, environment: Mapping[str, str]) -> None:
    """Run the commands of a block as somebody would who pastes them, and check what they print."""
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", block.text],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    told = f"{block.place}:\n{block.text}\n\nprinted:\n{done.stdout}"
    assert done.returncode == 0, f"exit code {done.returncode} of {told}"
    printed = iter(done.stdout.splitlines())
    for line in block.output.splitlines():
        pattern = ".*".join(re.escape(part.strip()) for part in line.split("..."))
        assert any(re.search(pattern, it) for it in printed), f"no {line!r} from {told}"
