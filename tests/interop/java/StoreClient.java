import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Apache's own client, asked line by line: a line in is a verb and its arguments, the answer is lines and then a single dot.
 * Text and bytes travel as hexadecimal. A failure is one line that starts with "!".
 *
 *   consume TOPIC…                           every message of every queue, from offset 0 on
 *   tagged TOPIC EXPRESSION                  the messages of every queue that a broker gives for an expression over tags
 *   search TOPIC QUEUE TIME…                 for each time, the queue offset that the broker has for it
 *   query TOPIC KEY BEGIN END                the messages with a key, in the order in which the broker gives them
 *   unique TOPIC UNIQUE_KEY                  the message with a unique key
 *   view TOPIC OFFSET_ID                     the message at a place
 *   send KIND QUEUE (MESSAGE)…               KIND: one, batch, commit, rollback, unknown; MESSAGE: TOPIC BODY PROPERTIES
 */
public class StoreClient {
    static String nameserver;
    static int instances = 0;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "US-ASCII");
        System.setOut(System.err);
        nameserver = arguments[0];
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                for (String answer : answers(line.split(" "))) {
                    out.println(answer);
                }
            } catch (Exception failure) {
                failure.printStackTrace();
                out.println("!" + hex(failure.toString().getBytes(StandardCharsets.UTF_8)));
            }
            out.println(".");
            out.flush();
        }
        System.exit(0);
    }

    static List<String> answers(String[] given) throws Exception {
        if (given[0].equals("send")) {
            return send(given);
        }
        // A new one each time: brokers come and go under the same names, and an instance remembers where they were.
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("StoreClientGroup");
        consumer.setNamesrvAddr(nameserver);
        consumer.setInstanceName("consumer-" + instances++);
        consumer.start();
        try {
            List<String> found = new ArrayList<>();
            switch (given[0]) {
                case "consume":
                    for (int i = 1; i < given.length; i++) {
                        consume(consumer, text(given[i]), "*", found);
                    }
                    return found;
                case "tagged":
                    consume(consumer, text(given[1]), text(given[2]), found);
                    return found;
                case "search":
                    for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(text(given[1]))) {
                        for (int i = 3; i < given.length && queue.getQueueId() == Integer.parseInt(given[2]); i++) {
                            found.add(Long.toString(consumer.searchOffset(queue, Long.parseLong(given[i]))));
                        }
                    }
                    return found;
                case "query":
                    for (MessageExt message : consumer.queryMessage(text(given[1]), text(given[2]), 1000,
                            Long.parseLong(given[3]), Long.parseLong(given[4])).getMessageList()) {
                        found.add(shown(message));
                    }
                    return found;
                case "unique":
                    found.add(shown(consumer.getDefaultMQPullConsumerImpl().queryMessageByUniqKey(text(given[1]), text(given[2]))));
                    return found;
                case "view":
                    found.add(shown(consumer.viewMessage(text(given[1]), text(given[2]))));
                    return found;
                default:
                    throw new IllegalArgumentException(given[0]);
            }
        } finally {
            new Thread(consumer::shutdown).start(); // it takes three seconds
        }
    }

    static void consume(DefaultMQPullConsumer consumer, String topic, String expression, List<String> found) throws Exception {
        for (MessageQueue queue : new TreeSet<>(consumer.fetchSubscribeMessageQueues(topic))) {
            long end = consumer.maxOffset(queue);
            long offset = 0;
            while (offset < end) {
                PullResult pulled = consumer.pull(queue, expression, offset, 256, 10_000);
                if (pulled.getPullStatus() == PullStatus.FOUND) {
                    for (MessageExt message : pulled.getMsgFoundList()) {
                        found.add(shown(message));
                    }
                } else if (pulled.getNextBeginOffset() <= offset) {
                    throw new IllegalStateException(queue + " at " + offset + " of " + end + ": " + pulled);
                }
                offset = pulled.getNextBeginOffset();
            }
        }
    }

    static List<String> send(String[] given) throws Exception {
        String kind = given[1];
        int queueId = Integer.parseInt(given[2]);
        List<Message> messages = new ArrayList<>();
        for (int i = 3; i < given.length; i += 3) {
            Message message = new Message(text(given[i]), unhex(given[i + 1]));
            for (Map.Entry<String, String> property : MessageDecoder.string2messageProperties(text(given[i + 2])).entrySet()) {
                put(message, property.getKey(), property.getValue());
            }
            messages.add(message);
        }
        DefaultMQProducer producer = kind.equals("one") || kind.equals("batch") ? new DefaultMQProducer("StoreClientProducers") : transactional(kind);
        producer.setNamesrvAddr(nameserver);
        producer.setInstanceName("producer-" + instances++);
        producer.setSendMsgTimeout(10_000);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        try {
            List<String> results = new ArrayList<>();
            MessageQueue queue = queueId < 0 ? null : queueOf(producer, messages.get(0).getTopic(), queueId);
            if (kind.equals("batch")) {
                results.add(shown(producer.send(messages, queue)));
            } else {
                for (Message message : messages) {
                    results.add(shown(kind.equals("one") ? producer.send(message, queue) : producer.sendMessageInTransaction(message, null)));
                }
            }
            return results;
        } finally {
            new Thread(producer::shutdown).start();
        }
    }

    static MessageQueue queueOf(DefaultMQProducer producer, String topic, int queueId) throws Exception {
        for (MessageQueue queue : producer.fetchPublishMessageQueues(topic)) {
            if (queue.getQueueId() == queueId) {
                return queue;
            }
        }
        throw new IllegalArgumentException(topic + " has no queue " + queueId);
    }

    static DefaultMQProducer transactional(String kind) {
        Map<String, LocalTransactionState> ends = new HashMap<>();
        ends.put("commit", LocalTransactionState.COMMIT_MESSAGE);
        ends.put("rollback", LocalTransactionState.ROLLBACK_MESSAGE);
        ends.put("unknown", LocalTransactionState.UNKNOW);
        TransactionMQProducer producer = new TransactionMQProducer("StoreClientTransactions");
        producer.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return ends.get(kind);
            }

            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.UNKNOW;
            }
        });
        return producer;
    }

    /** The client refuses names that mean something to the system, but for those that it has a method for. */
    static void put(Message message, String name, String value) {
        switch (name) {
            case MessageConst.PROPERTY_TAGS:
                message.setTags(value);
                break;
            case MessageConst.PROPERTY_KEYS:
                message.setKeys(value);
                break;
            case MessageConst.PROPERTY_DELAY_TIME_LEVEL:
                message.setDelayTimeLevel(Integer.parseInt(value));
                break;
            default:
                message.putUserProperty(name, value);
        }
    }

    static String shown(SendResult sent) {
        return String.join(" ", sent.getSendStatus().toString(), sent.getMsgId(), sent.getOffsetMsgId(),
            Integer.toString(sent.getMessageQueue().getQueueId()), Long.toString(sent.getQueueOffset()));
    }

    static String shown(MessageExt message) throws Exception {
        Map<String, String> properties = new TreeMap<>(message.getProperties());
        properties.remove(MessageConst.PROPERTY_MIN_OFFSET); // the client adds these two to what it pulls
        properties.remove(MessageConst.PROPERTY_MAX_OFFSET);
        return String.join(" ",
            hex(message.getTopic().getBytes(StandardCharsets.UTF_8)),
            Integer.toString(message.getQueueId()),
            Long.toString(message.getQueueOffset()),
            Long.toString(message.getCommitLogOffset()),
            Integer.toString(message.getStoreSize()),
            Integer.toString(message.getFlag()),
            Integer.toString(message.getSysFlag()),
            Long.toString(message.getBornTimestamp()),
            host(message.getBornHost()),
            Long.toString(message.getStoreTimestamp()),
            host(message.getStoreHost()),
            Integer.toString(message.getReconsumeTimes()),
            Long.toString(message.getPreparedTransactionOffset()),
            hex(message.getBody()),
            hex(MessageDecoder.messageProperties2String(properties).getBytes(StandardCharsets.UTF_8)));
    }

    static String host(SocketAddress socketAddress) {
        InetSocketAddress address = (InetSocketAddress) socketAddress;
        byte[] ip = address.getAddress().getAddress();
        return hex(ByteBuffer.allocate(ip.length + 4).put(ip).putInt(address.getPort()).array());
    }

    static String hex(byte[] bytes) {
        if (bytes == null || bytes.length == 0) {
            return "-";
        }
        StringBuilder digits = new StringBuilder();
        for (byte b : bytes) {
            digits.append(String.format("%02x", b));
        }
        return digits.toString();
    }

    static byte[] unhex(String digits) {
        if (digits.equals("-")) {
            return new byte[0];
        }
        byte[] bytes = new byte[digits.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(digits.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    static String text(String digits) {
        return new String(unhex(digits), StandardCharsets.UTF_8);
    }
}
