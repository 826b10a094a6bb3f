"""Results: every file of a result, written, read back, validated and repaired.

inventory                   all files, and how each is read
folder                      the folder of a run: whose it is, what it holds, what is written
files                       write a file whole; refuse a damaged one, or somebody's own
shards                      a file of each prompt while a run is under way
analysis, tables            from pools to numbers, and their tables
checks, diagnostics, warnings   what a run says about its own numbers
finished_run                read a finished run, and repair it
"""
