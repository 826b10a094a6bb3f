"""Arrays -> numbers: errors, exact laws, intervals, best group size. No disk, no words."""
