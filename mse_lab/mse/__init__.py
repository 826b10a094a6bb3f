"""Arrays -> numbers: errors, exact laws, intervals, best group size. No disk, no words.

The exact law of another estimator is an entry of `LAWS` in `laws.py`; rewards of two values
need none, nor do few completions of graded ones.
"""
