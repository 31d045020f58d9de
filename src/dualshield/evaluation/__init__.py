"""The paper's evaluation as a product: runs, tables, plots and reports."""
