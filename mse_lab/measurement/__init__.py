"""Measure prompts of a policy: all that needs the model, without folders or screens.

`make_subject` puts a policy, prompts and a reward together. `prompt.measure_prompt` draws,
rewards and scores the completions of one prompt for a run, `sample.sample_prompt` those of
a block for an advice; `looks` says how many of which prompts an advice takes. `memory` and
its `footprint` say how much is done at once. Runs and the Python interface use these
functions.
"""
