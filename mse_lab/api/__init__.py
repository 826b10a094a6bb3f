"""The Python doors, and the results that they return: of a model or arrays, and of logs.

The package itself gives `measure`, `advise`, `analyse` and `rollouts`; it imports the file
of each when it is used.
"""
