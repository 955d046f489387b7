import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** Measures Apache's client as bench/client_beside.py measures ours. A line per round: what, messages per second, CPU microseconds per message. */
public class ClientBench {
    static final OperatingSystemMXBean SYSTEM = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    public static void main(String[] args) throws Exception {
        String nameserver = args[0], topic = args[1];
        int messages = Integer.parseInt(args[2]), inFlight = Integer.parseInt(args[3]);
        int bodyBytes = Integer.parseInt(args[4]), rounds = Integer.parseInt(args[5]);
        try {
            sends(nameserver, topic, messages, inFlight, bodyBytes, rounds);
            for (int round = 0; round < rounds; round++) {
                receives(nameserver, topic, messages, round);
            }
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);  // otherwise threads of the client keep the process alive
        }
        System.exit(0);
    }

    static void sends(String nameserver, String topic, int messages, int inFlight, int bodyBytes, int rounds) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("JavaBench");
        producer.setNamesrvAddr(nameserver);
        producer.setSendMsgTimeout(30_000);
        producer.start();
        byte[] body = new byte[bodyBytes];
        java.util.Arrays.fill(body, (byte) 'x');
        producer.send(new Message(topic, "web", body));
        for (int round = 0; round < rounds; round++) {
            Semaphore room = new Semaphore(inFlight);
            AtomicReference<Throwable> failed = new AtomicReference<>();
            long startedNs = System.nanoTime(), cpuNs = SYSTEM.getProcessCpuTime();
            for (int sent = 0; sent < messages; sent++) {
                room.acquire();
                producer.send(new Message(topic, "web", body), new SendCallback() {
                    @Override
                    public void onSuccess(SendResult result) {
                        room.release();
                    }

                    @Override
                    public void onException(Throwable error) {
                        failed.set(error);
                        room.release();
                    }
                });
            }
            room.acquire(inFlight);
            if (failed.get() != null) {
                throw new IllegalStateException("a message could not be sent", failed.get());
            }
            report("send", messages, startedNs, cpuNs);
        }
        producer.shutdown();
    }

    static void receives(String nameserver, String topic, int messages, int round) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("JavaBench" + round);
        consumer.setNamesrvAddr(nameserver);
        consumer.setInstanceName("round" + round);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        AtomicInteger got = new AtomicInteger();
        Semaphore begun = new Semaphore(0), done = new Semaphore(0);
        int first = messages / 10;
        consumer.registerMessageListener((MessageListenerConcurrently) (List<org.apache.rocketmq.common.message.MessageExt> batch,
                org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext context) -> {
            int count = got.addAndGet(batch.size());
            if (count == first) {
                begun.release();
            } else if (count == messages) {
                done.release();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        begun.acquire();
        long startedNs = System.nanoTime(), cpuNs = SYSTEM.getProcessCpuTime();
        done.acquire();
        report("receive", messages - first, startedNs, cpuNs);
        consumer.shutdown();
    }

    static void report(String what, int messages, long startedNs, long cpuNs) {
        double tookNs = System.nanoTime() - startedNs, usedNs = SYSTEM.getProcessCpuTime() - cpuNs;
        System.out.printf("%s %.0f %.2f%n", what, messages / tookNs * 1e9, usedNs / messages / 1e3);
    }
}
