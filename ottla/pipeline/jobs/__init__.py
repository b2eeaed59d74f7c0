"""What ``ottla pipeline`` runs, a module a job."""
