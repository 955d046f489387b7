import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.message.MessageQueue;

/** Pulls from queue 0 of a topic with Apache's client, asks for 1,024 messages, and prints how many came. */
public final class PullSize {
    public static void main(String[] given) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("pull-size");
        consumer.setNamesrvAddr(given[0]);
        consumer.start();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(given[1])) {
            if (queue.getQueueId() == 0) {
                PullResult pulled = consumer.pull(queue, "*", 0, 1024, 10_000);
                System.out.println(pulled.getMsgFoundList().size());
            }
        }
        System.out.flush();
        Runtime.getRuntime().halt(0); // a shutdown takes three seconds
    }
}
