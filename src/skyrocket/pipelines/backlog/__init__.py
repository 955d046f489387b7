"""The job `backlog`: how far groups are behind, whether they catch up, and what to do about it.

`look` has what one look at a cluster sees, `collect` takes looks through the admin client, `measure` computes rates between two
looks, `rules` derives advice, `latency` computes percentiles, and `presentation` shows the result as text, JSON and HTML.
"""
