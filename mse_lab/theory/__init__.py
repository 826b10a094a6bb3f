"""Theory: the paper's statements about training, put to bandits in which all is exact."""
