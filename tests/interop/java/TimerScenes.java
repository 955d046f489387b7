import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A producer of timed messages, which takes some of them back, and a consumer: line by line, the answer ends with a single dot.
 *
 *   send TOPIC HOW VALUE BODY    HOW: sec, ms (a delay), at (a time in ms). OK and the recall handle ("-" when there is none), or
 *                                FAILED and the broker's code
 *   recall TOPIC HANDLE          OK and the message's id, or FAILED and the broker's code
 *   listen GROUP TOPIC
 *   heard COUNT WAIT_MS          what came so far: body, when it was asked for, stored and handed over, its key; waits for so many
 */
public class TimerScenes {
    static final List<String> HEARD = Collections.synchronizedList(new ArrayList<>());
    static DefaultMQProducer producer;
    static String nameserver;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "US-ASCII");
        System.setOut(System.err);
        nameserver = arguments[0];
        producer = new DefaultMQProducer("timer-producers");
        producer.setNamesrvAddr(nameserver);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setSendMsgTimeout(20_000);
        producer.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                for (String answer : answers(line.split(" "))) {
                    out.println(answer);
                }
            } catch (MQBrokerException refused) {
                out.println("FAILED " + refused.getResponseCode());
            } catch (Exception failure) {
                failure.printStackTrace();
                StringBuilder hex = new StringBuilder("!");
                for (byte one : failure.toString().getBytes(StandardCharsets.UTF_8)) {
                    hex.append(String.format("%02x", one));
                }
                out.println(hex);
            }
            out.println(".");
            out.flush();
        }
        System.exit(0);
    }

    static List<String> answers(String[] given) throws Exception {
        switch (given[0]) {
            case "send": return send(given[1], given[2], Long.parseLong(given[3]), given[4]);
            case "recall": return Collections.singletonList("OK " + producer.recallMessage(given[1], given[2]));
            case "listen": return listen(given[1], given[2]);
            case "heard": return heard(Integer.parseInt(given[1]), Long.parseLong(given[2]));
            default: throw new IllegalArgumentException(given[0]);
        }
    }

    static List<String> send(String topic, String how, long value, String body) throws Exception {
        Message message = new Message(topic, "timed", body, body.getBytes(StandardCharsets.US_ASCII));
        if (how.equals("sec")) {
            message.setDelayTimeSec(value);
        } else if (how.equals("ms")) {
            message.setDelayTimeMs(value);
        } else {
            message.setDeliverTimeMs(value);
        }
        SendResult sent = producer.send(message);
        String handle = sent.getRecallHandle();
        return Collections.singletonList("OK " + (handle == null ? "-" : handle) + " " + sent.getMsgId());
    }

    static List<String> listen(String group, String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameserver);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "timed");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                HEARD.add(new String(message.getBody(), StandardCharsets.US_ASCII) + " " + message.getBornTimestamp() + " "
                    + message.getStoreTimestamp() + " " + System.currentTimeMillis() + " " + message.getKeys());
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return new ArrayList<>();
    }

    static List<String> heard(int count, long waitMs) throws Exception {
        long deadline = System.currentTimeMillis() + waitMs;
        while (HEARD.size() < count && System.currentTimeMillis() < deadline) {
            Thread.sleep(10);
        }
        synchronized (HEARD) {
            return new ArrayList<>(HEARD);
        }
    }
}
