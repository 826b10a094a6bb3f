"""The screen at the end of a run: what its completions are like."""

from mse_lab.formatting import number, share
from mse_lab.results.diagnostics import Diagnostics


def describe_completions(run: Diagnostics) -> list[str]:
    """Describe the rewards and the completions of a run, a line each."""
    mean = number(run.mean_reward)
    rewards = f"mean reward {mean}, all the same on {share(run.one_reward, 3)}"
    if run.never_right is not None and run.always_right is not None:
        never, always = (share(run.never_right, 3), share(run.always_right, 3))
        rewards = f"accuracy {mean}, V = 0 on {never} and V = 1 on {always}"
    ends = ", ".join(
        f"{end_token.text} {share(end_token.share, 3)}" for end_token in run.end_tokens
    )
    return [
        f"rewards: {rewards} of {run.prompts} prompts",
        f"completions: {number(run.mean_length)} tokens on average, "
        f"{share(run.truncated, 3)} truncated, {share(run.distinct, 3)} distinct; "
        f"ended by {ends or 'nothing'}",
    ]
