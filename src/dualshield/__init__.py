"""DualShield makes an existing perceptual hash hard to evade, and proves how hard.

The public names are listed in `__init__.pyi`. Each is loaded when it is first used: torch alone takes seconds, which
`dualshield --help` and a mistyped option need not wait for.
"""

import lazy_loader

from dualshield._version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
