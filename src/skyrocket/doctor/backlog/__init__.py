"""Looks at consumer groups: how far they are behind, whether they catch up, who is the cause, and what to do about it.

`look` has what one look at a cluster sees, `collect` takes looks through the admin client, `measure` computes rates between two
looks, and `rules` derives advice.
"""
