"""Rollouts that a trainer has written: read in its own form, counted, summarised."""
