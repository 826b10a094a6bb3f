"""Finished runs -> numbers and verdicts: claims and advice.

`statements` is what the paper says about gradients, `evidence` the numbers of a run that it
is put to, and `claims` how a number becomes a verdict. `advice` is what `mse-lab advise`
says; `alternatives` is its part. Screens and pages are in `report`.
"""
