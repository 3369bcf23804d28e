"""The command ``howdah``: each command is a ``Command`` in a module of its own, listed in ``parser``."""
