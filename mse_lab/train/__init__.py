"""A probe's policy trained by TRL, run after run of a study; no other room imports TRL."""
