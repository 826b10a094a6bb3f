"""The paper's statements about training, tested on bandits that can be enumerated."""
