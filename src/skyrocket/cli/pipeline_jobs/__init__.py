"""The commands of `skyrocket pipeline`: one module for each job. `jobs` has their table, `job_command` what they share."""
