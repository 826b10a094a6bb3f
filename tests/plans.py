"""Plans as a terminal shows them."""

from mse_lab.run.plan_text import plan_text


def said(plan):
    """The plan in words, however its lines are broken."""
    return " ".join(plan_text(plan).split())
