"""Commands that administer a cluster: one module for each noun."""
