"""Finished runs -> numbers and verdicts: claims, advice, ranking, allocation."""
