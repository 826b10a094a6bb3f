"""One of two processes that share a measurement, in turn in one process."""

from mse_lab.run.processes import Processes


class OfTwo(Processes):
    """Takes every other item of what both have agreed to do."""

    def __init__(self, rank, todo):
        self.rank, self.todo = rank, todo

    def agree(self, decide, kind=None):
        """Give what was agreed before either began."""
        return self.todo

    def deal(self, todo):
        """Give this one's items."""
        return iter(todo[self.rank :: 2])
