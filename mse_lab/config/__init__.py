"""What is measured, and how: a probe's schema and files, and a trainer's settings.

`schema.py` has every key of a probe. No torch.
"""
