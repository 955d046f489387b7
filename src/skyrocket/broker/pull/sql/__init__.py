"""SQL92 filters: an expression over a message's properties, read and decided as Apache's rocketmq-filter does it.

    expression → tokens → parser → syntax (a small tree) → evaluate (closures) → SqlFilter

Pure: text and bytes in, values out. What an expression may cost is bounded by `limits`.
"""
