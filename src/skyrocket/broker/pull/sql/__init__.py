"""SQL92 filters: an expression over a message's properties, parsed and evaluated by the rules of Apache's rocketmq-filter.

    expression → tokens → parser → syntax (a small tree) → evaluate (closures) → SqlFilter

The package is pure: text and bytes in, values out. `limits` bounds the cost of an expression.
"""
