"""Results: every file of a result, written, read back, validated and repaired.

folder                      the folder of a run: its files, how each is read, whose it is
files                       write a file whole; refuse a damaged one
analysis                    from pools to numbers, and their tables
checks, diagnostics, warnings   what a run says about its own numbers
finished_run                read a finished run, and repair it
"""
