"""Users and access control lists: 5.x's (ACL 2.0), and what is left of 4.x's (ACL 1.0)."""

from __future__ import annotations

from skyrocket.protocol.header import Header


class CreateUserRequestHeader(Header, kw_only=True):
    """3001: a new user; the rest is the body."""

    username: str | None = None


class UpdateUserRequestHeader(Header, kw_only=True):
    """3002: a user changed; the rest is the body."""

    username: str | None = None


class DeleteUserRequestHeader(Header, kw_only=True):
    """3003: a user removed."""

    username: str | None = None


class GetUserRequestHeader(Header, kw_only=True):
    """3004: one user."""

    username: str | None = None


class ListUsersRequestHeader(Header, kw_only=True):
    """3005: users whose name has this text in it, or all."""

    filter: str | None = None


class CreateAclRequestHeader(Header, kw_only=True):
    """3006: new policies of a subject; they are the body."""

    subject: str | None = None


class UpdateAclRequestHeader(Header, kw_only=True):
    """3007: policies of a subject changed; they are the body."""

    subject: str | None = None


class DeleteAclRequestHeader(Header, kw_only=True):
    """3008: all of a subject's policies, or those on one resource."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class GetAclRequestHeader(Header, kw_only=True):
    """3009: the policies of one subject."""

    subject: str | None = None


class ListAclsRequestHeader(Header, kw_only=True):
    """3010: policies of subjects and on resources that match."""

    subject_filter: str | None = None
    resource_filter: str | None = None


class CreateAccessConfigRequestHeader(Header, kw_only=True):
    """50, only 4.x: an account of ACL 1.0, made or changed."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool | None = None
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class DeleteAccessConfigRequestHeader(Header, kw_only=True):
    """51, only 4.x: an account of ACL 1.0, removed."""

    access_key: str


class GetBrokerAclConfigResponseHeader(Header, kw_only=True):
    """52, only 4.x: the version of the broker's ACL 1.0 file."""

    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_addr: str
    cluster_name: str


class UpdateGlobalWhiteAddrsConfigRequestHeader(Header, kw_only=True):
    """53, only 4.x: addresses that ACL 1.0 lets in without a signature."""

    global_white_addrs: str
    acl_file_full_path: str
