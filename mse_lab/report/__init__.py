"""Report: what finished runs say, on one HTML page that opens from disk.

| file            | part of the page                                             |
|-----------------|--------------------------------------------------------------|
| source          | a finished run, as the page reads it                         |
| overview        | the runs side by side                                        |
| figure4         | MSE against group size                                       |
| ratios          | paired ratios of MSEs                                        |
| verdicts        | the paper's statements                                       |
| ranking         | the estimators, ranked by scale-free MSE                     |
| recommendation  | the advice                                                   |
| scatters        | prompt by prompt                                             |
| provenance      | checks, environment, configuration                           |
| page            | the whole, and `write_report`                                |
| markup, wording, vector, sheet | elements, numbers, inline SVG, the style sheet |

Everything follows from the runs' folders: no model, no network, and the same folders give
the same bytes.
"""

from mse_lab.report.page import write_report

__all__ = ["write_report"]
