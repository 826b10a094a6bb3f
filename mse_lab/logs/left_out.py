"""What was left out of a log: how many, of what, and what would keep it."""

from dataclasses import dataclass

from mse_lab.errors import shorten


@dataclass(frozen=True)
class LeftOut:
    """Something that was not counted, or is missing."""

    count: int
    what: str  # In words, behind the count.
    remedy: str = ""  # What would keep it.
    where: str = ""  # The first of it.

    def line(self) -> str:
        """Say it."""
        where = f" ({shorten(self.where)})" if self.where else ""
        remedy = f" {self.remedy[:1].upper()}{self.remedy[1:]}." if self.remedy else ""
        return f"{self.count:,} {self.what}{where}.{remedy}"
