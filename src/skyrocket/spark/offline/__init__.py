"""The source "rocketmq-store": `partitions` plans how store directories are divided among tasks, `store_reader` reads them."""
