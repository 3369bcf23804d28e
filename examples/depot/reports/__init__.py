"""Reports: a package in the package."""
