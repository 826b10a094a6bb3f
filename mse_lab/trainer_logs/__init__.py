"""Rollouts that a trainer has written: read in its own form, counted, summarised.

The form of another trainer's logs is a function of `forms.py`, with an entry in `FORMS`.
"""
