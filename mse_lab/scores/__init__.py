"""The model, backward: scores of completions -> inner products, reference gradient."""
