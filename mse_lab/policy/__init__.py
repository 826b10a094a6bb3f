"""The model, forward: loaded, its completions drawn, their log-probabilities.

`Policy.log_probabilities` (`policy.py`) is the distribution that is drawn from and that is
differentiated: a further setting of the sampler belongs there.
"""
