"""The screen at the end of a run: what its completions are like."""

from mse_lab.formatting import number, share
from mse_lab.results.diagnostics import Diagnostics


def describe_completions(found: Diagnostics) -> list[str]:
    """Describe the rewards and the completions of a run, a line each."""
    same = share(found.one_reward, 3)
    rewards = f"mean reward {number(found.mean_reward)}, all the same on {same}"
    if found.never_right is not None and found.always_right is not None:
        never, always = share(found.never_right, 3), share(found.always_right, 3)
        accuracy = number(found.mean_reward)
        rewards = f"accuracy {accuracy}, V = 0 on {never} and V = 1 on {always}"
    ends = ", ".join(f"{one.text} {share(one.share, 3)}" for one in found.end_tokens)
    return [
        f"rewards: {rewards} of {found.prompts} prompts",
        f"completions: {number(found.mean_length)} tokens on average, "
        f"{share(found.truncated, 3)} truncated, {share(found.distinct, 3)} distinct; "
        f"ended by {ends or 'nothing'}",
    ]
