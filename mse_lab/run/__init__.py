"""Runs: prompts are drawn, rewarded and scored, by one process or several.

subject                       read and check all input but the model
context                       load the model, or borrow one in memory
supplied                      completions that a file has
changes                       what has changed since a run was made
prompt, sample                measure one prompt whole; blocks of completions of several
loop                          begin in a folder; deal what is missing, measure and store it
looks                         how many of which prompts an advice takes
memory                        how much is done at once
run_probe                     measure a probe whole, and write the result
advise                        measure until an answer is known, look by look
processes, torchrun           share batches between processes; lock a folder
progress                      what the screen shows meanwhile
"""
