"""Runs: prompts are drawn, rewarded and scored one by one, by one process or several.

subject                       a policy, prompts and a reward, put together
prompt, sample                measure one prompt whole; a block of its completions
looks                         how many of which prompts an advice takes
memory, footprint             how much is done at once
prepare                       read all input; load the model
run_probe, plan               measure a probe whole, or its first prompts
advise, samples               measure until an answer is known, look by look
resume, finish                go on after a kill; write the result
processes, torchrun           share prompts between processes; lock a folder
in_memory                     measure a model that is in memory
progress                      what the screen shows meanwhile
"""
