"""One of two processes that share a run, in turn in one process."""

from mse_lab.run.processes import Processes


class OfTwo(Processes):
    """Takes every other item."""

    def __init__(self, rank):
        self.rank = rank

    def deal(self, todo):
        """Give this one's items."""
        return iter(todo[self.rank :: 2])
