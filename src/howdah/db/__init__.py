"""The database: plans, connections, statements, errors and migrations."""
