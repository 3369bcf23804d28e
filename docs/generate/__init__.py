"""The reference pages that are generated from the code: ``python -m docs.generate``, which `make docs` runs first."""
