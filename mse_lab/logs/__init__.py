"""A trainer's rollouts, read by the one record of a completion and summarised.

forms      which columns of a file are a record's
find_logs  the files of a log, each once; what TRL says of its evaluations
collect    completions, as a few numbers of each
trl        TRL's files: which steps trained, which columns are rewards
groups     completions -> groups of a prompt
values     groups -> values of prompts, drift
forecast   zero-variance groups at other sizes
summary    every number of the screen
verdicts   findings, and what to do
"""
