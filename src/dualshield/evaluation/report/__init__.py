"""Make the report of a run from its records: tables, plots and an HTML page."""
