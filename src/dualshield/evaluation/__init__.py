"""The paper's evaluation: plans, resumable runs, tables, plots and reports."""
