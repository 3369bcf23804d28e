"""An app with tasks and one model."""
