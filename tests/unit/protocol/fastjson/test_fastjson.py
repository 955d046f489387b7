"""JSON bodies in strict JSON and in fastjson's dialect."""

from __future__ import annotations

import time

import msgspec
import pytest

from skyrocket.protocol import limits, versions
from skyrocket.protocol.bodies import (
    BatchAckMessageRequestBody,
    BrokerData,
    BrokerStatsItem,
    ClusterInfo,
    CMResult,
    Connection,
    ConsumeFromWhere,
    ConsumeMessageDirectlyResult,
    ConsumerData,
    ConsumeStats,
    ConsumeType,
    DelayOffsetSerializeWrapper,
    GetConsumerStatusBody,
    HeartbeatData,
    KVTable,
    LanguageCode,
    LockBatchRequestBody,
    MessageModel,
    MessageQueue,
    MessageQueueAssignment,
    OffsetWrapper,
    ResetOffsetBody,
    SubscriptionData,
    SubscriptionGroupConfig,
    TopicConfig,
    TopicFilterType,
    TopicQueueMappingInfo,
    TopicRouteData,
    UserInfo,
)
from skyrocket.protocol.errors import BodyError
from skyrocket.protocol.fastjson.codec import Dialect, decode, decode_request, encode, encode_pretty, route_dialect
from skyrocket.protocol.fastjson.leniency import quote_integer_keys

QUEUE = MessageQueue("t", "b", 1)


# Reading ------------------------------------------------------------------------------------------------------------


def test_integer_keys_are_read_with_and_without_quotes():
    bare = decode(b'{"brokerName":"b","brokerAddrs":{0:"x",-1:"y",5000000000:"z"}}', BrokerData)
    quoted = decode(b'{"brokerName":"b","brokerAddrs":{"0":"x","-1":"y","5000000000":"z"}}', BrokerData)
    assert bare == quoted
    assert bare.broker_addrs == {0: "x", -1: "y", 5_000_000_000: "z"}


def test_objects_are_read_as_keys():
    text = b'{"consumeTps":0.5,"offsetTable":{{"brokerName":"b","queueId":1,"topic":"t"}:{"brokerOffset":7}}}'
    assert decode(text, ConsumeStats) == ConsumeStats(consume_tps=0.5, offset_table={QUEUE: OffsetWrapper(broker_offset=7)})


def test_white_space_may_stand_between_all_parts():
    text = b' {\n\t"offsetTable" : { { "topic" : "t" , "brokerName" : "b", "queueId":1 } : 7 ,\r\n{"queueId":2}:8 } } \n'
    assert decode(text, ResetOffsetBody).offset_table == {QUEUE: 7, MessageQueue("", "", 2): 8}


def test_queues_are_read_in_lists_too():
    text = b'{"mqSet":[{"topic":"t","brokerName":"b","queueId":1}]}'
    assert decode(text, LockBatchRequestBody).mq_set == [QUEUE]


def test_a_list_may_be_the_whole_body():
    assert decode(b'[{"username":"u"}]', list[UserInfo]) == [UserInfo(username="u")]


def test_keys_that_we_do_not_know_are_ignored_in_both_dialects():
    assert decode(b'{"table":{"a":"b"},"new":{"x":[1]}}', KVTable).table == {"a": "b"}
    assert decode(b'{"table":{"a":"b"},"new":{1:[1],{"x":2}:null}}', KVTable).table == {"a": "b"}


def test_fields_that_an_older_peer_does_not_send_have_javas_defaults():
    config = decode(b'{"groupName":"g"}', SubscriptionGroupConfig)
    assert config == SubscriptionGroupConfig(group_name="g")
    assert (config.retry_max_times, config.which_broker_when_consume_slowly, config.consume_enable) == (16, 1, True)


def test_a_repeated_object_of_the_older_library_is_looked_up():
    text = b'{"brokerDatas":[{"brokerName":"b","brokerAddrs":{0:"x"}},{"$ref":"$.brokerDatas[0]"}]}'
    assert decode(text, TopicRouteData).broker_datas == [BrokerData(broker_name="b", broker_addrs={0: "x"})] * 2


def test_a_references_path_may_have_escaped_signs():
    text = rb'{"brokerAddrTable":{"a.b":{"brokerName":"x"},"c":{"$ref":"$.brokerAddrTable.a\\.b"}},"clusterAddrTable":null}'
    table = decode(text, ClusterInfo).broker_addr_table
    assert table is not None
    assert table["c"] == table["a.b"] == BrokerData(broker_name="x")


def test_long_names_of_a_batch_acknowledgement_are_read():
    long = (
        b'{"acks":[{"consumerGroup":"g","topic":"t","startOffset":5,"queueId":3,"popTime":9,"bitSet":"AgI="}],"brokerName":"x"}'
    )
    short = b'{"acks":[{"b":"AgI=","c":"g","it":0,"pt":9,"q":3,"rq":0,"so":5,"t":"t"}],"brokerName":"x"}'
    body = decode(long, BatchAckMessageRequestBody)
    assert body == decode(short, BatchAckMessageRequestBody)
    assert encode(body) == short


# What Java lets pass ------------------------------------------------------------------------------------------------


def test_members_of_enumerations_may_come_as_numbers_as_the_go_client_sends_a_consume_result():
    text = b'{"order":false,"autoCommit":true,"consumeResult":1,"remark":"","spentTimeMills":3}'
    assert decode(text, ConsumeMessageDirectlyResult).consume_result is CMResult.CR_LATER


def test_the_number_of_a_member_is_its_place_in_javas_enumeration():
    text = b'{"groupName":"g","consumeType":1,"messageModel":1,"consumeFromWhere":4}'
    consumer = decode(text, ConsumerData)
    assert consumer.consume_type is ConsumeType.CONSUME_PASSIVELY
    assert consumer.message_model is MessageModel.CLUSTERING
    assert consumer.consume_from_where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def test_a_list_may_be_null_and_its_numbers_text_as_the_go_client_sends_them():
    text = b'{"clientID":"c","producerDataSet":[],"consumerDataSet":[{"groupName":"g","subscriptionDataSet":null}]}'
    assert decode(text, HeartbeatData).consumer_data_set == [ConsumerData(group_name="g")]
    assert decode(b'{"codeSet":["2598919"]}', SubscriptionData).code_set == [2598919]


def test_null_is_zero_for_a_number_and_the_default_for_the_rest():
    text = b'{"topicName":"t","perm":null,"order":null,"attributes":null,"topicFilterType":null}'
    assert decode(text, TopicConfig) == TopicConfig(topic_name="t", perm=0, order=False)


def test_null_where_nothing_is_allowed_is_none():
    assert decode(b'{"attachments":null,"messageQueue":null}', MessageQueueAssignment) == MessageQueueAssignment()


def test_null_inside_lists_and_maps_is_dropped():
    assert decode(b'{"table":{"a":null,"b":"c"}}', KVTable).table == {"b": "c"}
    assert decode(b'{"consumerDataSet":[null]}', HeartbeatData).consumer_data_set == []


def test_numbers_and_texts_stand_for_each_other():
    text = b'{"topicName":5,"perm":"6","readQueueNums":1.0,"writeQueueNums":"","order":"true","topicSysFlag":true}'
    assert decode(text, TopicConfig) == TopicConfig(
        topic_name="5", perm=6, read_queue_nums=1, write_queue_nums=0, order=True, topic_sys_flag=1
    )


def test_a_queue_as_a_key_is_read_as_leniently():
    text = b'{"offsetTable":{{"brokerName":"b","queueId":"1","topic":"t"}:"7",{"brokerName":null,"queueId":null}:8}}'
    assert decode(text, ResetOffsetBody).offset_table == {QUEUE: 7, MessageQueue("", "", 0): 8}


def test_a_language_that_we_do_not_know_is_other():
    assert decode(b'{"clientId":"c","language":"COBOL"}', Connection).language is LanguageCode.OTHER


# What is not read ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"", "The body is not JSON: it is empty or ends too early."),
        (b"null", "The body is not a KVTable: Expected object, got null."),
        (b"[]", "The body is not a KVTable: Expected object, got array."),
        (b'{"table":{"a":"b"}', "The body is not JSON: it is empty or ends too early."),
        (b'{"table":{"a":"b"}}x', "The body is not JSON: it has something else at character 19."),
        (b'{"table":{"a":"b"}}{', "The body is not JSON: '{' is out of place at character 19."),
        (b'{"table":{"a":"b",}}', "The body is not JSON: '}' is out of place at character 18."),
        (b'{"table":{"a" "b"}}', "The body is not JSON: 'b' is out of place at character 15."),
        (b'{"table":{1.5:"b"}}', "The body is not JSON: '1' is out of place at character 10."),
        (b'{"table":[1}', "The body is not JSON: '}' is out of place at character 11."),
        (b"{table:1}", "The body is not JSON: it has something else at character 1."),
        (b'{"table":3}', "The body is not a KVTable: Expected object, got int - at $.table."),
        (b'{"table":{"a":{}}}', "The body is not a KVTable: Expected str, got object - at $.table[...]."),
        (b'{"table":{"a":"\xff"}}', "The body is not UTF-8 at byte 15."),
        (b'{"table":{"a":"\xed\xa0\x80"}}', "The body is not UTF-8 at byte 15."),
        (b'{"table":{"a":"\\ud800"}}', "The body has half of a surrogate pair, which is not a character."),
        (b'{"table":{"a":"\\x41"}}', 'The body has a string with an unknown escape: "\\x41".'),
        (b'{"table":{"a":{"$ref":"$.b"}}}', "The body refers to '$.b', which it does not have."),
        (b'{"table":{"$ref":"$.table"}}', "The body refers to '$.table', which itself refers to something."),
        (b'{"table":{"$ref":".."}}', "The body refers to '..', which it does not have."),
        (b'{"$ref":"$"}', "The body is only a reference."),
    ],
)
def test_invalid_bodies_are_refused_with_a_sentence(text: bytes, sentence: str):
    with pytest.raises(BodyError) as refusal:
        decode(text, KVTable)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    "text",
    [
        b'{"offsetTable":{"abc":1}}',
        b'{"offsetTable":{5:1}}',
        b'{"offsetTable":{"[]":1}}',
        b'{"offsetTable":{{"queueId":"x"}:1}}',
        b'{"offsetTable":{{"$ref":"$.consumerTable.c.null"}:1}}',
        b'{"offsetTable":{{"queueId":1}:99999999999999999999}}',
        b'{"offsetTable":[]}',
    ],
)
def test_a_key_or_value_of_a_wrong_type_is_refused(text: bytes):
    with pytest.raises(BodyError, match="The body is not a ResetOffsetBody"):
        decode(text, ResetOffsetBody)


@pytest.mark.parametrize("member", [b'"NEITHER"', b"2", b"-1", b"{}", b'""'])
def test_a_member_that_an_enumeration_lacks_is_refused(member: bytes):
    with pytest.raises(BodyError, match="topicFilterType"):
        decode(b'{"topicFilterType":' + member + b"}", TopicConfig)


@pytest.mark.parametrize("number", [b"2147483648", b"-2147483649", b'"99999999999"', b"1e300", b"9" * 30])
def test_a_number_too_large_for_javas_type_is_refused(number: bytes):
    with pytest.raises(BodyError, match="perm"):
        decode(b'{"perm":' + number + b"}", TopicConfig)


MEGABYTE = 1_000_000


@pytest.mark.parametrize(
    "hostile",
    [
        b"[" * MEGABYTE,
        b"{" * MEGABYTE,
        b'{"a":' * (MEGABYTE // 5),
        b'{"table":{"a":' + b"[" * MEGABYTE,
        b'{"offsetTable":{"' + b"[" * MEGABYTE + b'":1}}',
        b'{"table":{' + b"{" * MEGABYTE,
        b'"' + b"\\" * MEGABYTE,
        b'"' + b"a" * MEGABYTE,
        b'"' + b"\\u" * (MEGABYTE // 2),
        b"9" * MEGABYTE,
        b'{"table":' + b"9" * MEGABYTE + b"}",
        b'{"table":' + b"-" * MEGABYTE,
        b'{"table":' + b"1." * (MEGABYTE // 2),
        b" " * MEGABYTE,
        b"{0:" + b"[],{" * (MEGABYTE // 4),
        b"[" + b'{"$ref":"$[0]"},' * (MEGABYTE // 16) + b"1]",
        b'[{"$ref":"$' + b".a" * (MEGABYTE // 2) + b'"}]',
    ],
    ids=lambda text: text[:14].decode(),
)
def test_a_megabyte_of_hostile_text_is_refused_quickly(hostile: bytes):
    body_type: type[msgspec.Struct] = ResetOffsetBody if b"offsetTable" in hostile else KVTable
    begin_s = time.process_time()
    with pytest.raises(BodyError):
        decode(hostile, body_type)
    assert time.process_time() - begin_s < 3  # milliseconds in fact; a quadratic reader would take minutes


def test_nesting_is_bounded_and_real_nesting_is_far_from_it():
    def nested(levels: int) -> bytes:
        return b'{"table":{},"new":{{}:' + b"[" * (levels - 2) + b"]" * (levels - 2) + b"}}"

    assert decode(nested(limits.JSON_DEPTH_MAX), KVTable) == KVTable()
    with pytest.raises(BodyError, match="deeper than 64 levels"):
        decode(nested(limits.JSON_DEPTH_MAX + 1), KVTable)


def test_a_short_text_cannot_stand_for_an_endless_body():
    names = b",".join(b'"%d"' % number for number in range(1_000))
    references = b",".join([b'{"$ref":"$.consumeStatsList"}'] * 1_000)
    with pytest.raises(BodyError, match=f"more than {limits.JSON_REFERENCED_NODES_MAX} values"):
        decode(b'{"consumeStatsList":[' + names + b'],"x":[' + references + b"]}", KVTable)


# Writing ------------------------------------------------------------------------------------------------------------


def test_fields_are_written_in_alphabetical_order_and_none_is_not():
    route = TopicRouteData(broker_datas=[BrokerData(broker_name="b", cluster="c", broker_addrs={1: "y", 0: "x"})])
    assert encode(route) == (
        b'{"brokerDatas":[{"brokerAddrs":{1:"y",0:"x"},"brokerName":"b","cluster":"c","enableActingMaster":false}],'
        b'"filterServerTable":{},"queueDatas":[]}'
    )


def test_a_strict_body_has_sorted_and_quoted_keys_and_no_number_that_javascript_rounds():
    mappings = {
        name: TopicQueueMappingInfo(topic="t", bname="b", epoch=epoch, curr_id_map={10: 1, 2: 1})
        for name, epoch in (("\uffee", 2**53 - 1), ("😀", 2**53))
    }
    text = encode(TopicRouteData(topic_queue_mapping_by_broker=mappings), Dialect.STRICT)
    assert text == (
        b'{"brokerDatas":[],"filterServerTable":{},"queueDatas":[],"topicQueueMappingByBroker":{'
        b'"\xf0\x9f\x98\x80":{"bname":"b","currIdMap":{"2":1,"10":1},"dirty":false,"epoch":"9007199254740992",'
        b'"scope":"__global__","topic":"t","totalQueues":0},'
        b'"\xef\xbf\xae":{"bname":"b","currIdMap":{"2":1,"10":1},"dirty":false,"epoch":9007199254740991,'
        b'"scope":"__global__","topic":"t","totalQueues":0}}}'
    )


def test_queues_as_keys_are_objects_in_the_dialect_and_texts_in_strict_json():
    body = ResetOffsetBody(offset_table={QUEUE: 7})
    assert encode(body) == b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"t"}:7}}'
    strict = encode(body, Dialect.STRICT)
    assert strict == rb'{"offsetTable":{"{\"brokerName\":\"b\",\"queueId\":1,\"topic\":\"t\"}":7}}'
    assert decode(strict, ResetOffsetBody) == body


def test_text_is_escaped_as_java_escapes_it():
    body = KVTable(table={'"\\': "\x00\b\t\n\x0b\f\r\x1f /<>&'\x7fé中😀\u2028"})
    escaped = '{"table":{"\\"\\\\":"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f /<>&\'\x7fé中😀\u2028"}}'
    assert encode(body).decode() == escaped


@pytest.mark.parametrize("dialect", Dialect)
def test_a_lone_surrogate_is_refused(dialect: Dialect):
    with pytest.raises(BodyError, match="surrogate"):
        encode(KVTable(table={"a": "x\ud800"}), dialect)
    with pytest.raises(BodyError, match="surrogate"):
        encode(KVTable(table={"a": '"x\udc00'}), dialect)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100, "100"),
        (0.033332222259258026, "0.033332222259258026"),
        (0.001, "0.001"),
        (9.99e-4, "9.99E-4"),
        (1e-5, "1.0E-5"),
        (-1.25e-7, "-1.25E-7"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (123456789012345680.0, "1.2345678901234568E17"),
        (1e22, "1.0E22"),
        (1e100, "1.0E100"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "null"),
        (float("inf"), "null"),
        (float("-inf"), "null"),
    ],
)
def test_doubles_are_written_as_java_prints_them(number: float, text: str):
    assert encode(BrokerStatsItem(tps=number)) == f'{{"avgpt":0.0,"sum":0,"tps":{text}}}'.encode()


def test_a_double_that_was_not_a_number_reads_as_zero():
    assert decode(encode(BrokerStatsItem(tps=float("nan"), sum=3)), BrokerStatsItem) == BrokerStatsItem(sum=3)


def test_members_of_enumerations_are_written_by_name():
    assert b'"topicFilterType":"MULTI_TAG"' in encode(TopicConfig(topic_filter_type=TopicFilterType.MULTI_TAG))


def test_files_are_laid_out_with_tabs():
    assert encode_pretty(ResetOffsetBody(offset_table={QUEUE: 7})) == (
        b'{\n\t"offsetTable":{\n\t\t{\n\t\t\t"brokerName":"b",\n\t\t\t"queueId":1,\n\t\t\t"topic":"t"\n\t\t}:7\n\t}\n}'
    )
    assert encode_pretty(KVTable()) == b'{\n\t"table":{}\n}'


# Which dialect ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "accepts_only_strict", "dialect"),
    [
        (versions.V4_9_3, None, Dialect.FASTJSON),
        (versions.V4_9_3, False, Dialect.FASTJSON),
        (versions.V4_9_3, True, Dialect.STRICT),
        (versions.V4_9_4 - 1, None, Dialect.FASTJSON),
        (versions.V4_9_4, None, Dialect.STRICT),
        (versions.V4_9_4, False, Dialect.STRICT),
        (versions.CURRENT, None, Dialect.STRICT),
        (0, None, Dialect.FASTJSON),
        (0, True, Dialect.STRICT),
    ],
)
def test_routes_are_strict_for_new_clients_and_those_that_ask(version: int, accepts_only_strict: bool | None, dialect: Dialect):
    assert route_dialect(version, accepts_only_strict) is dialect


def test_a_body_in_the_dialect_is_read_up_to_a_size_and_strict_json_beyond_it():
    many = b",".join(b'"k%d":"v"' % number for number in range(400_000))
    assert len(decode(b'{"table":{' + many + b"}}", KVTable).table) == 400_000
    with pytest.raises(BodyError, match="too many to be read otherwise"):
        decode(b'{"table":{{}:"x",' + many + b"}}", KVTable)


@pytest.mark.parametrize(
    ("data", "table"),
    [
        (b'{"table":{0:"a", -7:"b" ,12 :"c"}}', {"0": "a", "-7": "b", "12": "c"}),
        (b'{"table":{"a":",1:x","b":"{2:y","c":"\\\\",3:"d\\",4:"}}', {"a": ",1:x", "b": "{2:y", "c": "\\", "3": 'd",4:'}),
        (b'{"table":{"0":"a"}}', {"0": "a"}),
    ],
)
def test_integer_keys_are_read_where_they_are_keys(data: bytes, table: dict[str, str]):
    assert decode_request(data, KVTable).table == table


@pytest.mark.parametrize("tail", [b'"', b'"\\', b'"\\"', b'"' + b'\\"' * 50_000, b"{" + b" " * 50_000, b"," * 50_000])
def test_a_body_that_ends_in_the_middle_is_refused(tail: bytes):
    with pytest.raises(BodyError):
        decode_request(b'{"table":{0:' + tail, KVTable)


def test_a_string_that_does_not_end_is_read_once():
    def cpu_s(quotes: int) -> float:
        data = b'{"table":{0:"{' + b'\\"' * quotes
        before = time.process_time()
        assert quote_integer_keys(data) == b'{"table":{"0":"{' + b'\\"' * quotes
        return time.process_time() - before

    few, many = (min(cpu_s(quotes) for _ in range(3)) for quotes in (2_000, 32_000))
    assert many < 64 * few, f"16 times the text took {many / few:.0f} times as long"


def test_a_request_in_the_dialect_has_a_bound_and_a_response_a_larger_one():
    keys = b",".join(b'{"brokerName":"b","queueId":%d,"topic":"t"}:%d' % (number, number) for number in range(1_000))
    data = b'{"messageQueueTable":{' + keys + b"}}"
    assert len(decode(data, GetConsumerStatusBody).message_queue_table or ()) == 1_000
    with pytest.raises(BodyError, match="16384 are allowed in fastjson's dialect"):
        decode_request(data, GetConsumerStatusBody)
    numbers = b'{"offsetTable":{' + b",".join(b"%d:%d" % (number, number) for number in range(10_000)) + b"}}"
    assert len(decode_request(numbers, DelayOffsetSerializeWrapper).offset_table) == 10_000
