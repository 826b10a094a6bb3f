"""Every file of a result: shards, tables, checks, records; written and validated."""
