"""The job `backlog`: how far groups are behind, whether they catch up, and what to do about it.

`skyrocket.doctor.backlog` takes looks at a cluster, computes rates between two of them and derives advice. `latency` computes
percentiles, `latency_collect` asks for the times, and `presentation` shows the result as text, JSON and HTML.
"""
