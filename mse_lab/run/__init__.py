"""Runs: prompts are measured one by one into a folder, by one process or several.

prepare                       read all input; load the model
run_probe, plan               measure a probe whole, or its first prompts
advise, samples               measure until an answer is known, look by look
resume, finish                go on after a kill; write the result
processes, torchrun           share prompts between processes; lock a folder
in_memory                     measure a model that is in memory
progress                      what the screen shows meanwhile
"""
