"""The table of coverage has a line for every kind of number that is printed."""

from collections import Counter

from benchmarks.coverage import count, tabulate, told_by

KINDS = {
    "G*", "MSE at a budget", "b* of the run", "beats vanilla from",
    "c1", "c2", "c3", "constant baselines", "cost of a size",
    "cost of an alternative", "law", "mse", "noise scale",
    "numbers of claims", "ratio", "regime's side", "rho of a prompt",
    "rho of the run", "scale_free_mse", "scale_free_ratio", "true statements",
    "zero-variance groups", "||g||^2",
}  # fmt: skip


def test_every_kind_of_number_has_its_truth():
    """On one run of 12 prompts, of which nine in ten numbers hold it."""
    name, counts = "P = 12", Counter()
    told, warned = told_by(name, 0)
    assert {one.kind for one in told if one.known} == KINDS
    count(name, told, warned, counts)
    rows = tabulate(counts)
    assert rows.runs.sum() == sum(one.known for one in told)
    assert rows.held.sum() > 0.8 * rows.runs.sum()
