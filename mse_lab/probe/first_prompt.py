"""What a person should see early: a prompt as the model gets it, and what is rewarded."""

from collections.abc import Sequence

from mse_lab.errors import InputError, shorten, shown
from mse_lab.probe.mathematics import GaveUp
from mse_lab.probe.prompts import Prompt
from mse_lab.probe.rewards import Reward, supplied

# Characters of a prompt, in Python's notation, that are shown.
LONGEST_PROMPT = 400


def describe_first(
    prompts: Sequence[Prompt], reward: Reward, text: str, what: str = "as the model gets it"
) -> list[str]:
    r"""Show the first prompt's `text`, and the rewards of its answer and of another's.

    `what` says which text it is.

    >>> from mse_lab.probe.rewards import integer
    >>> rows = [{"id": "a", "answer": "5"}, {"id": "b", "answer": "7"}]
    >>> prompts = [Prompt(row["id"], "", "", row) for row in rows]
    >>> for line in describe_first(prompts, integer, "2 + 3 =\n"):
    ...     print(line)
    first prompt, a, as the model gets it: '2 + 3 =\n'
    rewards: 1 for its reference answer '5', 0 for '7'
    """
    first, *others = prompts
    lines = [
        f"first prompt, {shorten(first.id)}, {what}: {shorten(repr(text), LONGEST_PROMPT)}"
    ]
    if "answer" not in first.record or reward is supplied:
        return lines
    right = str(first.record["answer"])
    answers = (str(other.record.get("answer", "")) for other in others)
    wrong = next((answer for answer in answers if answer != right), "")
    try:
        of_right, of_wrong = (reward(one, first.record) for one in (right, wrong))
    except (InputError, ValueError, GaveUp):
        # It may need more than a bare answer; where it fails, the measurement says so.
        return lines
    told = "" if of_right != of_wrong else "; it does not tell bare answers apart"
    rewards = f"{of_right:g} for its reference answer {shown(right)}"
    return [*lines, f"rewards: {rewards}, {of_wrong:g} for {shown(wrong)}{told}"]


def describe_completion(prompt: Prompt, text: str, reward: float) -> str:
    """Show a completion with its reward and its prompt's reference answer."""
    answer = prompt.record.get("answer")
    reference = "" if answer is None else f", reference answer {shown(str(answer))}"
    where = f"prompt {shorten(prompt.id)}"
    return f"{where}: reward {reward:g} for {shown(text)}{reference}"
