"""Jobs on Spark for people who run RocketMQ, ours or Apache's: `skyrocket pipeline NAME`, or these functions from a program.

    import skyrocket.spark
    from skyrocket.pipelines import archive_topics, replay_messages

    spark = skyrocket.spark.session()
    archive_topics(spark, ["orders"], "/mnt/archive", cluster={"nameserver": "127.0.0.1:9876"})

docs/pipelines.md has a page for each job. Names are imported on first use: a task of one job does not load the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyrocket.client.lazy_names import lazy_names

if TYPE_CHECKING:
    from skyrocket.pipelines.archive.job import archive_topics
    from skyrocket.pipelines.audit.job import TopicAudit
    from skyrocket.pipelines.backlog.job import watch_backlog
    from skyrocket.pipelines.deadletters.job import export_selection, resend_letters, triage_letters
    from skyrocket.pipelines.drain.job import drain_group
    from skyrocket.pipelines.drain.proof import prove_drain
    from skyrocket.pipelines.replay.job import replay_messages
    from skyrocket.pipelines.signup.job import run_signup_demo
    from skyrocket.pipelines.table.change_spec import ChangeSpec
    from skyrocket.pipelines.table.job import TableOptions, maintain_table
    from skyrocket.pipelines.verify.job import verify_archive, verify_replica, verify_stores

__all__ = [
    "ChangeSpec",
    "TableOptions",
    "TopicAudit",
    "archive_topics",
    "drain_group",
    "export_selection",
    "maintain_table",
    "prove_drain",
    "replay_messages",
    "resend_letters",
    "run_signup_demo",
    "triage_letters",
    "verify_archive",
    "verify_replica",
    "verify_stores",
    "watch_backlog",
]

__getattr__, __dir__ = lazy_names(
    globals(),
    {
        "archive.job": ("archive_topics",),
        "audit.job": ("TopicAudit",),
        "backlog.job": ("watch_backlog",),
        "deadletters.job": ("export_selection", "resend_letters", "triage_letters"),
        "drain.job": ("drain_group",),
        "drain.proof": ("prove_drain",),
        "replay.job": ("replay_messages",),
        "signup.job": ("run_signup_demo",),
        "table.change_spec": ("ChangeSpec",),
        "table.job": ("TableOptions", "maintain_table"),
        "verify.job": ("verify_archive", "verify_replica", "verify_stores"),
    },
)
