# The public names and where they are defined; `__init__.py` reads this file.

from .attack import attack
from .budgets import BUDGETS, COST_BUDGETS
from .defence import Defence
from .methods import METHODS, Attack, get_attack
from .result import AttackBudget, AttackResult
from .victim import Target, Victim

__all__ = [
    "BUDGETS",
    "COST_BUDGETS",
    "METHODS",
    "Attack",
    "AttackBudget",
    "AttackResult",
    "Defence",
    "Target",
    "Victim",
    "attack",
    "get_attack",
]
