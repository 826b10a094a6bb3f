"""A folder is filled: prompts measured one by one, resumed, shared by processes."""
