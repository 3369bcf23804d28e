"""Progress: the reports of handlers, until they are written."""
