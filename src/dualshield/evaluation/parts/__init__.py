"""The measurements of an evaluation, one module per part."""
