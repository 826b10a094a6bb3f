"""Files of a user: their text, their rows, and the record of a completion. No torch."""
