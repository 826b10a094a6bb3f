"""The model, forward: loaded, its completions drawn, their log-probabilities.

Every log-probability, to draw or to differentiate, is of `Policy.scaled` logits
(`policy.py`): a further setting of the sampler belongs there.
"""
