"""Access control without any input or output: users, rules, what a request needs, and the decision.

RocketMQ 5's model (ACL 2.0). A user is Super, who may do everything, or Normal. A Normal user's rules allow or deny actions on
topics, groups and the cluster; what no rule allows is refused.
"""
