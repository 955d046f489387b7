import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Apache's clients and administrator in one Java machine, asked line by line: a line in is a verb and its arguments, the answer is
 * lines and then a single dot. What has blanks travels as hexadecimal.
 *
 *   admin ARGUMENT…                          mqadmin; what it printed, one line in hexadecimal
 *   exchange NAMESERVER TOPIC COUNT          send that many messages, receive them with a push consumer; how many different came
 */
public class NameserverClient {
    static final PrintStream ERRORS = System.err;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "US-ASCII");
        System.setOut(ERRORS);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] given = line.split(" ");
            try {
                out.println(given[0].equals("admin") ? admin(Arrays.copyOfRange(given, 1, given.length)) : exchange(given));
            } catch (Exception failure) {
                failure.printStackTrace();
                out.println("!" + hex(failure.toString()));
            }
            out.println(".");
            out.flush();
        }
        System.exit(0);
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
        return hex(printed.toString("UTF-8"));
    }

    static String exchange(String[] given) throws Exception {
        int count = Integer.parseInt(given[3]);
        Set<String> received = new ConcurrentSkipListSet<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("NameserverClientGroup");
        consumer.setNamesrvAddr(given[1]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(given[2], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                received.add(new String(message.getBody(), StandardCharsets.UTF_8));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer producer = new DefaultMQProducer("NameserverClientProducers");
        producer.setNamesrvAddr(given[1]);
        producer.start();
        consumer.start();
        try {
            for (int i = 0; i < count; i++) {
                producer.send(new Message(given[2], ("message " + i).getBytes(StandardCharsets.UTF_8)));
            }
            for (int i = 0; i < 300 && received.size() < count; i++) {
                Thread.sleep(100);
            }
            return Integer.toString(received.size());
        } finally {
            producer.shutdown();
            new Thread(consumer::shutdown).start(); // it takes three seconds
        }
    }

    static String hex(String text) {
        StringBuilder shown = new StringBuilder("-");
        for (byte each : text.getBytes(StandardCharsets.UTF_8)) {
            shown.append(String.format("%02x", each));
        }
        return shown.toString();
    }
}
