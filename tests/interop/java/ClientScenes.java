import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Apache's producers and consumers, made, used and ended by name, line by line: a line in is a verb and its arguments, the answer
 * is lines and then a single dot. Text and bytes travel as hexadecimal ("-" when empty). A failure is one line that starts with "!".
 * It compiles with the client 4.9.8 and with 5.5.0; what only the later one has is reached by reflection.
 *
 *   speaks                                   how it writes headers: JSON or ROCKETMQ
 *   producer NAME GROUP [retries=N compressOver=N compressType=LZ4|ZSTD|ZLIB maxSize=N namespace=NAME traced=yes]
 *   send NAME HOW QUEUE (MESSAGE)…           HOW: sync, async, oneway, batch; QUEUE: the producer's choice (-), or one by a selector
 *                                            (2), or one that need not exist (=2); MESSAGE: TOPIC TAGS KEYS FLAG BODY PROPERTIES
 *                                            (DELAY among them is the message's delay level).
 *                                            A result for each: what the broker answered, or FAILED and why
 *   writable NAME TOPIC                      the queues to which this producer may send
 *   offsets NAME TOPIC QUEUE                 of a queue: the least, the most, and when its first message was stored
 *   search NAME TOPIC QUEUE BOUNDARY TIME…   for each time the offset that belongs to it; BOUNDARY: -, LOWER, UPPER
 *   push NAME GROUP TOPIC EXPRESSION [listener=orderly model=BROADCASTING from=first|last|YYYYMMDDhhmmss slowMs=N namespace=NAME
 *                                     fails=N level=N tries=N suspendMs=N pollMs=N]
 *                                            with fails, each message is refused so many times (level: delayLevelWhenNextConsume,
 *                                            tries: maxReconsumeTimes, suspendMs: between two tries of one that is in order);
 *                                            pollMs: how often it asks the nameserver for routes
 *   subscribe NAME TOPIC EXPRESSION          a push consumer that runs takes another topic too, or other tags of the same
 *   heard NAME COUNT WAIT_MS                 what a push consumer got so far, in this order; waits until it is that many
 *   share NAME                               the queues that a push consumer has at present
 *   persist NAME                             tell the broker at once how far a push consumer is
 *   overlaps                                 how often two listeners were in the same queue at the same time
 *   lite NAME GROUP [topic=TOPIC expression=EXPRESSION]     With sql=yes, the expression of a push or lite consumer is SQL92
 *   assign NAME TOPIC QUEUE…
 *   poll NAME COUNT WAIT_MS                  what polls bring until it is that many, or the time is over
 *   seek NAME TOPIC QUEUE begin|end|OFFSET
 *   commit NAME                              what was polled so far is done
 *   committed NAME TOPIC QUEUE…
 *   stop NAME                                politely, and completely
 *   leave NAME…                              politely, without waiting for the end of it
 */
public class ClientScenes {
    static String nameserver;
    static final Map<String, DefaultMQProducer> PRODUCERS = new HashMap<>();
    static final Map<String, Push> PUSHES = new HashMap<>();
    static final Map<String, DefaultLitePullConsumer> LITES = new HashMap<>();
    static final Map<String, AtomicInteger> BUSY = new ConcurrentHashMap<>();
    static final AtomicInteger OVERLAPS = new AtomicInteger();

    static class Push {
        final DefaultMQPushConsumer consumer;
        final List<String> heard = Collections.synchronizedList(new ArrayList<>()); // as it was then: the client changes its messages

        Push(DefaultMQPushConsumer consumer) {
            this.consumer = consumer;
        }
    }

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
                out.println("!" + hex(failure.toString()));
            }
            out.println(".");
            out.flush();
        }
        System.exit(0);
    }

    static List<String> answers(String[] given) throws Exception {
        switch (given[0]) {
            case "speaks": return one(RemotingCommand.getSerializeTypeConfigInThisServer());
            case "producer": return producer(given[1], given[2], options(given, 3));
            case "send": return send(PRODUCERS.get(given[1]), given);
            case "writable": return queueIds(PRODUCERS.get(given[1]).fetchPublishMessageQueues(given[2]));
            case "offsets": return offsets(PRODUCERS.get(given[1]), given);
            case "search": return search(PRODUCERS.get(given[1]), given);
            case "push": return push(given, options(given, 5));
            case "heard": return heard(PUSHES.get(given[1]), Integer.parseInt(given[2]), Integer.parseInt(given[3]));
            case "share": return share(PUSHES.get(given[1]));
            case "subscribe":
                PUSHES.get(given[1]).consumer.subscribe(given[2], text(given[3]));
                return new ArrayList<>();
            case "persist":
                PUSHES.get(given[1]).consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
                return new ArrayList<>();
            case "overlaps": return one(OVERLAPS.get());
            case "lite": return lite(given, options(given, 3));
            case "assign": return assign(LITES.get(given[1]), given);
            case "poll": return poll(LITES.get(given[1]), Integer.parseInt(given[2]), Integer.parseInt(given[3]));
            case "seek": return seek(LITES.get(given[1]), given);
            case "commit": return commit(LITES.get(given[1]));
            case "committed": return committed(LITES.get(given[1]), given);
            case "stop": ending(given[1]).run(); return new ArrayList<>();
            case "leave":
                for (int i = 1; i < given.length; i++) {
                    new Thread(ending(given[i])).start();
                }
                return new ArrayList<>();
            default: throw new IllegalArgumentException(given[0]);
        }
    }

    static Runnable ending(String name) {
        if (PRODUCERS.containsKey(name)) {
            return PRODUCERS.remove(name)::shutdown;
        }
        return PUSHES.containsKey(name) ? PUSHES.remove(name).consumer::shutdown : LITES.remove(name)::shutdown;
    }

    // --- producers

    static List<String> producer(String name, String group, Map<String, String> options) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(nameserver);
        producer.setInstanceName(name);
        producer.setSendMsgTimeout(20_000);
        producer.setRetryTimesWhenSendFailed(Integer.parseInt(options.getOrDefault("retries", "0")));
        if (options.containsKey("traced")) {
            DefaultMQProducer.class.getMethod("setEnableTrace", boolean.class).invoke(producer, true);
        }
        if (options.containsKey("namespace")) {
            producer.setNamespace(options.get("namespace"));
        }
        if (options.containsKey("compressOver")) {
            producer.setCompressMsgBodyOverHowmuch(Integer.parseInt(options.get("compressOver")));
        }
        if (options.containsKey("compressType")) {
            Class<?> kinds = Class.forName("org.apache.rocketmq.common.compression.CompressionType");
            Object kind = kinds.getMethod("of", String.class).invoke(null, options.get("compressType"));
            DefaultMQProducer.class.getMethod("setCompressType", kinds).invoke(producer, kind);
        }
        if (options.containsKey("maxSize")) {
            producer.setMaxMessageSize(Integer.parseInt(options.get("maxSize")));
        }
        producer.start();
        PRODUCERS.put(name, producer);
        return new ArrayList<>();
    }

    static List<String> send(DefaultMQProducer producer, String[] given) throws Exception {
        List<Message> messages = new ArrayList<>();
        for (int i = 4; i < given.length; i += 6) {
            Message message = new Message(text(given[i]), unhex(given[i + 4]));
            if (!given[i + 1].equals("-")) {
                message.setTags(text(given[i + 1]));
            }
            if (!given[i + 2].equals("-")) {
                message.setKeys(text(given[i + 2]));
            }
            message.setFlag(Integer.parseInt(given[i + 3]));
            Map<String, String> properties = MessageDecoder.string2messageProperties(text(given[i + 5]));
            String level = properties.remove("DELAY");
            if (level != null) {
                message.setDelayTimeLevel(Integer.parseInt(level));
            }
            properties.forEach(message::putUserProperty);
            messages.add(message);
        }
        if (given[2].equals("async")) {
            return sendAsync(producer, given[3], messages);
        }
        List<String> results = new ArrayList<>();
        if (given[2].equals("batch")) {
            try {
                MessageQueue queue = given[3].equals("-") ? null : new MessageQueue(messages.get(0).getTopic(), broker(producer, messages.get(0)), Integer.parseInt(given[3]));
                results.add(shown(queue == null ? producer.send(messages) : producer.send(messages, queue)));
            } catch (Exception failure) {
                results.add(shown(failure));
            }
            return results;
        }
        for (Message message : messages) {
            try {
                results.add(given[2].equals("sync") ? sendSync(producer, given[3], message) : sendOneway(producer, given[3], message));
            } catch (Exception failure) {
                results.add(shown(failure));
            }
        }
        return results;
    }

    static final MessageQueueSelector BY_NUMBER = (queues, message, number) -> {
        for (MessageQueue queue : queues) {
            if (queue.getQueueId() == (Integer) number) {
                return queue;
            }
        }
        return null;
    };

    static String sendSync(DefaultMQProducer producer, String queue, Message message) throws Exception {
        if (queue.equals("-")) {
            return shown(producer.send(message));
        }
        if (queue.startsWith("=")) {
            return shown(producer.send(message, new MessageQueue(message.getTopic(), broker(producer, message), Integer.parseInt(queue.substring(1)))));
        }
        return shown(producer.send(message, BY_NUMBER, Integer.parseInt(queue)));
    }

    static String sendOneway(DefaultMQProducer producer, String queue, Message message) throws Exception {
        if (queue.equals("-")) {
            producer.sendOneway(message);
        } else {
            producer.sendOneway(message, BY_NUMBER, Integer.parseInt(queue));
        }
        return "ONEWAY";
    }

    static List<String> sendAsync(DefaultMQProducer producer, String queue, List<Message> messages) throws Exception {
        String[] results = new String[messages.size()];
        CountDownLatch left = new CountDownLatch(messages.size());
        for (int i = 0; i < results.length; i++) {
            int at = i;
            SendCallback callback = new SendCallback() {
                public void onSuccess(SendResult sent) {
                    results[at] = shown(sent);
                    left.countDown();
                }

                public void onException(Throwable failure) {
                    results[at] = shown(failure);
                    left.countDown();
                }
            };
            if (queue.equals("-")) {
                producer.send(messages.get(i), callback);
            } else {
                producer.send(messages.get(i), BY_NUMBER, Integer.parseInt(queue), callback);
            }
        }
        if (!left.await(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException(left.getCount() + " sends were not answered");
        }
        return Arrays.asList(results);
    }

    static String broker(DefaultMQProducer producer, Message message) throws Exception {
        return producer.fetchPublishMessageQueues(message.getTopic()).get(0).getBrokerName();
    }

    static MessageQueue queue(DefaultMQProducer producer, String topic, String id) throws Exception {
        return new MessageQueue(topic, producer.fetchPublishMessageQueues(topic).get(0).getBrokerName(), Integer.parseInt(id));
    }

    static List<String> offsets(DefaultMQProducer producer, String[] given) throws Exception {
        MessageQueue queue = queue(producer, given[2], given[3]);
        return one(producer.minOffset(queue) + " " + producer.maxOffset(queue) + " " + producer.earliestMsgStoreTime(queue));
    }

    static List<String> search(DefaultMQProducer producer, String[] given) throws Exception {
        MessageQueue queue = queue(producer, given[2], given[3]);
        List<String> found = new ArrayList<>();
        for (int i = 5; i < given.length; i++) {
            long time = Long.parseLong(given[i]);
            if (given[4].equals("-")) {
                found.add(Long.toString(producer.searchOffset(queue, time)));
            } else {
                Class<?> boundaries = Class.forName("org.apache.rocketmq.common.BoundaryType");
                Object boundary = boundaries.getMethod("getType", String.class).invoke(null, given[4]);
                Object admin = producer.getDefaultMQProducerImpl().getMqClientFactory().getMQAdminImpl();
                found.add(admin.getClass().getMethod("searchOffset", MessageQueue.class, long.class, boundaries).invoke(admin, queue, time, boundary).toString());
            }
        }
        return found;
    }

    // --- push consumers

    static List<String> push(String[] given, Map<String, String> options) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(given[2]);
        Push push = new Push(consumer);
        int slowMs = Integer.parseInt(options.getOrDefault("slowMs", "0"));
        int fails = Integer.parseInt(options.getOrDefault("fails", "0"));
        int level = Integer.parseInt(options.getOrDefault("level", "0"));
        consumer.setMaxReconsumeTimes(Integer.parseInt(options.getOrDefault("tries", "-1")));
        consumer.setSuspendCurrentQueueTimeMillis(Integer.parseInt(options.getOrDefault("suspendMs", "1000")));
        consumer.setNamesrvAddr(nameserver);
        consumer.setInstanceName(given[1]);
        consumer.setAwaitTerminationMillisWhenShutdown(10_000); // a listener that is at work may end it
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setPollNameServerInterval(Integer.parseInt(options.getOrDefault("pollMs", "30000")));
        // The type of a model is in another package in each version: it must not be named.
        consumer.setMessageModel(Enum.valueOf(consumer.getMessageModel().getDeclaringClass(), options.getOrDefault("model", "CLUSTERING")));
        if (options.containsKey("namespace")) {
            consumer.setNamespace(options.get("namespace"));
        }
        if (options.containsKey("sql")) {
            consumer.subscribe(given[3], MessageSelector.bySql(text(given[4])));
        } else {
            consumer.subscribe(given[3], text(given[4]));
        }
        String from = options.getOrDefault("from", "first");
        if (from.equals("first")) {
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        } else if (from.equals("last")) {
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        } else {
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_TIMESTAMP);
            consumer.setConsumeTimestamp(from);
        }
        if ("orderly".equals(options.get("listener"))) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                MessageExt first = messages.get(0);
                AtomicInteger busy = BUSY.computeIfAbsent(given[2] + "/" + context.getMessageQueue(), key -> new AtomicInteger());
                if (busy.incrementAndGet() > 1) {
                    OVERLAPS.incrementAndGet();
                }
                hear(push, messages, slowMs);
                busy.decrementAndGet();
                return first.getReconsumeTimes() < fails ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                hear(push, messages, slowMs);
                context.setDelayLevelWhenNextConsume(level);
                return messages.get(0).getReconsumeTimes() < fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        PUSHES.put(given[1], push);
        return new ArrayList<>();
    }

    static void hear(Push push, List<MessageExt> messages, int slowMs) {
        try {
            Thread.sleep(slowMs);
        } catch (InterruptedException ending) {
            Thread.currentThread().interrupt();
        }
        synchronized (push.heard) {
            push.heard.addAll(shown(messages));
            push.heard.notifyAll();
        }
    }

    static List<String> heard(Push push, int count, int waitMs) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMs);
        synchronized (push.heard) {
            while (push.heard.size() < count && deadline > System.nanoTime()) {
                push.heard.wait(50);
            }
            return new ArrayList<>(push.heard);
        }
    }

    static List<String> share(Push push) {
        Collection<MessageQueue> queues = new ArrayList<>(push.consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet());
        queues.removeIf(queue -> queue.getTopic().startsWith("%RETRY%"));
        return queueIds(queues);
    }

    // --- lite pull consumers

    static List<String> lite(String[] given, Map<String, String> options) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(given[2]);
        consumer.setNamesrvAddr(nameserver);
        consumer.setInstanceName(given[1]);
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setAutoCommit(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (options.containsKey("topic")) {
            String expression = text(options.get("expression"));
            if (options.containsKey("sql")) {
                consumer.subscribe(options.get("topic"), MessageSelector.bySql(expression));
            } else {
                consumer.subscribe(options.get("topic"), expression);
            }
        }
        consumer.start();
        LITES.put(given[1], consumer);
        return new ArrayList<>();
    }

    static MessageQueue queue(DefaultLitePullConsumer consumer, String topic, String id) throws Exception {
        for (MessageQueue queue : consumer.fetchMessageQueues(topic)) {
            if (queue.getQueueId() == Integer.parseInt(id)) {
                return queue;
            }
        }
        throw new IllegalArgumentException(topic + " has no queue " + id);
    }

    static List<String> assign(DefaultLitePullConsumer consumer, String[] given) throws Exception {
        List<MessageQueue> queues = new ArrayList<>();
        for (int i = 3; i < given.length; i++) {
            queues.add(queue(consumer, given[2], given[i]));
        }
        consumer.assign(queues);
        return new ArrayList<>();
    }

    static List<String> poll(DefaultLitePullConsumer consumer, int count, int waitMs) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMs);
        List<MessageExt> polled = new ArrayList<>();
        while (polled.size() < count && deadline > System.nanoTime()) {
            polled.addAll(consumer.poll(100));
        }
        return shown(polled);
    }

    static List<String> seek(DefaultLitePullConsumer consumer, String[] given) throws Exception {
        MessageQueue queue = queue(consumer, given[2], given[3]);
        if (given[4].equals("begin")) {
            consumer.seekToBegin(queue);
        } else if (given[4].equals("end")) {
            consumer.seekToEnd(queue);
        } else {
            consumer.seek(queue, Long.parseLong(given[4]));
        }
        return new ArrayList<>();
    }

    static List<String> commit(DefaultLitePullConsumer consumer) throws Exception {
        consumer.commit(consumer.assignment(), true);
        return new ArrayList<>();
    }

    static List<String> committed(DefaultLitePullConsumer consumer, String[] given) throws Exception {
        List<String> found = new ArrayList<>();
        for (int i = 3; i < given.length; i++) {
            found.add(Long.toString(consumer.committed(queue(consumer, given[2], given[i]))));
        }
        return found;
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

    static List<String> one(Object line) {
        return new ArrayList<>(Collections.singletonList(line.toString()));
    }

    static List<String> queueIds(Collection<MessageQueue> queues) {
        List<String> ids = new ArrayList<>();
        for (MessageQueue queue : new TreeSet<>(queues)) {
            ids.add(Integer.toString(queue.getQueueId()));
        }
        return ids;
    }

    static String shown(SendResult sent) {
        return String.join(" ", sent.getSendStatus().toString(), Integer.toString(sent.getMessageQueue().getQueueId()),
            Long.toString(sent.getQueueOffset()), sent.getMsgId(), sent.getOffsetMsgId());
    }

    static String shown(Throwable failure) {
        int code = 0;
        if (failure instanceof MQBrokerException) {
            code = ((MQBrokerException) failure).getResponseCode();
        } else if (failure instanceof MQClientException) {
            code = ((MQClientException) failure).getResponseCode();
        }
        return String.join(" ", "FAILED", failure.getClass().getSimpleName(), Integer.toString(code), hex(String.valueOf(failure.getMessage())));
    }

    static List<String> shown(List<MessageExt> messages) {
        List<String> lines = new ArrayList<>();
        for (MessageExt message : messages) {
            lines.add(String.join(" ",
                hex(message.getTopic()),
                Integer.toString(message.getQueueId()),
                Long.toString(message.getQueueOffset()),
                message.getMsgId(),
                Integer.toString(message.getFlag()),
                Integer.toString(message.getSysFlag()),
                Integer.toString(message.getStoreSize()),
                Long.toString(message.getBornTimestamp()),
                Long.toString(message.getStoreTimestamp()),
                Integer.toString(message.getReconsumeTimes()),
                hex(message.getBody()),
                hex(MessageDecoder.messageProperties2String(new TreeMap<>(message.getProperties())))));
        }
        return lines;
    }

    static String hex(String text) {
        return hex(text.getBytes(StandardCharsets.UTF_8));
    }

    static String hex(byte[] bytes) {
        if (bytes == null || bytes.length == 0) {
            return "-";
        }
        char[] digits = new char[2 * bytes.length];
        for (int i = 0; i < bytes.length; i++) {
            digits[2 * i] = Character.forDigit(bytes[i] >> 4 & 15, 16);
            digits[2 * i + 1] = Character.forDigit(bytes[i] & 15, 16);
        }
        return new String(digits);
    }

    static byte[] unhex(String digits) {
        if (digits.equals("-")) {
            return new byte[0];
        }
        byte[] bytes = new byte[digits.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) (Character.digit(digits.charAt(2 * i), 16) << 4 | Character.digit(digits.charAt(2 * i + 1), 16));
        }
        return bytes;
    }

    static String text(String digits) {
        return new String(unhex(digits), StandardCharsets.UTF_8);
    }
}
