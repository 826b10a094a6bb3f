"""What a user trains with, by options: over the probe's, and the trainer's own words."""

from mse_lab.commands import training_options
from mse_lab.commands.cli import parse
from mse_lab.config.schema import Training


def options(*words, of_probe=None):
    arguments = parse(["advise", "tiny/base", *words])
    return training_options.read_training_options(arguments, of_probe)


def test_all_behind_training_belongs_to_the_trainer():
    """Whatever our own options are called; nothing of it is refused as empty or removed."""
    words = ["n=8", "--out=", "--set", "x", "--help", "--training", "list", ""]
    arguments = parse(["advise", "tiny/base", "--json", "--training", *words])
    assert arguments.training == words
    assert arguments.json
    assert arguments.set == []


def test_options_come_over_what_the_probe_says():
    of_probe = Training(trainer="trl", num_generations=4, beta=0.1)
    assert options(of_probe=of_probe) is of_probe
    changed = options("--G", "6", "--processes", "2", of_probe=of_probe)
    assert changed.model_extra == {"num_generations": 6, "beta": 0.1, "processes": 2}
    other = options("--trainer", "verl", "--training", "a=1", of_probe=of_probe)
    assert (other.words, other.model_extra) == (["a=1"], {})
    assert options("--completions-per-step", "64").completions_per_step == 64
    assert options() is None
