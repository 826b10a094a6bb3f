"""Report: what finished runs say, drawn or written for a reader.

Everything follows from the runs' folders: no model, no network, and the same folders give
the same bytes. `*_report` and `*_screen` hold sentences and tables for a terminal,
`*_figure`, `figure_4` and `phase_diagram` a figure each, in the style of `drawing`. `page`
holds the list of the page's sections; a section is a function that makes its context and a
template of its key in `templates/` that lays it out.
"""
