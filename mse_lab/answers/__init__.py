"""Finished runs -> numbers and verdicts: claims and advice.

`statements` is what the paper says about gradients, with the numbers of a run that it is
put to, and `claims` how a number becomes a verdict. `advice` is what `mse-lab advise` says;
`advice_evidence` and `ladder` are its parts. Screens and pages are in `report`.
"""
