"""Deterministic certificates for small networks: linear relaxations, propagated backwards (CROWN)."""

from dualshield.verification.verify import Verification, verify

__all__ = ["Verification", "verify"]
