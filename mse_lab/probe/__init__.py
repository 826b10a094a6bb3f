"""What is measured, as data: configuration, prompts, rewards, randomness. No torch."""
