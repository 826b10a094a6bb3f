"""The Python doors: a function a file, and the results that they return.

The package itself gives `measure`, `advise`, `analyse` and `rollouts`; it imports the file
of each when it is used.
"""
