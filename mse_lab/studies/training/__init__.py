"""A probe's policy trained by TRL, over group sizes and seeds; TRL is used here alone."""
