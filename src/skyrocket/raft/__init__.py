"""Consensus for DLedger groups: a pure state machine that speaks DLedger 0.3.2's messages under Raft's rules.

`RaftNode.step(event, now_ms)` returns effects. Events and effects are in `ports`, the settings in `config`.
"""
