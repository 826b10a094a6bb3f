"""Measure prompts of a policy: the model's side of everything, without folder or words.

`make_subject` puts a policy, prompts and a reward together; `measure_prompt` draws the
completions of one prompt, rewards them and scores them. Runs, the Python interface and the
pilots of a training study all stand on these two. Torch ends here.
"""
