"""The model, forward: loaded, its completions drawn, their log-probabilities."""
