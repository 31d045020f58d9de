"""From the records of a run to its tables, plots and page."""
