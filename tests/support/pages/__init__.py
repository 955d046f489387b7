"""Web pages: the console, a real browser, and pictures."""
