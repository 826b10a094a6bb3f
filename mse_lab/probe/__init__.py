"""What is measured, as data: configuration, prompts, rewards, randomness. No torch.

`schema.py` has every key of a probe; `rewards.py` the built-in rewards.
"""
