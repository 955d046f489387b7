import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Apache's client as load on brokers that fail: FailoverLoad NAMESERVER TOPIC SENDERS PAUSE_MS POLL_MS. Each sender sends numbered
 * messages, one after another, and sends none again; an orderly consumer takes everything. Prints what happens, a line each:
 *
 *   sent BODY QUEUE OFFSET     acknowledged
 *   failed KIND                not acknowledged
 *   got BODY QUEUE OFFSET      consumed
 *   ended                      after the line "stop" on the standard input: the senders send no more
 */
public class FailoverLoad {
    static PrintStream out;
    static volatile boolean stopped;

    public static void main(String[] arguments) throws Exception {
        out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "US-ASCII");
        System.setOut(System.err);
        int pollMs = Integer.parseInt(arguments[4]);
        for (boolean started = false; !started; ) { // a nameserver on a busy machine may not answer in time
            started = consume(arguments[0], arguments[1], pollMs);
        }
        List<Thread> senders = new ArrayList<>();
        for (int sender = 0; sender < Integer.parseInt(arguments[2]); sender++) {
            DefaultMQProducer producer = new DefaultMQProducer("java-producers-" + sender);
            producer.setNamesrvAddr(arguments[0]);
            producer.setInstanceName("producer-" + sender);
            producer.setPollNameServerInterval(pollMs);
            producer.setSendMsgTimeout(1_000);
            producer.setRetryTimesWhenSendFailed(0);
            producer.start();
            String name = "java" + sender;
            senders.add(new Thread(() -> send(producer, arguments[1], name, Integer.parseInt(arguments[3]))));
            senders.get(sender).start();
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            stopped = true;
            for (Thread sender : senders) {
                sender.join();
            }
            say("ended");
        }
        System.exit(0);
    }

    static boolean consume(String nameserver, String topic, int pollMs) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("java-consumers");
        consumer.setNamesrvAddr(nameserver);
        consumer.setInstanceName("consumer");
        consumer.setPollNameServerInterval(pollMs);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt message : messages) {
                String body = new String(message.getBody(), StandardCharsets.US_ASCII);
                say("got " + body + " " + message.getQueueId() + " " + message.getQueueOffset());
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        try {
            consumer.start();
            return true;
        } catch (Exception failure) {
            failure.printStackTrace();
            consumer.shutdown();
            pause();
            return false;
        }
    }

    static void send(DefaultMQProducer producer, String topic, String name, int pauseMs) {
        for (int number = 1; !stopped; number++) {
            String body = name + "/" + number;
            try {
                SendResult result = producer.send(new Message(topic, body.getBytes(StandardCharsets.US_ASCII)));
                if (result.getSendStatus() == SendStatus.SEND_OK) {
                    say("sent " + body + " " + result.getMessageQueue().getQueueId() + " " + result.getQueueOffset());
                } else {
                    say("failed " + result.getSendStatus());
                }
                Thread.sleep(pauseMs);
            } catch (Exception failure) {
                say("failed " + failure.getClass().getSimpleName());
                pause();
            }
        }
    }

    static void pause() {
        try {
            Thread.sleep(20);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    static synchronized void say(String line) {
        out.println(line);
        out.flush();
    }
}
