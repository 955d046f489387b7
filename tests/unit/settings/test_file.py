"""A file of settings after a change: what a person wrote stays."""

from __future__ import annotations

from skyrocket.settings.file import change_lines


def test_a_change_keeps_what_a_person_wrote():
    text = "# why\nlistenPort=1\nenableTopicList = true\n  waitSecondsForService: 3\nkvConfigPath=/a\\\nenableTopicList=/b\n"
    changed = change_lines(text, [("enableTopicList", "false"), ("waitSecondsForService", "9")])
    assert changed == (
        "# why\nlistenPort=1\nkvConfigPath=/a\\\nenableTopicList=/b\nenableTopicList=false\nwaitSecondsForService=9\n"
    )
    assert change_lines("kvConfigPath=/a\\", [("k", "v")]) == "kvConfigPath=/a\\\n\nk=v\n"
    assert change_lines("", [("k", "v")]) == "k=v\n"
