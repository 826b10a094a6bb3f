"""The model, backward: scores of completions -> inner products, reference gradient.

A new kind of layer with an exact score is an entry, or a rule, of `layer_rules.py`.
"""
