"""What the completions of a run are like, on its screen."""

from dataclasses import replace

from mse_lab.mse.moments import Proxy
from mse_lab.report.run_screen import describe_completions
from results.test_diagnostics import HEALTHY


def test_rewards_and_completions():
    rewards, completions = describe_completions(HEALTHY)
    assert "accuracy 0.400, V = 0 on 10% and V = 1 on 5% of 60 prompts" in rewards
    assert "2% truncated, 30% distinct; ended by <end> 98%" in completions


def test_the_proxy_is_said_where_it_is_known():
    known = replace(HEALTHY, proxy=Proxy(within=0.912, overall=0.7))
    assert describe_completions(known)[2:] == [
        "logits norm for ||W||^2: correlation 0.91 within prompts, 0.70 in all"
    ]


def test_graded_rewards_have_no_accuracy():
    graded = replace(HEALTHY, accuracy=None, never_right=None, always_right=None)
    assert describe_completions(graded)[0].startswith("rewards: mean reward 0.400, all ")
