"""Users and access control lists of 5.x (ACL 2.0), and those of 4.x (ACL 1.0) that are still in use."""

from __future__ import annotations

from skyrocket.protocol.header import Header


class CreateUserRequestHeader(Header, kw_only=True):
    """3001: create a user; the body has the other fields."""

    username: str | None = None


class UpdateUserRequestHeader(Header, kw_only=True):
    """3002: change a user; the body has the other fields."""

    username: str | None = None


class DeleteUserRequestHeader(Header, kw_only=True):
    """3003: delete a user."""

    username: str | None = None


class GetUserRequestHeader(Header, kw_only=True):
    """3004: get a user."""

    username: str | None = None


class ListUsersRequestHeader(Header, kw_only=True):
    """3005: list the users whose name contains a text, or all."""

    filter: str | None = None


class CreateAclRequestHeader(Header, kw_only=True):
    """3006: create the policies in the body for a subject."""

    subject: str | None = None


class UpdateAclRequestHeader(Header, kw_only=True):
    """3007: change the policies of a subject to those in the body."""

    subject: str | None = None


class DeleteAclRequestHeader(Header, kw_only=True):
    """3008: delete all policies of a subject, or those on one resource."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class GetAclRequestHeader(Header, kw_only=True):
    """3009: get the policies of a subject."""

    subject: str | None = None


class ListAclsRequestHeader(Header, kw_only=True):
    """3010: list the policies that match a subject and a resource."""

    subject_filter: str | None = None
    resource_filter: str | None = None


class CreateAccessConfigRequestHeader(Header, kw_only=True):
    """50, only 4.x: create or change an account of ACL 1.0."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool | None = None
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class DeleteAccessConfigRequestHeader(Header, kw_only=True):
    """51, only 4.x: delete an account of ACL 1.0."""

    access_key: str


class GetBrokerAclConfigResponseHeader(Header, kw_only=True):
    """52, only 4.x: the version of the broker's ACL 1.0 file."""

    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_addr: str
    cluster_name: str


class UpdateGlobalWhiteAddrsConfigRequestHeader(Header, kw_only=True):
    """53, only 4.x: set the addresses that ACL 1.0 admits without a signature."""

    global_white_addrs: str
    acl_file_full_path: str
