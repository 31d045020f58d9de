"""Attacks that measure how well a defence resists evasion and collision.

>>> import dualshield as ds
>>> ds.attacks.attack("photo.jpg", hash="pdq", budget=5)  # doctest: +SKIP
<AttackResult eot-pgd succeeded at l2 5 of 5, no_match>
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
