"""What a policy is asked and how it is rewarded: prompts, rewards, random streams.

`rewards.py` has the built-in rewards. No torch.
"""
