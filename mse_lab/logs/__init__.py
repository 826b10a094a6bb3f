"""A trainer's rollouts, read by the one record of a completion and summarised.

forms          which columns of a file are a record's
find_logs      the files of a log, each once; what TRL says of a training
read_logs      completions, as a few numbers of each
trl            TRL's files: which steps trained, how long blocks are
groups         completions -> groups of a prompt
reward_groups  their rewards, by completion and by group
parts          what each part of a reward contributes
values         groups -> values of prompts, drift, other group sizes
summary        every number of the screen
verdicts       findings, and what to do
"""
