"""Studies: they use this package as anybody could; only the command line imports them.

theory      the paper's statements about training, tested on bandits
training    a probe's policy trained by TRL, over group sizes and seeds
"""
