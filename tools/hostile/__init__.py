"""Hostile input for the command line: ``python -m tools.hostile``.

Every kind is one call of ``dualshield`` with something that is wrong, damaged or malicious. Each has to be answered
cleanly, see `check`. All inputs are made when they are needed, in a temporary folder.
"""
