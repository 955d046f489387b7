import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.exception.RemotingException;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Apache's administrator beside producers and consumers that stay, asked line by line: a line in is a verb and its arguments, the
 * answer is lines and then a single dot. A failure is one line that starts with "!".
 *
 *   admin ARGUMENT…                              mqadmin; what it printed, one line in hexadecimal
 *   produce NAMESERVER GROUP                     start a producer
 *   send GROUP TOPIC FIRST COUNT SIZE            one message after the other, each until a broker has it: NUMBER BROKER QUEUE OFFSET
 *   deal GROUP TOPIC FIRST COUNT SIZE            the same, number after number to queue after queue
 *   queues GROUP TOPIC                           the queues that a producer may send to: BROKER QUEUE
 *   consume NAMESERVER GROUP TOPIC BATCH         start a consumer that commits every half second
 *   received GROUP                               what all consumers of a group got, in order: NUMBER BROKER QUEUE OFFSET
 *   stop GROUP                                   end the producer and the consumer of a group
 */
public class Admin {
    static final PrintStream ERRORS = System.err;
    static final int TRIES_MAX = 500;
    static final Map<String, DefaultMQProducer> PRODUCERS = new ConcurrentHashMap<>();
    static final Map<String, DefaultMQPushConsumer> CONSUMERS = new ConcurrentHashMap<>();
    static final Map<String, Queue<String>> RECEIVED = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "US-ASCII");
        System.setOut(ERRORS);
        hurry(Thread.currentThread());
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

    /** A client that is shut down waits three seconds for a thread of its own that waits for an event: an interruption is one. */
    static void hurry(Thread main) {
        Thread hurrying = new Thread(() -> {
            while (true) {
                try {
                    Thread.sleep(20);
                } catch (InterruptedException stop) {
                    return;
                }
                for (StackTraceElement frame : main.getStackTrace()) {
                    if (frame.getMethodName().equals("shutdown") && frame.getClassName().endsWith(".NettyRemotingClient")) {
                        for (Thread thread : Thread.getAllStackTraces().keySet()) {
                            if (thread.getName().startsWith("NettyEventExecutor")) {
                                thread.interrupt();
                            }
                        }
                    }
                }
            }
        });
        hurrying.setDaemon(true);
        hurrying.start();
    }

    static List<String> answers(String[] given) throws Exception {
        switch (given[0]) {
            case "admin":
                return Collections.singletonList("-" + hex(admin(Arrays.copyOfRange(given, 1, given.length))));
            case "produce":
                produce(given[1], given[2]);
                return Collections.emptyList();
            case "send":
            case "deal":
                return send(PRODUCERS.get(given[1]), given);
            case "queues":
                List<String> queues = new ArrayList<>();
                for (MessageQueue queue : PRODUCERS.get(given[1]).fetchPublishMessageQueues(given[2])) {
                    queues.add(queue.getBrokerName() + " " + queue.getQueueId());
                }
                return queues;
            case "consume":
                consume(given);
                return Collections.emptyList();
            case "received":
                return new ArrayList<>(RECEIVED.get(given[1]));
            case "stop":
                stop(given[1]);
                return Collections.emptyList();
            default:
                throw new IllegalArgumentException(given[0]);
        }
    }

    static String admin(String[] arguments) throws Exception {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream to = new PrintStream(printed, true, "UTF-8");
        System.setOut(to);
        System.setErr(to);
        try {
            MQAdminStartup.main0(arguments, null);
        } finally {
            System.setOut(ERRORS);
            System.setErr(ERRORS);
        }
        return printed.toString("UTF-8");
    }

    static void produce(String nameserver, String group) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(nameserver);
        producer.setInstanceName(group);
        producer.setPollNameServerInterval(1_000);
        producer.setHeartbeatBrokerInterval(1_000);
        producer.setRetryTimesWhenSendFailed(0); // each try is our own, so that a message that was sent twice is told from one that was not
        producer.setSendMsgTimeout(10_000);
        producer.start();
        PRODUCERS.put(group, producer);
    }

    static List<String> send(DefaultMQProducer producer, String[] given) throws Exception {
        int first = Integer.parseInt(given[3]);
        int size = Integer.parseInt(given[5]);
        List<String> sent = new ArrayList<>();
        for (int number = first; number < first + Integer.parseInt(given[4]); number++) {
            sent.add(sendOne(producer, given[2], number, size, given[0].equals("deal")));
        }
        return sent;
    }

    static String sendOne(DefaultMQProducer producer, String topic, int number, int size, boolean deal) throws Exception {
        StringBuilder body = new StringBuilder(Integer.toString(number)).append(' ');
        while (body.length() < size) {
            body.append('.');
        }
        Exception last = null;
        for (int tries = 0; tries < TRIES_MAX; tries++) {
            try {
                Message message = new Message(topic, "tag" + number % 3, "key" + number, body.toString().getBytes(StandardCharsets.US_ASCII));
                SendResult result = deal
                    ? producer.send(message, (queues, given, argument) -> queues.get(number % queues.size()), null)
                    : producer.send(message);
                MessageQueue queue = result.getMessageQueue();
                return number + " " + queue.getBrokerName() + " " + queue.getQueueId() + " " + result.getQueueOffset();
            } catch (RemotingException | MQBrokerException | MQClientException failure) {
                last = failure;
                Thread.sleep(100);
            }
        }
        throw last;
    }

    static void consume(String[] given) throws Exception {
        Queue<String> received = RECEIVED.computeIfAbsent(given[2], group -> new ConcurrentLinkedQueue<>());
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(given[2]);
        consumer.setNamesrvAddr(given[1]);
        consumer.setInstanceName(given[2]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPollNameServerInterval(1_000);
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setPullBatchSize(Integer.parseInt(given[4]));
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        consumer.setAwaitTerminationMillisWhenShutdown(10_000); // or the offsets of what the listener has just got are not committed
        consumer.subscribe(given[3], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                String number = new String(message.getBody(), StandardCharsets.US_ASCII).split(" ")[0];
                received.add(number + " " + message.getBrokerName() + " " + message.getQueueId() + " " + message.getQueueOffset());
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        CONSUMERS.put(given[2], consumer);
    }

    static void stop(String group) {
        DefaultMQProducer producer = PRODUCERS.remove(group);
        if (producer != null) {
            producer.shutdown();
        }
        DefaultMQPushConsumer consumer = CONSUMERS.remove(group);
        if (consumer != null) {
            consumer.shutdown(); // commits what was consumed
        }
    }

    static String hex(String text) {
        StringBuilder shown = new StringBuilder();
        for (byte each : text.getBytes(StandardCharsets.UTF_8)) {
            shown.append(String.format("%02x", each));
        }
        return shown.toString();
    }
}
