import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Apache's producer of transactions, line by line: a line in is a verb and its arguments, the answer is lines and then a single dot.
 * Text and bytes travel as hexadecimal ("-" when empty). A failure is one line that starts with "!".
 *
 *   producer NAME GROUP
 *   transact NAME OUTCOME TOPIC TAGS FLAG BODY PROPERTIES   send it, and end the transaction: COMMIT_MESSAGE, ROLLBACK_MESSAGE, UNKNOW
 *   answer OUTCOME BODY…                                    what is said when the broker asks about a message; until then UNKNOW
 *   asked COUNT WAIT_MS                                     what the broker asked about so far; waits until it is that many
 *   push NAME GROUP TOPIC
 *   heard NAME COUNT WAIT_MS                                what a push consumer got so far; waits until it is that many
 *   stop NAME
 */
public class TransactionScenes {
    static String nameserver;
    static final Map<String, TransactionMQProducer> PRODUCERS = new HashMap<>();
    static final Map<String, DefaultMQPushConsumer> CONSUMERS = new HashMap<>();
    static final Map<String, List<MessageExt>> HEARD = new HashMap<>();
    static final List<MessageExt> ASKED = new ArrayList<>();
    static final Map<String, LocalTransactionState> OUTCOMES = new ConcurrentHashMap<>();

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
            case "producer": return producer(given[1], given[2]);
            case "transact": return transact(PRODUCERS.get(given[1]), given);
            case "answer": return answer(given);
            case "asked": return waited(ASKED, Integer.parseInt(given[1]), Integer.parseInt(given[2]));
            case "push": return push(given[1], given[2], given[3]);
            case "heard": return waited(HEARD.get(given[1]), Integer.parseInt(given[2]), Integer.parseInt(given[3]));
            case "stop": return stop(given[1]);
            default: throw new IllegalArgumentException(given[0]);
        }
    }

    static List<String> producer(String name, String group) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(group);
        producer.setNamesrvAddr(nameserver);
        producer.setInstanceName(name);
        producer.setSendMsgTimeout(20_000);
        producer.setHeartbeatBrokerInterval(500);
        producer.setPollNameServerInterval(500);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object outcome) {
                return (LocalTransactionState) outcome;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                synchronized (ASKED) {
                    ASKED.add(message);
                    ASKED.notifyAll();
                }
                return OUTCOMES.getOrDefault(hex(message.getBody()), LocalTransactionState.UNKNOW);
            }
        });
        producer.start();
        PRODUCERS.put(name, producer);
        return new ArrayList<>();
    }

    static List<String> transact(TransactionMQProducer producer, String[] given) throws Exception {
        Message message = new Message(text(given[3]), text(given[4]), "", Integer.parseInt(given[5]), unhex(given[6]), true);
        for (Map.Entry<String, String> property : MessageDecoder.string2messageProperties(text(given[7])).entrySet()) {
            if (property.getKey().equals("DELAY")) {
                message.setDelayTimeLevel(Integer.parseInt(property.getValue()));
            } else {
                message.putUserProperty(property.getKey(), property.getValue());
            }
        }
        TransactionSendResult sent = producer.sendMessageInTransaction(message, LocalTransactionState.valueOf(given[2]));
        List<String> lines = new ArrayList<>();
        lines.add(String.join(" ", sent.getSendStatus().toString(), Integer.toString(sent.getMessageQueue().getQueueId()),
            Long.toString(sent.getQueueOffset()), sent.getMsgId(), sent.getTransactionId(), sent.getLocalTransactionState().toString()));
        return lines;
    }

    static List<String> answer(String[] given) {
        for (int i = 2; i < given.length; i++) {
            OUTCOMES.put(given[i], LocalTransactionState.valueOf(given[1]));
        }
        return new ArrayList<>();
    }

    static List<String> push(String name, String group, String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        List<MessageExt> heard = new ArrayList<>();
        consumer.setNamesrvAddr(nameserver);
        consumer.setInstanceName(name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setPollNameServerInterval(500);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            synchronized (heard) {
                heard.addAll(messages);
                heard.notifyAll();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        CONSUMERS.put(name, consumer);
        HEARD.put(name, heard);
        return new ArrayList<>();
    }

    static List<String> stop(String name) {
        if (PRODUCERS.containsKey(name)) {
            PRODUCERS.remove(name).shutdown();
        } else {
            CONSUMERS.remove(name).shutdown();
        }
        return new ArrayList<>();
    }

    static List<String> waited(List<MessageExt> messages, int count, int waitMs) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMs);
        synchronized (messages) {
            while (messages.size() < count && deadline > System.nanoTime()) {
                messages.wait(50);
            }
            List<String> lines = new ArrayList<>();
            for (MessageExt message : messages) {
                lines.add(shown(message));
            }
            return lines;
        }
    }

    static String shown(MessageExt message) {
        return String.join(" ",
            hex(message.getTopic().getBytes(StandardCharsets.UTF_8)),
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
            hex(MessageDecoder.messageProperties2String(new TreeMap<>(message.getProperties())).getBytes(StandardCharsets.UTF_8)));
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
