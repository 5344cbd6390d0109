"""What became of each line that was converted."""

import msgspec


class Note(msgspec.Struct, frozen=True):
    """A line of what was converted, and what it became; `is_warning` where somebody must look."""

    line: str
    outcome: str
    is_warning: bool = False

    def __str__(self) -> str:
        """Return it as one line of printable text."""
        text = " ".join(f"{self.line}: {self.outcome}".split())
        return "".join(letter if letter.isprintable() else "?" for letter in text)
