"""Report: what finished runs say, drawn or written for a reader.

Everything follows from the runs' folders: no model, no network, and the same folders give
the same bytes. `*_report` and `*_screen` make sentences and tables, `*_figure`, `figure_4`
and `phase_diagram` a figure each, in the style of `drawing`. `rendering` alone says how the
parts of an answer look on a screen, in Markdown and on the `page`.
"""
