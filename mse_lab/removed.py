"""What an earlier version had: each key, command and option, and what to use instead.

An old word is refused in one line rather than read as a misspelt new one. Commit 808d59b
is the last one that has them all.
"""

# Dotted keys of a probe.
KEYS: dict[str, str] = {
    "model.shard": "set model.device_map: auto for a model larger than a GPU",
    "metric": "leave it out; errors are squared lengths, other metrics are in 808d59b",
    "prompts.shots": "write the demonstrations into the text file of prompts.template",
    "sampling.server": "draw by probes/making/vllm_completions.py, and set completions",
}

# Commands, and their options as `command --option`.
WORDS: dict[str, str] = {
    "advise --at": "the price list has the size to set; give your own with --G",
    "advise --seconds-per-completion": "prices are steps, or completions",
    "advise --seconds-per-prompt": "prices are steps, or completions",
    "draw": "run probes/making/vllm_completions.py, and set completions to what it writes",
    "analyse": "use mse_lab.analyse in Python, on the arrays of pools.npz",
    "rollouts --completions": "write lines for `completions:` as probes/README.md says",
    "rollouts --figure": "use mse_lab.rollouts(...).plot().savefig(FILE) in Python",
    "rollouts --html": "use --markdown, or mse_lab.rollouts(...).plot() in Python",
    "rollouts --max-tokens": "log which completions were cut, and name it by --columns",
    "rollouts --model": "name the checkpoint as model.path in a probe",
    "rollouts --probe": "use mse-lab init, and `completions:` as probes/README.md says",
    "rollouts --seconds-per-completion": "multiply zero_variance_completions of --json",
    "rollouts --step": "name the files of that step",
    "run --until": "use --set pool.replicate=N; the run says which N its width takes",
    "list": "use mse-lab without a command",
    "advise --optimizer": "leave it out; the size is chosen by the gradient's error",
    "along": "use advise PROBE --checkpoints 'out/checkpoint-*', a line for each",
    "figure --training": "commit 808d59b draws the committed studies",
    "theory": "use python -m probes.studies.theory",
    "train": "use python -m probes.studies.training SETTINGS.yaml",
}


def refusal_of_key(key: str) -> str | None:
    """Say what to use instead of a removed key of a probe; None for any other."""
    return KEYS.get(key)


def refusal_of_words(words: list[str]) -> str | None:
    """Say what to use instead of the first removed command or option; None without one.

    >>> refusal_of_words(["run", "tiny/base"])
    """
    command = next((word for word in words if not word.startswith("-")), "")
    options = [f"{command} {word.partition('=')[0]}" for word in words]
    for name in (command, *options):
        if name in WORDS:
            return f"{name}: removed; {WORDS[name]}"
    return None
