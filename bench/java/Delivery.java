import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Times messages of Apache's producer until Apache's push consumer calls the listener. Both are in this process, so one clock counts.
 * Arguments: nameserver, topic, seconds, messages a second, seconds of warm-up. Prints one line of JSON, as bench/loadgen does.
 */
public class Delivery {
    static final int BODY_BYTES = 1024, LATENCIES_MAX = 1 << 20;

    public static void main(String[] args) throws Exception {
        try {
            run(args[0], args[1], Double.parseDouble(args[2]), Double.parseDouble(args[3]), Double.parseDouble(args[4]));
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);  // otherwise threads of the client keep the process alive
        }
        System.exit(0);
    }

    static void run(String nameserver, String topic, double seconds, double pace, double warmUpSeconds) throws Exception {
        long[] latencies = new long[LATENCIES_MAX];
        AtomicInteger received = new AtomicInteger();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("JavaDelivery");
        consumer.setNamesrvAddr(nameserver);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = System.nanoTime();
            for (MessageExt message : messages) {
                latencies[received.getAndIncrement() % LATENCIES_MAX] = now - ByteBuffer.wrap(message.getBody()).getLong();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer producer = new DefaultMQProducer("JavaDelivery");
        producer.setNamesrvAddr(nameserver);
        producer.start();
        send(producer, topic);  // the topic exists before the consumer asks for its route
        consumer.start();
        awaitFirst(producer, topic, received);
        sendPaced(producer, topic, warmUpSeconds, pace);

        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long began = System.nanoTime(), cpu = system.getProcessCpuTime();
        int first = received.get(), sent = sendPaced(producer, topic, seconds, pace);
        for (int waits = 0; received.get() < first + sent && waits < 1000; waits++) {
            Thread.sleep(5);
        }
        double took = (System.nanoTime() - began) / 1e9, spent = (system.getProcessCpuTime() - cpu) / 1e9;
        int count = Math.min(received.get(), LATENCIES_MAX) - first;
        long[] sorted = Arrays.copyOfRange(latencies, first, first + count);
        Arrays.sort(sorted);
        System.out.printf(
            "{\"requests\":%d,\"messages\":%d,\"refused\":0,\"seconds\":%.4f,\"cpu_s\":%.4f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f}%n",
            sent, count, took, spent, share(sorted, 0.5), share(sorted, 0.99), share(sorted, 0.999));
    }

    static void send(DefaultMQProducer producer, String topic) throws Exception {
        byte[] body = new byte[BODY_BYTES];
        ByteBuffer.wrap(body).putLong(System.nanoTime());
        producer.send(new Message(topic, body));
    }

    /** A new group reads from the end, so what is sent before its first pull of a queue may be skipped. */
    static void awaitFirst(DefaultMQProducer producer, String topic, AtomicInteger received) throws Exception {
        for (int tries = 0; received.get() < 64; tries++) {
            if (tries > 600) {
                throw new IllegalStateException("the consumer received nothing within 30 s");
            }
            send(producer, topic);
            Thread.sleep(50);
        }
    }

    static int sendPaced(DefaultMQProducer producer, String topic, double seconds, double pace) throws Exception {
        long began = System.nanoTime(), step = (long) (1e9 / pace);
        int sent = 0;
        while (System.nanoTime() - began < seconds * 1e9) {
            send(producer, topic);
            sent++;
            LockSupport.parkNanos(began + sent * step - System.nanoTime());
        }
        return sent;
    }

    static double share(long[] sorted, double part) {
        return sorted.length == 0 ? 0 : sorted[(int) Math.min(sorted.length - 1, part * sorted.length)] / 1e3;
    }
}
