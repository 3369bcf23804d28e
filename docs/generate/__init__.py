"""The pages of the reference that are made from the code: ``python -m docs.generate``, which `make docs` does first."""
