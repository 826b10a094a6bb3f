"""Measured speed: this tool beside every other way to get the same numbers.

    make bench              everything, an hour on two cores
    make bench QUICK=1      the same code on fewer shapes, ten minutes

Every comparison is a ratio of two times taken one after the other in one process, on the
same completions, after the two have been seen to give the same numbers.

    cases            the models and the shapes
    tool             this tool, called through its public functions; the only such file
    loops            a plain batched pass; one pass for every replicate, size and estimator
    per_sample/      libraries that give every completion's gradient: torch.func, Opacus,
                     bergson
    agreement        that all of them give the same numbers
    tables           alternating times and their ratios, powers, tables
    scoring, whole_run, precision, scaling     a table each
    log              the tables into results/COST.md

`coverage.py` and `cross_terms.py` measure accuracy and stand for themselves.
"""
