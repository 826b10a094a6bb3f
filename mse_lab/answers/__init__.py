"""Finished runs -> numbers and verdicts: claims, advice, ranking.

A statement of the paper is a file that is named after it (`lemma_1_...`, `theorem_2_...`).
The file holds the statement's words and a function with `@judges`; no list names it. Such
files are made of `statement` (statement and claim; it puts all of them to runs) and
`judgement` (tests and verdicts). `advice` is what `mse-lab advise` says; `alternatives` is
its part. Screens and pages are in `report`.
"""
