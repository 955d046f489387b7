import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Apache's clients asking for messages, for replies, and leaving traces, line by line: a line in is a verb and its arguments, the
 * answer is lines and then a single dot. Bodies travel as hexadecimal ("-" when empty). A failure is one line that starts with "!".
 * It compiles with the client 4.9.8 and with 5.5.0.
 *
 *   producer NAME [traced=yes compressOver=N]
 *   send NAME TOPIC QUEUE TAGS KEYS BODY…    to a queue (or "-"), tags and keys (joined by ",", or "-") the same for all: UNIQUE_ID OFFSET_ID QUEUE OFFSET
 *   writable NAME TOPIC                      the queues that a producer sends to
 *   query NAME TOPIC KEY MAX BEGIN END       messages by key: UNIQUE_ID POSITION QUEUE OFFSET BODY
 *   view NAME TOPIC ID                       a message by its unique id or its offset id
 *   request NAME TOPIC HOW TIMEOUT_MS BODY   ask, sync or async: REPLY BODY, or FAILED KIND CODE
 *   replier NAME GROUP TOPIC PRODUCER        a consumer that replies through a producer with the body twice; "silence" gets no reply,
 *                                            and what begins with "late" one after two seconds
 *   replied NAME                             what became of its replies so far: a send's status, or FAILED KIND CODE
 *   consume NAME GROUP TOPIC [orderly=yes traced=yes slowMs=N]
 *   heard NAME COUNT WAIT_MS                 what a consumer got so far: UNIQUE_ID POSITION QUEUE OFFSET BODY
 *   stop NAME
 */
public class QueryScenes {
    static String nameserver;
    static final Map<String, DefaultMQProducer> PRODUCERS = new HashMap<>();
    static final Map<String, DefaultMQPushConsumer> CONSUMERS = new HashMap<>();
    static final Map<String, List<MessageExt>> HEARD = new HashMap<>();
    static final Map<String, List<String>> REPLIED = new HashMap<>();

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
        switch (given[0]) {
            case "producer": return producer(given[1], options(given, 2));
            case "send": return send(PRODUCERS.get(given[1]), given);
            case "writable": return writable(PRODUCERS.get(given[1]), given[2]);
            case "query": return query(PRODUCERS.get(given[1]), given);
            case "view": return view(PRODUCERS.get(given[1]), given);
            case "request": return request(PRODUCERS.get(given[1]), given);
            case "replier": return replier(given);
            case "replied":
                synchronized (REPLIED.get(given[1])) {
                    return new ArrayList<>(REPLIED.get(given[1]));
                }
            case "consume": return consume(given, options(given, 4));
            case "heard": return heard(HEARD.get(given[1]), Integer.parseInt(given[2]), Integer.parseInt(given[3]));
            case "stop":
                if (PRODUCERS.containsKey(given[1])) {
                    PRODUCERS.remove(given[1]).shutdown();
                } else {
                    CONSUMERS.remove(given[1]).shutdown();
                }
                return new ArrayList<>();
            default: throw new IllegalArgumentException(given[0]);
        }
    }

    // --- sending and asking

    static List<String> producer(String name, Map<String, String> options) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(name, options.containsKey("traced"), null);
        producer.setNamesrvAddr(nameserver);
        producer.setInstanceName(name);
        producer.setSendMsgTimeout(20_000);
        producer.setPollNameServerInterval(1_000);
        producer.setHeartbeatBrokerInterval(1_000);
        producer.setRetryTimesWhenSendFailed(0);
        if (options.containsKey("compressOver")) {
            producer.setCompressMsgBodyOverHowmuch(Integer.parseInt(options.get("compressOver")));
        }
        producer.start();
        PRODUCERS.put(name, producer);
        return new ArrayList<>();
    }

    static List<String> send(DefaultMQProducer producer, String[] given) throws Exception {
        List<String> lines = new ArrayList<>();
        for (int i = 6; i < given.length; i++) {
            Message message = new Message(given[2], unhex(given[i]));
            if (!given[4].equals("-")) {
                message.setTags(given[4]);
            }
            if (!given[5].equals("-")) {
                message.setKeys(given[5].replace(',', ' '));
            }
            SendResult sent = given[3].equals("-") ? producer.send(message) : producer.send(message, (queues, out, number) -> {
                for (MessageQueue queue : queues) {
                    if (queue.getQueueId() == (Integer) number) {
                        return queue;
                    }
                }
                return null;
            }, Integer.parseInt(given[3]));
            lines.add(String.join(" ", sent.getMsgId(), sent.getOffsetMsgId(), Integer.toString(sent.getMessageQueue().getQueueId()), Long.toString(sent.getQueueOffset())));
        }
        return lines;
    }

    static List<String> writable(DefaultMQProducer producer, String topic) throws Exception {
        List<String> lines = new ArrayList<>();
        for (MessageQueue queue : new TreeSet<>(producer.fetchPublishMessageQueues(topic))) {
            lines.add(Integer.toString(queue.getQueueId()));
        }
        return lines;
    }

    static List<String> query(DefaultMQProducer producer, String[] given) throws Exception {
        try {
            return shown(producer.queryMessage(given[2], given[3], Integer.parseInt(given[4]), Long.parseLong(given[5]), Long.parseLong(given[6])).getMessageList());
        } catch (MQClientException failure) {
            return one(shown(failure));
        }
    }

    static List<String> view(DefaultMQProducer producer, String[] given) throws Exception {
        try {
            return shown(Collections.singletonList(producer.viewMessage(given[2], given[3])));
        } catch (MQClientException | MQBrokerException failure) {
            return one(shown(failure));
        }
    }

    static List<String> request(DefaultMQProducer producer, String[] given) throws Exception {
        Message message = new Message(given[2], unhex(given[5]));
        long timeoutMs = Long.parseLong(given[4]);
        try {
            if (given[3].equals("sync")) {
                return one("REPLY " + hex(producer.request(message, timeoutMs).getBody()));
            }
            CompletableFuture<String> answer = new CompletableFuture<>();
            producer.request(message, new RequestCallback() {
                public void onSuccess(Message reply) {
                    answer.complete("REPLY " + hex(reply.getBody()));
                }

                public void onException(Throwable failure) {
                    answer.complete(shown(failure));
                }
            }, timeoutMs);
            return one(answer.get(60, TimeUnit.SECONDS));
        } catch (MQClientException | MQBrokerException | RequestTimeoutException failure) {
            return one(shown(failure));
        }
    }

    // --- consuming and replying

    static List<String> replier(String[] given) throws Exception {
        List<String> replied = new ArrayList<>();
        REPLIED.put(given[1], replied);
        DefaultMQProducer producer = PRODUCERS.get(given[4]);
        DefaultMQPushConsumer consumer = consumer(given[1], given[2], false);
        consumer.subscribe(given[3], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                if (body.equals("silence")) {
                    continue;
                }
                String outcome;
                try {
                    if (body.startsWith("late")) {
                        Thread.sleep(2_000);
                    }
                    Message reply = MessageUtil.createReplyMessage(message, (body + body).getBytes(StandardCharsets.UTF_8));
                    outcome = producer.send(reply, 10_000).getSendStatus().toString();
                } catch (Exception failure) {
                    outcome = shown(failure);
                }
                synchronized (replied) {
                    replied.add(outcome);
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        CONSUMERS.put(given[1], consumer);
        return new ArrayList<>();
    }

    static List<String> consume(String[] given, Map<String, String> options) throws Exception {
        List<MessageExt> heard = new ArrayList<>();
        HEARD.put(given[1], heard);
        DefaultMQPushConsumer consumer = consumer(given[1], given[2], options.containsKey("traced"));
        consumer.subscribe(given[3], "*");
        int slowMs = Integer.parseInt(options.getOrDefault("slowMs", "0"));
        if (options.containsKey("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                hear(heard, messages, slowMs);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                hear(heard, messages, slowMs);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        CONSUMERS.put(given[1], consumer);
        return new ArrayList<>();
    }

    static DefaultMQPushConsumer consumer(String name, String group, boolean traced) {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, traced, null);
        consumer.setNamesrvAddr(nameserver);
        consumer.setInstanceName(name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        return consumer;
    }

    static void hear(List<MessageExt> heard, List<MessageExt> messages, int slowMs) {
        try {
            Thread.sleep(slowMs);
        } catch (InterruptedException ending) {
            Thread.currentThread().interrupt();
        }
        synchronized (heard) {
            heard.addAll(messages);
            heard.notifyAll();
        }
    }

    static List<String> heard(List<MessageExt> heard, int count, int waitMs) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMs);
        synchronized (heard) {
            while (heard.size() < count && deadline > System.nanoTime()) {
                heard.wait(50);
            }
            return shown(heard);
        }
    }

    // --- what is said, and how

    static Map<String, String> options(String[] given, int from) {
        Map<String, String> options = new TreeMap<>();
        for (int i = from; i < given.length; i++) {
            int at = given[i].indexOf('=');
            options.put(given[i].substring(0, at), given[i].substring(at + 1));
        }
        return options;
    }

    static List<String> one(String line) {
        return new ArrayList<>(Collections.singletonList(line));
    }

    static String shown(Throwable failure) {
        int code = 0;
        if (failure instanceof MQBrokerException) {
            code = ((MQBrokerException) failure).getResponseCode();
        } else if (failure instanceof MQClientException) {
            code = ((MQClientException) failure).getResponseCode();
        }
        return String.join(" ", "FAILED", failure.getClass().getSimpleName(), Integer.toString(code));
    }

    static List<String> shown(List<MessageExt> messages) {
        List<String> lines = new ArrayList<>();
        for (MessageExt message : messages) {
            String unique = message.getProperty("UNIQ_KEY");
            lines.add(String.join(" ", unique == null ? "-" : unique, Long.toString(message.getCommitLogOffset()), Integer.toString(message.getQueueId()), Long.toString(message.getQueueOffset()), hex(message.getBody())));
        }
        return lines;
    }

    static String hex(byte[] bytes) {
        if (bytes == null || bytes.length == 0) {
            return "-";
        }
        StringBuilder digits = new StringBuilder();
        for (byte each : bytes) {
            digits.append(String.format("%02x", each));
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
}
